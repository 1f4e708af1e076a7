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

// A label as it is shown: isolated from the direction of the text around it, never empty.
const labelNode = (label) =>
  element("bdi", {}, label.trim() === "" ? `“${label}”` : label);

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

function table(caption, head, rows, attributes = {}) {
  const cell = (content, column) =>
    element(column === 0 ? "th" : "td", column === 0 ? { scope: "row" } : {}, content);
  return element("table", attributes,
    element("caption", { class: "unseen" }, caption),
    element("thead", {}, element("tr", {}, head.map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, rows.map((row) => element("tr", {}, row.map(cell)))));
}

const note = (...text) => element("p", { class: "note" }, ...text);

const button = (attributes, ...content) => element("button", { type: "button", ...attributes }, ...content);

function card(title, remark, ...content) {
  return element("section", { class: "card" },
    element("header", {}, element("h4", {}, title), remark && note(remark)),
    ...content);
}

function wideCard(...parts) {
  const made = card(...parts);
  made.classList.add("wide");
  return made;
}

// A box that scrolls by itself if its content is too large, by keyboard as well.
const scrolling = (name, content) =>
  element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name }, content);

// A table that is made when it is opened.
function numbersBehind(caption, head, rows) {
  const details = element("details", { class: "numbers" }, element("summary", {}, "Numbers"));
  details.addEventListener("toggle", () => {
    if (!details.open || details.children.length > 1) return;
    details.append(scrolling(caption, table(caption, head, rows(), { class: "plain" })));
  });
  return details;
}

function say(text) {
  byId("said").textContent = text;
}
