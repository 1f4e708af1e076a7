// Points that should lie on the diagonal.

function diagonalChart(name, points, { ends: [low, high], format, xName, yName }) {
  return drawn((width) => {
    const steps = ticks(low, high, 4), texts = stepTexts(steps, format), most = widest(texts);
    const pad = { left: Math.ceil(most + 32), right: Math.ceil(most / 2 + 4), top: 10, bottom: 44 };
    const size = Math.min(width, 340);
    const x = scaleOf(low, high, pad.left, size - pad.right);
    const y = scaleOf(low, high, size - pad.bottom, pad.top);
    const middle = { x: (pad.left + size - pad.right) / 2, y: (pad.top + size - pad.bottom) / 2 };
    const every = Math.ceil((most + 8) / (x(steps[1]) - x(steps[0]) || most + 8)); // texts that have room
    const tick = (step, n) => shape("g", { class: "tick" },
      shape("line", { x1: pad.left, x2: size - pad.right, y1: y(step), y2: y(step) }),
      shape("text", { x: pad.left - 8, y: y(step) + 4, "text-anchor": "end" }, texts[n]),
      n % every === 0 && shape("text", { x: x(step), y: size - pad.bottom + 18, "text-anchor": "middle" }, texts[n]));
    const title = (text, place) =>
      shape("text", { class: "tick-label", "text-anchor": "middle", transform: place }, text);
    return shape("svg",
      { width: size, height: size, viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": name },
      steps.map(tick),
      title(xName, `translate(${middle.x} ${size - 4})`),
      title(yName, `translate(12 ${middle.y}) rotate(-90)`),
      shape("line", { class: "line-other", x1: x(low), y1: y(low), x2: x(high), y2: y(high) }),
      points.map(([a, b]) => shape("circle", { class: "dot", cx: x(a), cy: y(b), r: 4 })));
  });
}
