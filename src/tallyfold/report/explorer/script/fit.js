// The course of the fit, how it was made, and of what.

function drawFit() {
  const cards = [scoresCard(), calibrationCard(), courseCard(), madeCard(), dataCard()];
  byId("fit-cards").replaceChildren(...cards.filter(Boolean));
}

// Scores have a line for each kind, objectives one for each phase: others would not compare.
function courseCard() {
  const { history, iterations, seconds, ended, scored, objectives } = data.fit;
  const pointsOf = (column, own) => history
    .map((each, place) => ({ x: each[0], y: each[column], label: String(each[0]), place }))
    .filter(({ y, place }) => y !== null && own(place));
  const several = new Set(history.map((each) => each[3])).size > 1;
  const charts = [
    ...scored.map(({ name, own }) =>
      courseChart(`Score on validation cells${name && `: ${name}`}`, pointsOf(2, (place) => own[place]))),
    ...objectives.map(({ phase, from, to }) =>
      courseChart(several ? `Objective of the phase “${phase}”` : "Objective",
        settled(pointsOf(1, (place) => place >= from && place < to)), from)),
  ].filter(Boolean);
  const time = seconds === null ? "" : ` in ${digits(seconds, 2)} s`;
  const end = `The fit ended because ${ended}; iteration ${iterations} was kept${charts.length ? " (marked)" : ""}.`;
  return card("Course of the fit", `${plural("iteration", history.length)}${time}. ${end}`, { wide: true },
    element("div", { class: "pair" }, charts),
    numbersBehind("Course of the fit", ["iteration", "phase", "objective", "validation"],
      () => history.map(([n, objective, validation, phase]) => [n, phase, objective, validation]),
      (value, column) => (column === 0 ? String(value) : digits(value, 5))));
}

// `first` is the place of the phase's first iteration, to say which were left out
function courseChart(name, points, first = points[0]?.place) {
  if (points.length < 2) return null;
  const { iterations } = data.fit;
  const inside = iterations >= points[0].x && iterations <= points.at(-1).x;
  return titled(points[0].place > first ? `${name}, from iteration ${points[0].x}` : name,
    lineChart(`${name} by iteration`, points,
      { height: 170, format: (value, more = 0) => digits(value, 3 + more), mark: inside ? iterations : null }));
}

// Leaves out what came before a single large step, which would hide all that came after.
function settled(points) {
  const values = points.map((p) => p.y);
  const [low, high] = endsOf(values);
  const step = values.findLastIndex((value, n) => n > 0 && Math.abs(value - values[n - 1]) > 0.6 * (high - low));
  return step > 0 && points.length - step >= 4 ? settled(points.slice(step)) : points;
}

const facts = (pairs) =>
  element("dl", {}, pairs.filter(Boolean).map(([name, value]) =>
    [element("dt", {}, name), element("dd", {}, value)]));

function madeCard() {
  const { fit } = data;
  const changed = fit.parameters.filter((parameter) => !parameter.default);
  const seed = fit.parameters.find((parameter) => parameter.name === "random_state");
  return card("How it was fitted", null, {},
    facts([
      ["model", fit.model],
      fit.members > 1 && ["members", `a mixture of ${fit.members} fits; components are those of the first`],
      fit.whether && ["whether", fit.whether],
      fit.gate && ["gate", fit.gate],
      !(fit.whether && fit.amount) && ["likelihood", fit.likelihood ?? "none: it predicts means only"],
      fit.amount && [fit.whether ? "how many" : "counts", fit.amount],
      ["parameters", changed.length ? parameterList(changed) : "all have their defaults"],
      seed && ["seed", seed.value],
      ["page made by", `tallyfold ${fit.version}`],
    ]),
    numbersBehind("All parameters", ["parameter", "value"], () => fit.parameters.map((p) => [p.name, p.value])));
}

const parameterList = (parameters) =>
  element("span", {},
    parameters.flatMap(({ name, value }, n) => [n ? ", " : "", element("code", {}, `${name}=${value}`)]),
    "; the others have their defaults");

function dataCard() {
  const { axes: sizes, zeros, train } = data.data;
  const density = train?.density == null ? "" : ` (${percent(train.density)} of all)`;
  const known = train
    ? [
        ["non-zero cells", `${whole.format(train.cells)}${density}`],
        ["total count", whole.format(train.total)],
        train.ones != null && ["counts that are one", percent(train.ones)],
      ]
    : [["counts", byId("no-counts").content]];
  return card("The data", null, {}, facts([
    ["axes", sizes.map(({ name, size }) => `${name} ${whole.format(size)}`).join(" × ")],
    ["empty cells", zeros === "observed" ? "observed: they are zeros" : "missing: nothing is said about them"],
    ...known,
  ]));
}
