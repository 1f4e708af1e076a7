// Numbers as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

function digits(value, significant = 3) {
  if (value === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(value)));
  if (size >= 6 || size < -4) return value.toExponential(significant - 1);
  return value.toLocaleString("en", {
    minimumFractionDigits: Math.max(0, significant - 1 - size),
    maximumFractionDigits: Math.max(0, significant - 1 - size),
  });
}

// A share in per cent, with two digits or so.
function percentNumber(share) {
  const value = 100 * share;
  if (value === 0) return "0";
  if (value < 0.001) return "<0.001";
  return value.toFixed(value >= 9.95 ? 0 : value >= 0.995 ? 1 : value >= 0.0995 ? 2 : 3);
}

const percent = (share) => `${percentNumber(share)} %`;

const percentRange = (low, high) => `${percentNumber(low)}–${percentNumber(high)} %`;

// For scales, whose steps are round.
const roundPercent = (share, more = 0) => `${Number((100 * share).toPrecision(3 + more))} %`;

const plural = (name, size) => `${whole.format(size)} ${name}${size === 1 ? "" : "s"}`;

// The least and the largest: spreading a long list into Math.min would overflow the stack.
const endsOf = (values) =>
  values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);

// Round steps for a scale from low to high.
function ticks(low, high, wanted) {
  const raw = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((times) => times * power).find((size) => size >= raw * 0.999);
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) found.push(n * step);
  return found;
}
