// Finding a label on any axis: a text box with a list, after the ARIA combobox pattern.

const MOST_MATCHES = 10;

const plainText = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

let searchable = null; // made when the box is first used

function labelsToSearch() {
  searchable ??= axes.flatMap((axis) => axis.labels.map((label, row) => ({ axis, row, text: plainText(label) })));
  return searchable;
}

// Whole labels first, then beginnings, beginnings of words, and the rest; the frequent first.
function matchesOf(query) {
  const wanted = plainText(query.trim());
  if (wanted === "") return [];
  const grade = (text) => {
    const place = text.indexOf(wanted);
    if (place < 0) return null;
    return text === wanted ? 0 : place === 0 ? 1 : /[^\p{L}\p{N}]/u.test(text[place - 1]) ? 2 : 3;
  };
  return labelsToSearch()
    .map((entry) => ({ ...entry, grade: grade(entry.text) }))
    .filter((entry) => entry.grade !== null)
    .sort((a, b) => a.grade - b.grade || b.axis.overall[b.row] - a.axis.overall[a.row]);
}

function startSearch() {
  const box = byId("query"), list = byId("matches");
  let found = [], active = -1;

  const close = () => {
    list.hidden = true;
    active = -1;
    box.setAttribute("aria-expanded", "false");
    box.removeAttribute("aria-activedescendant");
  };
  const choose = (match) => {
    close();
    box.value = "";
    chooseEntity(match.axis, match.row);
  };
  const clicked = (event, match) => {
    event.preventDefault(); // or the box would lose the focus, and the list close
    choose(match);
  };
  const option = (match, place) =>
    element("li",
      { id: `match-${place}`, role: "option", "aria-selected": false, onmousedown: (event) => clicked(event, match) },
      labelNode(match.axis.labels[match.row]), element("span", { class: "note" }, match.axis.name));
  const open = () => {
    const all = matchesOf(box.value);
    found = all.slice(0, MOST_MATCHES);
    active = -1;
    box.removeAttribute("aria-activedescendant");
    list.replaceChildren(...found.map(option));
    if (box.value.trim() === "") return close();
    const rest = all.length - found.length;
    const remark = rest ? `and ${whole.format(rest)} more: go on typing` : "No label on this page has that in it.";
    if (rest || all.length === 0) list.append(element("li", { class: "note", role: "presentation" }, remark));
    list.hidden = false;
    box.setAttribute("aria-expanded", "true");
    say(all.length === 1 ? "One label found." : `${whole.format(all.length)} labels found.`);
  };
  const move = (step) => {
    if (found.length === 0) return;
    active = (active + step + found.length) % found.length;
    found.forEach((_, place) => byId(`match-${place}`).setAttribute("aria-selected", place === active));
    box.setAttribute("aria-activedescendant", `match-${active}`);
  };

  box.addEventListener("input", open);
  box.addEventListener("blur", close);
  box.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (list.hidden) open();
      move(event.key === "ArrowDown" ? 1 : active < 0 ? 0 : -1);
    } else if (event.key === "Enter" && found.length && !list.hidden) choose(found[Math.max(0, active)]);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  });
}
