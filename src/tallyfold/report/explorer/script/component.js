// The list of components, and what is strong in the chosen one.

const NAMED = 3;

// A component in a few labels of the axes that tell it from others: those with many names.
function gist(number) {
  const named = axes.filter((axis) => !axis.order?.line && axis.labels.length > 2 * NAMED);
  return (named.length ? named : axes).slice(0, 2).map((axis) =>
    [axis.name, ranked(componentShares(axis, number), RELEVANCE).slice(0, NAMED).map((row) => axis.labels[row])]);
}

function drawList() {
  const entry = ({ number, name, share, called, named, stability }) => button(
    { "data-component": number, "aria-pressed": false, onclick: () => chooseComponent(number) },
    element("span", { class: "number" }, name),
    element("span", { class: "gist" }, named ? element("b", {}, called) : "", gist(number).map(gistLine)),
    element("span", { class: "share" }, percent(share),
      stability == null ? "" : element("small", { title: "alike in other fits" }, ` ${stability.toFixed(2)}`), shareLine(share / bySize[0].share)));
  byId("list").replaceChildren(...bySize.map((component) => element("li", {}, entry(component))));
}

const gistLine = ([name, labels]) =>
  element("span", { title: `${name}: ${labels.join(", ")}` },
    labels.flatMap((label, n) => [n ? ", " : "", labelNode(label)]));

const shareLine = (part) =>
  shape("svg", { class: "mini", width: "100%", height: 4, "aria-hidden": true },
    shape("rect", { class: "mini-room", width: "100%", height: 4 }),
    shape("rect", { class: "mini-fill", width: `${(100 * part).toFixed(1)}%`, height: 4 }));

function markList() {
  for (const node of byId("list").querySelectorAll("button"))
    node.setAttribute("aria-pressed", Number(node.dataset.component) === state.component && !state.entity);
}

// The component a number of places further on in the list.
function neighbour(step) {
  const place = bySize.findIndex(({ number }) => number === state.component);
  return bySize[(place + step + K) % K].number;
}

function chooseComponent(number) {
  change({ component: number, entity: null });
  say(`Component ${titleOf(components[number])}, ${percent(components[number].share)} of the rate.`);
}

function drawComponent() {
  const { component: number } = state;
  byId("detail-title").replaceChildren(`Component ${titleOf(components[number])}`);
  const called = components[number].named ? "" : `${components[number].called}: `;
  byId("detail-lead").textContent = `${called}${percent(components[number].share)} of the total rate; ${standing(number)}${found(number)}.`;
  byId("detail").replaceChildren(...axes.map((axis) =>
    axisCard(axis, componentShares(axis, number), axis.certain)));
}

function standing(number) {
  const place = bySize.findIndex((each) => each.number === number);
  return K === 1 ? "the only one" : `${place === 0 ? "the largest" : `number ${place + 1} in size`} of ${K}`;
}

// How surely other fits find a component again, if that was asked for.
function found(number) {
  const { stability } = components[number];
  return stability == null ? "" : `; ${percent(stability)} alike in other fits`;
}

// Axes whose view was changed by hand: as a line or ranked.
const views = new Map();

// The strongest labels of an axis, or its line if it is ordered.
function axisCard(axis, shares, known) {
  const line = axis.order && (views.get(axis) ?? axis.order.line);
  const before = axis.order ? [viewSwitch(axis, line)] : [];
  if (line) return orderedCard(axis, sizeOf(axis), shares, known, before);
  const barOf = (row) => ({
    label: axis.labels[row], mean: shares.mean[row], low: shares.low[row], high: shares.high[row],
    overall: K === 1 ? null : shares.overall[row], choose: () => chooseEntity(axis, row),
  });
  return barsCard(axis.name, sizeOf(axis), ranked(shares, state.relevance), barOf, { certain: known, before });
}

function sizeOf(axis) {
  const all = plural("label", axis.size), shown = axis.labels.length;
  if (shown === axis.size) return all;
  return `${whole.format(shown)} of ${all} are on this page; the others are weak in every component`;
}

function viewSwitch(axis, line) {
  const show = (value) => {
    views.set(axis, value);
    render();
    byId("detail").querySelector(`[data-axis="${axis.number}"] [aria-pressed="true"]`).focus();
  };
  const choice = (text, value) =>
    button({ "aria-pressed": value === line, onclick: () => show(value) }, text);
  return element("div",
    { class: "switch", role: "group", "aria-label": `View of ${axis.name}`, "data-axis": axis.number },
    choice("In order", true), choice("Ranked", false));
}
