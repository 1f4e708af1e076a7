// Lines: shares along an ordered axis, and the course of a fit.

// points: [{x, y, low, high, other, label}]; options: {height, format, fromZero, mark, band}
function lineChart(name, points, options) {
  return drawn((width) => lineShape(width, name, points, options));
}

function lineShape(width, name, points, { height = 220, format, fromZero = false, mark = null, band = false }) {
  const values = points.flatMap((p) => [p.y, band ? p.low : p.y, band ? p.high : p.y, p.other ?? p.y]);
  const [least, top] = endsOf(values);
  const bottom = fromZero ? 0 : least;
  const room = top - bottom || Math.abs(top) || 1;
  const [from, to] = [bottom - (fromZero ? 0 : 0.05 * room), top + 0.05 * room];
  const steps = ticks(from, to, 4);
  const pad = roomFor(points, stepTexts(steps, format));
  const x = scaleOf(points[0].x, points.at(-1).x, pad.left, width - pad.right);
  const y = scaleOf(from, to, height - pad.bottom, pad.top);
  const path = (of) => points.map((p, n) => `${n ? "L" : "M"}${x(p.x).toFixed(1)} ${y(of(p)).toFixed(1)}`).join("");
  return shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": name },
    stepTexts(steps, format).map((text, n) => shape("g", { class: "tick" },
      shape("line", { x1: pad.left, x2: width - pad.right, y1: y(steps[n]), y2: y(steps[n]) }),
      shape("text", { x: pad.left - 8, y: y(steps[n]) + 4, "text-anchor": "end" }, text))),
    spaced(points, x).map((p) =>
      shape("text", { class: "tick-label", x: x(p.x), y: height - 6, "text-anchor": "middle" }, p.label)),
    mark !== null && shape("line", { class: "mark", x1: x(mark), x2: x(mark), y1: pad.top, y2: height - pad.bottom }),
    band && shape("path", { class: "band", d: bandPath(points, x, y) }),
    points[0].other != null && shape("path", { class: "line-other", d: path((p) => p.other) }),
    shape("path", { class: "line", d: path((p) => p.y) }),
    points.length <= 40 && points.map((p) => shape("circle", { class: "dot", cx: x(p.x), cy: y(p.y), r: 2.5 })));
}

// Steps of a scale in words; with so many digits that no two are the same.
function stepTexts(steps, format) {
  for (let more = 0; more < 8; more++) {
    const texts = steps.map((step) => format(step, more));
    if (new Set(texts).size === texts.length) return texts;
  }
  return steps.map(String);
}

// Room beside the lines, so that no text is cut off.
const roomFor = (points, texts) => ({
  top: 10, bottom: 26,
  left: Math.ceil(Math.max(widest(texts) + 12, textWidth(points[0].label) / 2 + 2)),
  right: Math.ceil(Math.max(12, textWidth(points.at(-1).label) / 2 + 2)),
});

function bandPath(points, x, y) {
  const edge = (list, of) => list.map((p) => `${x(p.x).toFixed(1)} ${y(of(p)).toFixed(1)}`).join("L");
  return `M${edge(points, (p) => p.high)}L${edge([...points].reverse(), (p) => p.low)}Z`;
}

function scaleOf(low, high, from, to) {
  const scale = (value) => from + ((value - low) / (high - low || 1)) * (to - from);
  return Object.assign(scale, { low, high });
}

// The points whose labels have room under an axis: first, last, and as many between as fit.
function spaced(points, x) {
  const need = widest(points.map((p) => p.label)) + 14;
  const [first, last] = [points[0], points.at(-1)];
  const chosen = [first];
  for (const p of points.slice(1, -1))
    if (x(p.x) - x(chosen.at(-1).x) >= need && x(last.x) - x(p.x) >= need) chosen.push(p);
  return x(last.x) - x(first.x) >= need ? [...chosen, last] : chosen;
}

const MEANINGS = {
  line: { what: "Shares along", column: "share" },
  part: { what: "The component’s part along", column: "part" },
};

// An ordered axis: the line, the shares overall, and the numbers behind them.
function orderedCard(axis, shares, known, { before, view, file }) {
  const points = axis.labels.map((label, row) => ({
    x: axis.places[row], y: shares.mean[row], low: shares.low[row], high: shares.high[row],
    other: K === 1 ? null : shares.overall[row], label,
  }));
  const { what, column } = MEANINGS[view];
  const columns = [
    [axis.name, (p) => p.label],
    [column, (p) => p.y],
    ...(known ? [] : [["low", (p) => p.low], ["high", (p) => p.high]]),
    ...(K === 1 ? [] : [["overall", (p) => p.other]]),
  ];
  const [head, rows] = [columns.map(([name]) => name), () => points.map((p) => columns.map(([, of]) => of(p)))];
  return card(axis.name, sizeOf(axis), { tools: csvButton(file, head, rows), wide: true }, ...before,
    lineChart(`${what} ${axis.name}; the numbers are in the table that follows`, points,
      { format: roundPercent, fromZero: true, band: !known }),
    numbersBehind(`${what} ${axis.name}`, head, rows, percent));
}
