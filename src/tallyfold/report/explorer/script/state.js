// What is looked at, kept in the address so that a view can be linked:
// #component=3&relevance=0.6&axis=word&entity=network

const RELEVANCE = K === 1 ? 1 : 0.6; // with one component there is nothing to stand apart from
const state = { component: bySize[0]?.number ?? 0, relevance: RELEVANCE, entity: null };

function readState() {
  const given = new URLSearchParams(location.hash.slice(1));
  const asked = given.get("component") ?? bySize[0]?.name;
  state.component = components.find(({ name }) => name === Number(asked))?.number ?? bySize[0]?.number ?? 0;
  const relevance = Number(given.get("relevance") ?? RELEVANCE);
  state.relevance = K > 1 && relevance >= 0 && relevance <= 1 ? relevance : RELEVANCE;
  state.entity = given.has("entity") ? findEntity(given.get("axis"), given.get("entity")) : null;
}

function findEntity(name, label) {
  const axis = axes.find((each) => each.name === name);
  const row = axis ? axis.labels.indexOf(label) : -1;
  byId("missing").hidden = row >= 0;
  byId("missing").textContent = `The address asks for “${label}” (${name}), which is not on this page.`;
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
