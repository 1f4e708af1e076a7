// How the model does on cells it has not seen: scores beside simple ones, and calibration.

function scoresCard() {
  const held = data.held_out;
  if (!held) return card("Scores", null, element("p", {}, validationText()), byId("how-to-score").content);
  const head = held.columns.map((column) => `${column.name} ${column.larger ? "↑" : "↓"}`);
  const best = held.columns.map((column, n) => bestOf(held.rows.map((row) => row.scores[n]), column));
  const cell = (value, n) =>
    value === null ? "–" : element(value === best[n] ? "strong" : "span", {}, digits(value, 4));
  const rows = held.rows.map((row) =>
    [element(row.own ? "strong" : "span", {}, row.model), ...row.scores.map(cell)]);
  return wideCard("Scores on held-out cells",
    `${heldOutCells(held)}; the best of each column is bold`,
    scrolling("Scores", table("Scores on held-out cells", ["", ...head], rows, { class: "plain scores" })),
    note(held.columns.map(meaningOf).join(" ")),
    held.errors ? byId("about-means").content : null,
    held.simple ? null : byId("how-to-compare").content);
}

const heldOutCells = ({ cells, zeros }) =>
  zeros ? `${plural("count", cells)}, and the empty cells held out with them` : plural("cell", cells);

function validationText() {
  const { validation, whether } = data.fit;
  if (validation === null) return "No score was kept with this model.";
  const what = whether ? "log score per count (whether there is one, and how many)" : "mean log pmf";
  return `On the cells that the fit held out for itself, the ${what} is ${digits(validation, 4)}.`;
}

function bestOf(scores, column) {
  const [low, high] = endsOf(scores.filter((value) => value !== null));
  return column.larger ? high : low;
}

const meaningOf = ({ name, meaning, larger }) => `${name}: ${meaning}, ${larger ? "higher" : "lower"} is better.`;

function calibrationCard() {
  const calibration = data.held_out?.calibration;
  if (!calibration) return null;
  const { coverage, means, cells, occurrence } = calibration;
  return wideCard("Calibration",
    `from ${plural("held-out cell", cells)}; on the dashed diagonal, what the model says is what happens`,
    element("div", { class: "pair" },
      occurrence && occurrenceChart(occurrence), coverage && coverageChart(coverage), meansChart(means)));
}

function occurrenceChart(groups) {
  const name = "Share of cells with a count by its probability, in groups of cells; on the diagonal if calibrated";
  return titled("Whether there is a count",
    diagonalChart(name, groups,
      { ends: [0, 1], format: roundPercent, xName: "probability of a count", yName: "cells with a count" }),
    numbersBehind("Whether there is a count", ["probability", "with a count"],
      () => groups.map(([said, seen]) => [percent(said), percent(seen)])));
}

function coverageChart(coverage) {
  const name = "Share of held-out counts inside central intervals, by level; on the diagonal if calibrated";
  return titled("Coverage of intervals",
    diagonalChart(name, coverage,
      { ends: [0, 1], format: roundPercent, xName: "level of the interval", yName: "counts inside" }),
    numbersBehind("Coverage of intervals", ["level", "inside"],
      () => coverage.map(([said, seen]) => [percent(said), percent(seen)])));
}

function meansChart(means) {
  const [low, high] = endsOf(means.flat());
  const room = 0.06 * (high - low || 1);
  const twoDigits = (value) => digits(value, 2);
  const name = "Mean count by mean prediction, in groups of cells; on the diagonal if calibrated";
  return titled("Predicted and observed means",
    diagonalChart(name, means,
      { ends: [low - room, high + room], format: twoDigits, xName: "mean prediction", yName: "mean count" }),
    numbersBehind("Predicted and observed means", ["predicted", "observed"],
      () => means.map((pair) => pair.map((value) => digits(value, 3)))));
}

const titled = (title, ...content) =>
  element("div", {}, element("p", { class: "chart-title" }, title), ...content);
