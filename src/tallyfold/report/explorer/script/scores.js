// How the model does on cells it has not seen: scores beside simple ones, and calibration.

function scoresCard() {
  const { held_out: held, kept } = data;
  if (held)
    return scoreTable(`${heldOutCells(held)}; the best of each column is bold`, held,
      held.errors ? byId("about-means").content : null,
      held.simple ? null : byId("how-to-compare").content);
  if (kept) return scoreTable(keptRemark(kept), kept, byId("about-kept").content);
  return card("Scores", null, {}, element("p", {}, validationText()), byId("how-to-score").content);
}

const MOST_COLUMNS = 6;

function scoreTable(remark, { columns, rows }, ...after) {
  const arrow = { true: " ↑", false: " ↓", null: "" };
  const head = columns.map(({ name, larger }) => name + arrow[larger]);
  const best = columns.map((column, n) => bestOf(rows.map((row) => row.scores[n]), column));
  const cell = (value, n) =>
    value === null ? "–" : element(value === best[n] ? "strong" : "span", {}, digits(value, 4));
  const names = rows.map((row) => element(row.own ? "strong" : "span", {}, row.model));
  const long = columns.length > MOST_COLUMNS; // then a row is a score, not a model
  const shown = long
    ? head.map((name, n) => [name, ...rows.map((row) => cell(row.scores[n], n))])
    : rows.map((row, place) => [names[place], ...row.scores.map(cell)]);
  const tools = csvButton("Scores on held-out cells", ["model", ...columns.map(({ name }) => name)],
    () => rows.map((row) => [row.model, ...row.scores]));
  return card("Scores on held-out cells", remark, { tools, wide: true },
    scrolling("Scores", table("Scores on held-out cells", ["", ...(long ? names : head)], shown, { class: "plain scores" })),
    note(columns.map(meaningOf).join(" ")),
    beatenBy(rows, columns), ...after);
}

// Said where main effects predict as well, by the first score that is of whole distributions.
function beatenBy(rows, columns) {
  const place = columns.findIndex(({ name }) => /^log/.test(name));
  const [own, simple] = [rows.find((row) => row.own), rows.find((row) => /^main.effects$/i.test(row.model))];
  if (K < 2 || place < 0 || !simple || own.scores[place] === null || !(simple.scores[place] >= own.scores[place])) return null;
  return element("p", { class: "warning", id: "beaten" },
    `Main effects, which know only how frequent each label is, predict these cells as well (${columns[place].name} ` +
    `${digits(simple.scores[place], 4)} beside ${digits(own.scores[place], 4)}): the components add nothing to predictions.`);
}

const keptRemark = ({ cells, refitted }) =>
  `kept with the model: ${plural("cell", cells)} with a count, ${refitted ? "scores of a fit to the other cells" : "which the fit has not seen"}`;

const heldOutCells = ({ cells, zeros }) =>
  zeros ? `${plural("count", cells)}, and the empty cells held out with them` : plural("cell", cells);

function validationText() {
  const { validation, whether } = data.fit;
  if (validation === null) return "No score was kept with this model.";
  const what = whether ? "log score per count (whether there is one, and how many)" : "mean log pmf";
  return `On the cells that the fit held out for itself, the ${what} is ${digits(validation, 4)}.`;
}

function bestOf(scores, { larger }) {
  const [low, high] = endsOf(scores.filter((value) => value !== null));
  return larger === null || low === high ? null : larger ? high : low;
}

const meaningOf = ({ name, meaning, larger }) =>
  meaning && `${name}: ${meaning}${larger === null ? "" : `, ${larger ? "higher" : "lower"} is better`}.`;

function calibrationCard() {
  const calibration = data.held_out?.calibration;
  if (!calibration) return null;
  const { coverage, means, cells, occurrence } = calibration;
  return card("Calibration",
    `from ${plural("held-out cell", cells)}; on the dashed diagonal, what the model says is what happens`, { wide: true },
    element("div", { class: "pair" },
      occurrence && occurrenceChart(occurrence), coverage && coverageChart(coverage), meansChart(means)));
}

function occurrenceChart(groups) {
  const name = "Share of cells with a count by its probability, in groups of cells; on the diagonal if calibrated";
  return titled("Whether there is a count",
    diagonalChart(name, groups,
      { ends: [0, 1], format: roundPercent, xName: "probability of a count", yName: "cells with a count" }),
    numbersBehind("Whether there is a count", ["probability", "with a count"], () => groups, percent));
}

function coverageChart(coverage) {
  const name = "Share of held-out counts inside central intervals, by level; on the diagonal if calibrated";
  return titled("Coverage of intervals",
    diagonalChart(name, coverage,
      { ends: [0, 1], format: roundPercent, xName: "level of the interval", yName: "counts inside" }),
    numbersBehind("Coverage of intervals", ["level", "inside"], () => coverage, percent));
}

function meansChart(means) {
  const [low, high] = endsOf(means.flat());
  const room = 0.06 * (high - low || 1);
  const name = "Mean count by mean prediction, in groups of cells; on the diagonal if calibrated";
  return titled("Predicted and observed means",
    diagonalChart(name, means,
      { ends: [low - room, high + room], format: (value, more = 0) => digits(value, 2 + more), xName: "mean prediction", yName: "mean count" }),
    numbersBehind("Predicted and observed means", ["predicted", "observed"], () => means, (value) => digits(value, 3)));
}

const titled = (title, ...content) =>
  element("div", {}, element("p", { class: "chart-title" }, title), ...content);
