// Lines: shares along an ordered axis, and the course of a fit.

const PAD = { top: 10, right: 24, bottom: 26, left: 60 };

// points: [{x, y, low, high, other, label}]; options: {height, format, fromZero, mark, band}
function lineChart(name, points, options) {
  return drawn((width) => lineShape(width, name, points, options));
}

function lineShape(width, name, points, { height = 220, format, fromZero = false, mark = null, band = false }) {
  const values = points.flatMap((p) => [p.y, band ? p.low : p.y, band ? p.high : p.y, p.other ?? p.y]);
  const [least, top] = endsOf(values);
  const bottom = fromZero ? 0 : least;
  const room = top - bottom || Math.abs(top) || 1;
  const x = scaleOf(points[0].x, points.at(-1).x, PAD.left, width - PAD.right);
  const y = scaleOf(bottom - (fromZero ? 0 : 0.05 * room), top + 0.05 * room, height - PAD.bottom, PAD.top);
  const path = (of) => points.map((p, n) => `${n ? "L" : "M"}${x(p.x).toFixed(1)} ${y(of(p)).toFixed(1)}`).join("");
  const steps = ticks(y.low, y.high, 4);
  return shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": name },
    steps.map((step) => shape("g", { class: "tick" },
      shape("line", { x1: PAD.left, x2: width - PAD.right, y1: y(step), y2: y(step) }),
      shape("text", { x: PAD.left - 8, y: y(step) + 4, "text-anchor": "end" }, format(step)))),
    spaced(points, x, width).map(([p, anchor]) =>
      shape("text", { class: "tick-label", x: x(p.x), y: height - 6, "text-anchor": anchor }, p.label)),
    mark !== null && shape("line", { class: "mark", x1: x(mark), x2: x(mark), y1: PAD.top, y2: height - PAD.bottom }),
    band && shape("path", { class: "band", d: bandPath(points, x, y) }),
    points[0].other != null && shape("path", { class: "line-other", d: path((p) => p.other) }),
    shape("path", { class: "line", d: path((p) => p.y) }),
    points.length <= 40 && points.map((p) => shape("circle", { class: "dot", cx: x(p.x), cy: y(p.y), r: 2.5 })));
}

function bandPath(points, x, y) {
  const edge = (list, of) => list.map((p) => `${x(p.x).toFixed(1)} ${y(of(p)).toFixed(1)}`).join("L");
  return `M${edge(points, (p) => p.high)}L${edge([...points].reverse(), (p) => p.low)}Z`;
}

function scaleOf(low, high, from, to) {
  const scale = (value) => from + ((value - low) / (high - low || 1)) * (to - from);
  return Object.assign(scale, { low, high });
}

// The labels under an axis that have room: first, last, and as many between as fit.
function spaced(points, x, width) {
  const [, longest] = endsOf(points.map((p) => p.label.length));
  const need = Math.min(12, longest) * 7 + 18;
  const chosen = [], last = points.at(-1);
  for (const p of points) {
    const room = chosen.length === 0 || x(p.x) - x(chosen.at(-1).x) >= need;
    if (room && (p === last || x(last.x) - x(p.x) >= need)) chosen.push(p);
  }
  if (chosen.at(-1) !== last) chosen.push(last);
  const anchor = (p) => (x(p.x) + need / 2 > width ? "end" : "middle");
  return chosen.map((p) => [p, anchor(p)]);
}

// An ordered axis: the line, the shares overall, and the numbers behind them.
function orderedCard(axis, remark, shares, known, before) {
  const points = axis.labels.map((label, row) => ({
    x: axis.places[row], y: shares.mean[row], low: shares.low[row], high: shares.high[row],
    other: K === 1 ? null : shares.overall[row], label,
  }));
  const columns = [
    [axis.name, (p) => p.label],
    ["share", (p) => percent(p.y)],
    known ? null : [`${level} interval`, (p) => percentRange(p.low, p.high)],
    K === 1 ? null : ["overall", (p) => percent(p.other)],
  ].filter(Boolean);
  return wideCard(axis.name, remark, ...before,
    lineChart(`Shares along ${axis.name}; the numbers are in the table that follows`, points,
      { format: roundPercent, fromZero: true, band: !known }),
    numbersBehind(`Shares along ${axis.name}`, columns.map(([name]) => name),
      () => points.map((p) => columns.map(([, of]) => of(p)))));
}
