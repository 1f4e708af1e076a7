// A ranking as a table: label, bar with its interval, share.

const FEW = 12;
const MORE = 30;

// rows in their order; barOf(row) gives {label, mean, low, high, overall, choose}
function barsCard(title, remark, rows, barOf, { certain, file, before = [] }) {
  const box = element("div", {});
  let count = FEW;
  const draw = () => {
    box.replaceChildren(barTable(title, rows.slice(0, count).map(barOf), certain));
    if (rows.length > count) box.append(moreButton());
    else if (rows.length === 0) box.append(note("Nothing here: every share is zero."));
  };
  const showMore = () => {
    const first = count;
    count += MORE;
    draw();
    box.querySelectorAll("tbody tr")[first].querySelector("button").focus();
  };
  const moreButton = () =>
    button({ class: "quiet more", onclick: showMore }, `Show more (${whole.format(rows.length - count)})`);
  draw();
  const tools = csvButton(file, barHead(title, certain), () => rows.map((row) => barNumbers(barOf(row), certain)));
  return card(title, remark, { tools }, ...before, box);
}

const barHead = (title, certain) => [title, "share", ...(certain ? [] : ["low", "high"]), ...(K === 1 ? [] : ["overall"])];

const barNumbers = (bar, certain) =>
  [bar.label, bar.mean, ...(certain ? [] : [bar.low, bar.high]), ...(K === 1 ? [] : [bar.overall])];

const LONG = 32; // characters of a label that gets a line of its own

// Rows are grids, so that a long label can stand above its bar; roles say that it is a table.
function barTable(caption, bars, certain) {
  const [, scale] = endsOf(bars.flatMap((bar) => [bar.mean, bar.high, 1e-300]));
  const row = (bar) =>
    element("tr", { role: "row", class: bar.label.length > LONG ? "long" : null },
      element("th", { scope: "row", role: "rowheader" }, labelButton(bar.label, bar.choose)),
      element("td", { class: "bar", "aria-hidden": true }, barShape(bar, scale, certain)),
      element("td", { class: "number", role: "cell" }, element("span", {}, percent(bar.mean)), certain ? null : spoken(bar)),
      certain ? null : element("td", { class: "range", "aria-hidden": true }, percentRange(bar.low, bar.high)));
  const head = ["label", "share"].map((name) => element("th", { scope: "col", role: "columnheader" }, name));
  return element("table", { class: certain ? "bars certain" : "bars", role: "table" },
    element("caption", { class: "unseen" }, caption),
    element("thead", { class: "unseen", role: "rowgroup" }, element("tr", { role: "row" }, head)),
    element("tbody", { role: "rowgroup" }, bars.map(row)));
}

// The interval where there is no room to show it: screen readers have it always.
const spoken = (bar) =>
  element("span", { class: "unseen" }, `, ${level} interval ${percentRange(bar.low, bar.high)}`);

// A label wraps, and a click opens it.
const labelButton = (label, choose) =>
  button({ class: "label", title: label, onclick: choose }, labelNode(label));

function barShape(bar, scale, certain) {
  const at = (value) => `${Math.min(100, (100 * value) / scale).toFixed(2)}%`;
  return shape("svg", { width: "100%", height: 18 },
    shape("rect", { class: "bar-fill", x: 0, y: 4, width: at(bar.mean), height: 10, rx: 1.5 }),
    certain ? null : shape("line", { class: "whisker", x1: at(bar.low), x2: at(bar.high), y1: 9, y2: 9 }),
    bar.overall != null && bar.overall <= scale &&
      shape("line", { class: "overall", x1: at(bar.overall), x2: at(bar.overall), y1: 1, y2: 17 }));
}
