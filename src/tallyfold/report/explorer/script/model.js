// The model behind the page: weights of labels in components, and what follows from them.

const data = JSON.parse(byId("data").textContent);
const level = percent(data.level);
// `number` is a component's column in the weights, `name` its number in the model: those that are
// switched off are not here.
const components = data.components.map((entry, number) => ({ ...entry, number }));
const bySize = [...components].sort((a, b) => b.share - a.share || a.number - b.number);
const inList = [...bySize].sort((a, b) => a.common - b.common); // a background, which is no topic, comes last
const K = components.length;
// A component's number, with the name that somebody gave it; automatic names are its first labels.
const titleOf = ({ name, called, named }) => (named ? `${name}: ${called}` : `${name}`);
const fullTitleOf = ({ name, called }) => `${name}: ${called}`;

function unpacked(packed) {
  const text = atob(packed.codes);
  const values = new Float64Array(text.length / 2);
  const step = (packed.to - packed.from) / 65534;
  for (let n = 0; n < values.length; n++) {
    const code = text.charCodeAt(2 * n) + 256 * text.charCodeAt(2 * n + 1);
    values[n] = code === 0 ? 0 : Math.exp(packed.from + (code - 1) * step);
  }
  return values;
}

const axes = data.axes.map((axis, number) => {
  const mean = unpacked(axis.mean);
  const overall = Float64Array.from(axis.labels, (_, row) =>
    components.reduce((sum, { share }, k) => sum + share * mean[row * K + k], 0));
  return {
    ...axis, number, mean, overall,
    expected: axis.expected ? unpacked(axis.expected) : overall, // with the gate's part, if there is a gate
    low: axis.low ? unpacked(axis.low) : mean,
    high: axis.high ? unpacked(axis.high) : mean,
    certain: axis.low === null,
  };
});
const certain = axes.every((axis) => axis.certain);

// The shares of an axis's labels within a component, or for an entity: {mean, low, high, overall},
// and what they are set off against if that is not overall: {expected}.
function componentShares(axis, k) {
  const column = (values) => axis.labels.map((_, row) => values[row * K + k]);
  return { mean: column(axis.mean), low: column(axis.low), high: column(axis.high), overall: axis.overall, expected: axis.expected };
}

// How an entity's rate is made up of components.
function entityProfile(axis, row) {
  const total = axis.overall[row] || 1e-300;
  const part = (values) => components.map(({ share }, k) => (share * values[row * K + k]) / total);
  return { mean: part(axis.mean), low: part(axis.low), high: part(axis.high) };
}

// What goes with an entity on another axis: its components' labels, each as strong as in the entity.
function companionShares(profile, other) {
  const mean = other.labels.map((_, row) =>
    profile.mean.reduce((sum, part, k) => sum + part * other.mean[row * K + k], 0));
  return { mean, low: mean, high: mean, overall: other.overall };
}

// Rows by relevance, the most relevant first:
// λ log(strength) + (1 - λ) log(strength / overall share).
// Strength is the lower end of the interval: what is surely strong comes first, not what was seen
// once and may be.
function ranked(shares, relevance) {
  const scores = shares.mean.map((mean, row) => {
    const strength = Math.log(Math.max(shares.low[row], mean * 1e-9));
    return strength - (1 - relevance) * Math.log((shares.expected ?? shares.overall)[row]);
  });
  const rows = [...scores.keys()].filter((row) => shares.mean[row] > 0);
  return rows.sort((a, b) => scores[b] - scores[a] || a - b);
}
