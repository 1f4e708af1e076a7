// Making elements. Text is always set as text: nothing from the data is read as markup.

const SVG = "http://www.w3.org/2000/svg";

const byId = (id) => document.getElementById(id);

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.startsWith("aria-")) node.setAttribute(name, String(value));
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.flat(3).filter((child) => child != null && child !== false));
  return node;
}

const element = (tag, attributes = {}, ...children) =>
  filled(document.createElement(tag), attributes, children);

const shape = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);

// A label as it is shown: isolated from the direction of the text around it, never empty, broken
// after a mark rather than within a word.
const labelNode = (label) =>
  element("bdi", {}, label.trim() === "" ? `“${label}”` : label.split(/(?<=[/_.:=&?-])(?=\w)/).flatMap((part, n) => [n ? element("wbr") : null, part]));

// How wide a text is in a drawing, in pixels.
const ruler = document.createElement("canvas").getContext("2d");
function textWidth(text, size = 12) {
  ruler.font = `${size}px ${getComputedStyle(document.documentElement).fontFamily}`;
  return ruler.measureText(text).width;
}

const widest = (texts) => endsOf([0, ...texts.map((text) => textWidth(text))])[1];

// Draws into a box whenever its width changes, since charts have text that must not be scaled.
const widths = new ResizeObserver((entries) => {
  for (const { target } of entries) target.drawAgain?.();
});

function drawn(draw, attributes = {}) {
  const box = element("div", { class: "chart", ...attributes });
  let last = 0;
  box.drawAgain = () => {
    const width = Math.floor(box.clientWidth);
    if (width === 0 || width === last) return;
    last = width;
    box.replaceChildren(draw(width));
  };
  widths.observe(box);
  return box;
}

// A table says by roles that it is one, since narrow screens lay out its rows otherwise.
function table(caption, head, rows, attributes = {}) {
  const cell = (content, column) => column === 0
    ? element("th", { scope: "row", role: "rowheader" }, content)
    : element("td", { role: "cell", "data-head": head[column].textContent ?? head[column] }, content);
  const row = (cells) => element("tr", { role: "row" }, cells);
  const top = head.map((name) => element("th", { scope: "col", role: "columnheader" }, name));
  return element("table", { role: "table", ...attributes },
    element("caption", { class: "unseen" }, caption),
    element("thead", { role: "rowgroup" }, row(top)),
    element("tbody", { role: "rowgroup" }, rows.map((cells) => row(cells.map(cell)))));
}

const note = (...text) => element("p", { class: "note" }, ...text);

const button = (attributes, ...content) => element("button", { type: "button", ...attributes }, ...content);

// `tools` are buttons that stand at the end of the card's head
function card(title, remark, { tools = [], wide = false }, ...content) {
  return element("section", { class: wide ? "card wide" : "card" },
    element("header", {}, element("div", {}, element("h4", {}, title), remark && note(remark)), element("span", { class: "tools" }, tools)),
    ...content);
}

// A box that scrolls by itself if its content is too large, by keyboard as well.
const scrolling = (name, content) =>
  element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name }, content);

// A table that is made when it is opened. rows() gives texts and plain numbers; show(value, column)
// writes a number for people.
function numbersBehind(caption, head, rows, show) {
  const details = element("details", { class: "numbers" }, element("summary", {}, "Numbers"));
  const text = (value, column) => (value === null ? "–" : typeof value === "number" ? show(value, column) : value);
  details.addEventListener("toggle", () => {
    if (!details.open || details.children.length > 1) return;
    details.append(
      scrolling(caption, table(caption, head, rows().map((row) => row.map(text)), { class: "plain" })),
      csvButton(caption, head, rows));
  });
  return details;
}

function say(text) {
  byId("said").textContent = text;
}
