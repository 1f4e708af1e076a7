// The chosen component: what is strong in it on every axis, and what shows it.

// The component a number of places further on in the list.
function neighbour(step) {
  const place = inList.findIndex(({ number }) => number === state.component);
  return inList[(place + step + K) % K].number;
}

function chooseComponent(number) {
  const inside = byId("detail").contains(document.activeElement); // what has the focus will be gone
  change({ component: number, entity: null });
  say(`Component ${titleOf(components[number])}, ${percent(components[number].share)} of the rate.`);
  if (inside) byId("detail-title").focus();
}

function drawComponent() {
  const { component: number } = state;
  byId("detail-title").replaceChildren(`Component ${titleOf(components[number])}`);
  const called = components[number].named ? "" : `${components[number].called}: `;
  byId("detail-lead").textContent = `${called}${percent(components[number].share)} of the total rate; ${standing(number)}${found(number)}.`;
  const cards = axes.map((axis) => axisCard(axis, componentShares(axis, number), axis.certain, number));
  byId("detail").replaceChildren(...cards, ...[examplesCard(number)].filter(Boolean));
}

function standing(number) {
  if (components[number].common) return "what is common everywhere";
  const place = inList.findIndex((each) => each.number === number);
  const last = inList.filter(({ common }) => !common).length - 1;
  const rank = place === 0 ? "the largest" : place === last ? "the smallest" : `number ${place + 1} in size`;
  return last === 0 ? "the only one" : `${rank} of ${last + 1}`;
}

// How surely other fits find a component again, if that was asked for.
function found(number) {
  const { stability } = components[number];
  return stability == null ? "" : `; ${percent(stability)} alike in other fits (stability ${stability.toFixed(2)})`;
}

// How axes were looked at, if that was changed by hand: "line", "part" or "ranked".
const views = new Map();

// The strongest labels of an axis, or its line if it is ordered. `number` is that of the component,
// if shares are those of one.
function axisCard(axis, shares, known, number = null) {
  const parts = number !== null && K > 1;
  const asked = views.get(axis) ?? (axis.order?.line ? "line" : "ranked");
  const view = asked === "part" && !parts ? "line" : asked;
  const before = axis.order ? [viewSwitch(axis, view, parts)] : [];
  const file = `${byId("detail-title").textContent} ${axis.name}`;
  if (view !== "ranked") return orderedCard(axis, view === "part" ? partsOf(axis, shares, number) : shares, known, { before, view, file });
  const barOf = (row) => ({
    label: axis.labels[row], mean: shares.mean[row], low: shares.low[row], high: shares.high[row],
    overall: K === 1 ? null : shares.overall[row], choose: () => chooseEntity(axis, row),
  });
  return barsCard(axis.name, sizeOf(axis), ranked(shares, state.relevance), barOf, { certain: known, file, before });
}

// A component's part in all that each label has; overall it has its share.
function partsOf(axis, { mean, low, high, overall }, number) {
  const { share } = components[number];
  const part = (values) => values.map((value, row) => (share * value) / (overall[row] || 1e-300));
  return { mean: part(mean), low: part(low), high: part(high), overall: mean.map(() => share) };
}

function sizeOf(axis) {
  const all = plural("label", axis.size), shown = axis.labels.length;
  if (shown === axis.size) return all;
  return `${whole.format(shown)} of ${all} are on this page; the others are weak in every component`;
}

const VIEWS = [["line", "Within it"], ["part", "Part of all"], ["ranked", "Ranked"]];

function viewSwitch(axis, view, parts) {
  const show = (value) => {
    views.set(axis, value);
    render();
    byId("detail").querySelector(`[data-axis="${axis.number}"] [aria-pressed="true"]`).focus();
  };
  const shown = VIEWS.filter(([value]) => parts || value !== "part");
  const choice = ([value, text]) =>
    button({ "aria-pressed": value === view, onclick: () => show(value) }, parts || value !== "line" ? text : "In order");
  return element("div",
    { class: "switch", role: "group", "aria-label": `View of ${axis.name}`, "data-axis": axis.number }, shown.map(choice));
}

// The training cells that show a component best, if they were given.
function examplesCard(number) {
  if (!data.examples) return byId("how-to-examples").content.cloneNode(true);
  const { cells, looked_at: seen, rows } = data.examples;
  const head = [...axes.map((axis) => axis.name), "count", "share"];
  const among = seen < cells ? `among ${whole.format(seen)} of ${plural("training cell", cells)}` : `among ${plural("training cell", cells)}`;
  const shown = rows[number].map((row) => [
    ...axes.map((axis, n) => entityLink(axis.name, row[n])), whole.format(row.at(-2)), percent(row.at(-1))]);
  const file = `Examples of component ${titleOf(components[number])}`;
  return card("What shows it best", `${among}; share is the component’s part of what the cell is made of`,
    { tools: csvButton(file, head, () => rows[number]), wide: true },
    shown.length ? scrolling(file, table(file, head, shown, { class: "plain examples" })) : note("There is no cell to show."));
}
