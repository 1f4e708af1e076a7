// Points that should lie on the diagonal.

function diagonalChart(name, points, { ends: [low, high], format, xName, yName }) {
  return drawn((width) => {
    const size = Math.min(width, 340), pad = { left: 66, right: 24, top: 10, bottom: 44 };
    const x = scaleOf(low, high, pad.left, size - pad.right);
    const y = scaleOf(low, high, size - pad.bottom, pad.top);
    const middle = { x: (pad.left + size - pad.right) / 2, y: (pad.top + size - pad.bottom) / 2 };
    const tick = (step) => shape("g", { class: "tick" },
      shape("line", { x1: pad.left, x2: size - pad.right, y1: y(step), y2: y(step) }),
      shape("text", { x: pad.left - 8, y: y(step) + 4, "text-anchor": "end" }, format(step)),
      shape("text", { x: x(step), y: size - pad.bottom + 18, "text-anchor": "middle" }, format(step)));
    const title = (text, place) =>
      shape("text", { class: "tick-label", "text-anchor": "middle", transform: place }, text);
    return shape("svg",
      { width: size, height: size, viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": name },
      ticks(low, high, 4).map(tick),
      title(xName, `translate(${middle.x} ${size - 4})`),
      title(yName, `translate(11 ${middle.y}) rotate(-90)`),
      shape("line", { class: "line-other", x1: x(low), y1: y(low), x2: x(high), y2: y(high) }),
      points.map(([a, b]) => shape("circle", { class: "dot", cx: x(a), cy: y(b), r: 4 })));
  });
}
