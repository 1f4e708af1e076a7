// The map of components: area is the share of the rate, distance how different they are.

const SIZE = 320;
const RADIUS = 74; // of a component that is everything

const MAP_NAME = "Map of components; arrow keys go from one to the next";

const radiusOf = (share) => Math.max(2, RADIUS * Math.sqrt(share));

function mapPlaces() {
  const room = 14 + radiusOf(bySize[0].share);
  const across = (of) => {
    const [low, high] = endsOf(components.map(of));
    return { middle: (low + high) / 2, span: high - low };
  };
  const [x, y] = [across((c) => c.x), across((c) => c.y)];
  const scale = (SIZE - 2 * room) / (Math.max(x.span, y.span) || 1);
  return components.map((c) => [SIZE / 2 + (c.x - x.middle) * scale, SIZE / 2 - (c.y - y.middle) * scale]);
}

const moved = ([x, y], box) => Math.hypot(box.x + box.width / 2 - x, box.y + box.height / 2 - y);

function drawMap() {
  const places = mapPlaces();
  const circle = ({ number, share }) => {
    const [x, y] = places[number];
    return shape("g", {
      class: "component", role: "button", "data-component": number,
      "aria-label": `Component ${titleOf(components[number])}, ${percent(share)} of the rate`,
      transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`,
      onclick: () => chooseComponent(number),
      onkeydown: (event) => mapKey(event, number),
    },
      shape("title", {}, fullTitleOf(components[number])),
      shape("circle", { class: "hit", r: Math.max(12, radiusOf(share)) }),
      shape("circle", { class: "ring", r: radiusOf(share) }),
      shape("circle", { class: "disc", r: radiusOf(share) }));
  };
  const texts = ({ number, box, name }) => box && [
    moved(places[number], box) > Math.max(8, radiusOf(components[number].share)) &&
      shape("line", { class: "leader", x1: places[number][0], y1: places[number][1], x2: box.x + box.width / 2, y2: box.y + box.height / 2 }),
    shape("text", { class: "numeral", "data-numeral": number, "text-anchor": "middle", x: (box.x + box.width / 2).toFixed(1), y: (box.y + NUMBER_SIZE + 1.5).toFixed(1) },
      components[number].name),
    name && shape("text", { class: "name", "data-name": number, "text-anchor": "middle" },
      name.lines.map((line, n) => shape("tspan",
        { x: (name.box.x + name.box.width / 2).toFixed(1), y: (name.box.y + NAME_SIZE + 1.5 + n * LINE).toFixed(1) }, line))),
  ];
  byId("map").replaceChildren(
    shape("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, role: "group", "aria-label": MAP_NAME },
      shape("line", { class: "cross", x1: SIZE / 2, x2: SIZE / 2, y1: 8, y2: SIZE - 8 }),
      shape("line", { class: "cross", y1: SIZE / 2, y2: SIZE / 2, x1: 8, x2: SIZE - 8 }),
      bySize.map(circle),
      shape("g", { "aria-hidden": true }, textPlaces(places).map(texts))));
  byId("mapped").textContent = percent(data.mapped);
}

function mapKey(event, number) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (event.key === "Enter" || event.key === " ") chooseComponent(number);
  else if (step) {
    const next = neighbour(step);
    chooseComponent(next);
    byId("map").querySelector(`[data-component="${next}"]`).focus();
  } else return;
  event.preventDefault();
}

// Marks the chosen component; with an entity, areas show how its rate is made up.
function markMap(profile) {
  for (const node of byId("map").querySelectorAll(".component")) {
    const number = Number(node.dataset.component);
    const chosen = number === state.component && !profile;
    node.classList.toggle("chosen", chosen);
    for (const text of byId("map").querySelectorAll(`[data-numeral="${number}"], [data-name="${number}"]`))
      text.classList.toggle("chosen", chosen);
    node.setAttribute("aria-pressed", chosen);
    node.setAttribute("tabindex", number === state.component ? 0 : -1);
    const share = profile ? profile.mean[number] : components[number].share;
    node.querySelector(".disc").setAttribute("r", profile && share < 0.0005 ? 0 : radiusOf(share));
  }
  byId("map").classList.toggle("of-entity", profile !== null);
  byId("map-area").textContent = profile
    ? "Area is the part of the label’s rate that comes from a component; dashed rings are shares overall."
    : "Area is a component’s share of the total rate.";
}
