// The page: what stands still is drawn once, what was chosen is drawn again.

function render() {
  if (K === 0) return;
  const { entity, relevance, component } = state;
  byId("lambda").value = relevance;
  byId("lambda-value").textContent = relevance.toFixed(2);
  byId("back").hidden = entity === null;
  byId("back").textContent = `Back to component ${titleOf(components[component])}`;
  byId("previous").hidden = byId("next").hidden = entity !== null || K === 1;
  byId("bar-meaning").textContent = entity ? "share for this label" : "share within the component";
  if (entity) drawEntity();
  else drawComponent();
  markList();
  markMap(entity && entityProfile(entity.axis, entity.row));
}

// Words of the page that depend on the model.
function setWords() {
  document.body.classList.toggle("point-model", certain);
  document.body.classList.toggle("single", K === 1);
  document.body.classList.toggle("bare", K === 0);
  document.body.classList.toggle("unstable", components.every(({ stability }) => stability == null));
  document.body.classList.toggle("complete", data.fit.whether !== null);
  for (const node of document.querySelectorAll(".level")) node.textContent = level;
}

// What a reader must know before anything else.
function drawWarning() {
  byId("nothing-beyond").hidden = !data.nothing_beyond;
  byId("nothing-beyond").textContent = data.nothing_beyond;
  const { gate } = data.fit;
  byId("gated").hidden = !gate || gate === "none";
  byId("gated").textContent = `A gate says which pairs of ${gate} have counts. Components and profiles say what goes ` +
    "together apart from that; in a fit with gate='none' they tell the pairs, too.";
}

function drawLead() {
  const sizes = data.data.axes.map(({ name, size }) => `${name} (${whole.format(size)})`).join(" × ");
  const what = K === 0 ? "a model without components" : K === 1 ? "one component" : `${K} components`;
  const off = data.switched_off ? ` (${whole.format(data.switched_off)} more are switched off)` : "";
  byId("lead").textContent = `${data.fit.model}, ${what}${off}, of ${sizes}.`;
  byId("made-by").textContent = `tallyfold ${data.fit.version}`;
}

function startTheme() {
  const button = byId("theme"), root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const show = () => button.setAttribute("aria-pressed", isDark());
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    show();
  });
  system.addEventListener("change", show);
  show();
}

startTheme();
setWords();
drawLead();
drawWarning();
drawInteractions();
drawNext();
drawFit();
if (K > 0) {
  byId("components").hidden = false;
  drawMap();
  drawList();
  byId("query").placeholder = `any ${axes.map((axis) => axis.name).join(", ")}`;
  startSearch();
  byId("lambda").addEventListener("input", (event) => change({ relevance: Number(event.target.value) }));
  byId("back").addEventListener("click", () => {
    chooseComponent(state.component);
    byId("detail-title").focus();
  });
  byId("previous").addEventListener("click", () => chooseComponent(neighbour(-1)));
  byId("next").addEventListener("click", () => chooseComponent(neighbour(1)));
  addEventListener("hashchange", () => {
    if (location.hash === address()) return;
    readState();
    render();
  });
  readState();
  render();
}
