// The list of components: name, a few labels, share and, where it is known, stability.

const NAMED = 3;

// A component in a few labels of the axes that tell it from others: those with many names.
function gist(number) {
  const named = axes.filter((axis) => !axis.order?.line && axis.labels.length > 2 * NAMED);
  return (named.length ? named : axes).slice(0, 2).map((axis) =>
    [axis.name, ranked(componentShares(axis, number), RELEVANCE).slice(0, NAMED).map((row) => axis.labels[row])]);
}

function drawList() {
  const entry = ({ number, name, share, called, stability }) => button(
    { "data-component": number, "aria-pressed": false, onclick: () => chooseComponent(number) },
    element("span", { class: "number" }, name),
    element("span", { class: "gist" },
      element("b", {}, element("bdi", {}, called)), gist(number).map(gistLine),
      stability == null ? null : element("span", { class: "stability" }, `stability ${stability.toFixed(2)}`)),
    element("span", { class: "share" }, percent(share), shareLine(share / bySize[0].share)));
  byId("list").replaceChildren(...inList.map((component) => element("li", {}, entry(component))));
  byId("list").addEventListener("keydown", listKey);
  byId("list-tools").replaceChildren(
    csvButton("Components", ["component", "name", "share", "stability"],
      () => inList.map(({ name, called, share, stability }) => [name, called, share, stability])));
}

const gistLine = ([name, labels]) =>
  element("span", { class: "labels", title: `${name}: ${labels.join(", ")}` },
    labels.flatMap((label, n) => [n ? ", " : "", labelNode(label)]));

const shareLine = (part) =>
  shape("svg", { class: "mini", width: "100%", height: 4, "aria-hidden": true },
    shape("rect", { class: "mini-room", width: "100%", height: 4 }),
    shape("rect", { class: "mini-fill", width: `${(100 * part).toFixed(1)}%`, height: 4 }));

// Arrow keys go through a long list, besides the tabulator.
function listKey(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const buttons = [...byId("list").querySelectorAll("button")];
  buttons[(buttons.indexOf(document.activeElement) + step + K) % K].focus();
  event.preventDefault();
}

function markList() {
  for (const node of byId("list").querySelectorAll("button"))
    node.setAttribute("aria-pressed", Number(node.dataset.component) === state.component && !state.entity);
}
