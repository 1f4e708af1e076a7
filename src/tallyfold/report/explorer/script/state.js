// What is looked at, kept in the address so that a view can be linked:
// #component=3&relevance=0.4&axis=word&entity=network

const RELEVANCE = K === 1 ? 1 : 0.4; // with one component there is nothing to stand apart from
const state = { component: inList[0]?.number ?? 0, relevance: RELEVANCE, entity: null };

// Takes what the address asks for; what it asks for in vain is said.
function readState() {
  const given = new URLSearchParams(location.hash.slice(1));
  const faults = [...given.keys()].filter((key) => !PARTS.includes(key)).map((key) => `“${key}”`);
  state.component = findComponent(given.get("component"), faults);
  state.relevance = findRelevance(given.get("relevance"), faults);
  state.entity = findEntity(given.get("axis"), given.get("entity"), faults);
  byId("missing").hidden = faults.length === 0;
  byId("missing").textContent = `The address asks for ${faults.join(" and ")}, which is not on this page.`;
}

const PARTS = ["component", "relevance", "axis", "entity"];

// By number or by name.
function findComponent(asked, faults) {
  const found = components.find(({ name, called }) => `${name}` === asked || called === asked);
  if (asked !== null && !found) faults.push(`component “${asked}”`);
  return (found ?? inList[0])?.number ?? 0;
}

function findRelevance(asked, faults) {
  const relevance = Number(asked ?? RELEVANCE);
  const sound = asked === null || (asked !== "" && relevance >= 0 && relevance <= 1);
  if (!sound) faults.push(`relevance “${asked}”`);
  return sound && K > 1 ? relevance : RELEVANCE;
}

function findEntity(name, label, faults) {
  if (name === null && label === null) return null;
  const axis = axes.find((each) => each.name === name);
  const row = axis && label !== null ? axis.labels.indexOf(label) : -1;
  if (row < 0) faults.push(`“${label ?? ""}” (${name ?? "no axis"})`);
  return row < 0 ? null : { axis, row };
}

function address() {
  const parts = { component: components[state.component]?.name ?? 0, relevance: state.relevance };
  if (state.entity) {
    parts.axis = state.entity.axis.name;
    parts.entity = state.entity.axis.labels[state.entity.row];
  }
  return `#${new URLSearchParams(parts)}`;
}

let pending;

// Changes the view. A choice is a step one can go back from; moving the slider is not.
function change(changes) {
  Object.assign(state, changes);
  byId("missing").hidden = true;
  clearTimeout(pending);
  if ("relevance" in changes) pending = setTimeout(() => location.replace(location.href.split("#")[0] + address()), 250);
  else location.hash = address();
  render();
}
