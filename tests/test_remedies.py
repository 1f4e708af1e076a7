"""What a message tells to do can be done: every remedy that names an argument is carried out."""

import ast
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV

import tallyfold as tf
from tallyfold.data.formats.writing import _stamp, axes_file, axes_to_bytes
from tallyfold.data.labels import with_bins_of
from tallyfold.errors import RoundedWarning, TallyfoldError
from tallyfold.evaluation.metrics import scores_of
from tallyfold.evaluation.ranking import ranking
from tallyfold.evaluation.words.cooccurrence import Cooccurrence
from tallyfold.report import plots

PACKAGE = Path(tf.__file__).parent
EVENTS = pd.DataFrame({"who": list("aabbc"), "what": list("xyxyx"), "n": [1, 2, 3, 4, 5]})
NEVER = pd.DataFrame({"who": ["a", "b"], "what": ["never", "2024-01-01"]})
AXES = ["who", "what"]
QUICK = {"n_components": 1, "max_iter": 2, "backend": "numpy"}
HEAD = {"n_components": 1, "max_iter": 2}
TENSOR = tf.simulate((12, 10, 5), 1, density=0.5, random_state=0).tensor
YEARLY = pd.DataFrame({"who": list("abab"), "year": [2001, 2001, 2002, 2004]})
TWO_TIMES = tf.CountTensor(
    [
        TENSOR.axes[0],
        *(
            tf.Axis.numbered(a.name, len(a)).with_order(tf.AxisOrder("ordered"))
            for a in TENSOR.axes[1:]
        ),
    ],
    TENSOR.indices,
    TENSOR.counts,
)
RATED = tf.CountTensor(TENSOR.axes, TENSOR.indices, TENSOR.counts % 5 + 1)


def fitted(**given):
    return tf.BPTF(**QUICK, **given).fit(TENSOR)


def beyond(tensor=TENSOR):
    """Return a tensor with a label that models of TENSOR do not know."""
    labels = [*tensor.axes[0].labels.to_pylist()[:-1], "somebody else"]
    first = tf.Axis(tensor.axes[0].name, labels)
    return tf.CountTensor([first, *tensor.axes[1:]], tensor.indices, tensor.counts)


def csv(text, name="x.csv"):
    Path(name).write_text(text)
    return name


def parquet():
    EVENTS.to_parquet("x.parquet")
    return "x.parquet"


def panels(number):
    from matplotlib.figure import Figure

    return Figure().subplots(number)


def counted(repeated):
    return tf.read_counts(csv("who,what,n\na,x,2\na,x,4\n"), AXES, "n", repeated=repeated)


def rounded(repeated):
    """Put 2 and 3 together; a mean that is rounded is an error here."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RoundedWarning)
        try:
            return tf.CountTensor.from_frame(
                pd.DataFrame({"who": "a", "what": "x", "n": [2, 3]}), AXES, "n", repeated=repeated
            )
        except RoundedWarning as warning:
            raise TallyfoldError(str(warning)) from None


def labelled(missing, label="b"):
    frame = pd.DataFrame({"who": ["a", None, label], "what": list("xyx")})
    return tf.CountTensor.from_frame(frame, AXES, missing=missing)


def with_counts(column, **how):
    return tf.CountTensor.from_frame(EVENTS.assign(n=column), AXES, "n", **how)


def words(**how):
    frame = pd.DataFrame({"text": ["one two", None], "who": ["a", "b"]})
    return tf.CountTensor.from_documents(frame, "text", ["who"], **how)


def own_file(spoil=None):
    """Write a tensor to a file with its axes, and change something."""
    tensor = tf.CountTensor.from_frame(EVENTS, AXES, "n")
    tf.write_counts(tensor, "own.csv")
    if spoil is not None:
        spoil(Path("own.csv"))
    return "own.csv"


def longer(file):
    file.write_text(file.read_text() + "zzz,x,1\n")


def broken_axes(file):
    Path("own.csv.axes").write_bytes(b"x")


def wide(file):
    file.write_text("who,what,n,m\na,x,1,1\n")
    tensor = tf.CountTensor.from_frame(EVENTS, AXES, "n")
    axes_file(file).write_bytes(axes_to_bytes(tensor.axes, _stamp(file)))


def other_types(file):
    axes = [tf.Axis("who", [1, 2]), tf.Axis("what", ["x", "y"])]
    axes_file(file).write_bytes(axes_to_bytes(axes, _stamp(file)))


def tuned(**given):
    return tf.tune(
        tf.NTFLS(n_components=1, max_iter=2),
        TENSOR,
        {"n_components": [1]},
        2,
        storage=None,
        **given,
    ).best


def vae(**given):
    return tf.VAEBPTF(**HEAD | given).fit(TENSOR)


def days(**given):
    """Return a part of all cells of a log with days."""
    frame = pd.DataFrame({"who": list("ab") * 300, "day": pd.date_range("2024-01-01", periods=600)})
    return tf.split(tf.CountTensor.from_frame(frame, ["who", "day"], **given), cells="all").train


def log(**given):
    """Return the counts of a log with days and years."""
    dates = pd.date_range("2024-01-01", periods=90)
    frame = pd.DataFrame({"who": list("abc") * 30, "day": dates.astype(str), "year": dates.year})
    return tf.CountTensor.from_frame(frame, **{"axes": ["who", "day", "year"]} | given)


MONTHS = [tf.Axis("day", ["2024-01"], tf.AxisOrder.of_unit("month"))]
LABELS = TENSOR.to_frame().rename(columns={"count": "mean"})

FIT = fitted()
BY_MONTH = tf.Margins().fit(log(bins={"day": "month"}))
MISSING = tf.Margins(zeros="missing").fit(TENSOR)
EMPTY = TENSOR.with_cells([0])
SEEN = fitted(zeros="observed")
UNKNOWN = "unknown='prior'"

REMEDIES = [
    # what fails, what its message names, and what was named as code
    (
        "output='frame'",
        lambda: SEEN.predict(TENSOR, level=0.9),
        lambda: SEEN.predict(TENSOR, level=0.9, output="frame"),
    ),
    (
        "train=",
        lambda: scores_of(SEEN, TENSOR, ["auc"]),
        lambda: scores_of(SEEN, TENSOR, ["auc"], train=EMPTY),
    ),
    (
        "bins=",
        lambda: with_bins_of(days(), MONTHS),
        lambda: with_bins_of(days(bins={"day": "month"}), MONTHS),
    ),
    (
        "bins={'day': 'month'}",
        lambda: log().axis("day").steps(),
        lambda: log(bins={"day": "month"}).axis("day").steps(),
    ),
    (
        "ordered=['year']",
        lambda: log().axis("year").following(1),
        lambda: log(ordered=["year"]).axis("year").following(1),
    ),
    (
        "axes=model.axes_",
        lambda: BY_MONTH.log_pmf(log()),
        lambda: BY_MONTH.log_pmf(log(axes=BY_MONTH.axes_)),
    ),
    (
        "without bins",
        lambda: BY_MONTH.score(log(bins={"day": "week"})),
        lambda: BY_MONTH.score(log()),
    ),
    (
        "unknown={'axis_0': 'prior'}",
        lambda: FIT.predict(beyond()),
        lambda: FIT.predict(beyond(), unknown={"axis_0": "prior"}),
    ),
    (
        "output='array'",
        lambda: FIT.predict(LABELS, output="frame"),
        lambda: FIT.predict(LABELS, output="array"),
    ),
    (
        "value='count'",
        lambda: tf.CountTensor.from_frame(EVENTS.rename(columns={"n": "count"}), AXES),
        lambda: tf.CountTensor.from_frame(
            EVENTS.rename(columns={"n": "count"}), AXES, value="count"
        ),
    ),
    (
        "value=None",
        lambda: tf.CountTensor.from_frame(EVENTS.rename(columns={"n": "count"}), AXES),
        lambda: tf.CountTensor.from_frame(EVENTS.rename(columns={"n": "count"}), AXES, value=None),
    ),
    (
        "value=None",
        lambda: tf.CountTensor.from_frame(EVENTS, ["what", "n"], "who"),
        lambda: tf.CountTensor.from_frame(EVENTS, ["what", "n"], value=None),
    ),
    (
        "value=None",
        lambda: tf.read_counts(parquet(), ["what", "n"], "who"),
        lambda: tf.read_counts(parquet(), ["what", "n"], value=None),
    ),
    (
        "repeated='sum'",
        lambda: tf.CountTensor.from_frame(
            EVENTS[["who", "what"]].iloc[[0, 0]], AXES, repeated="error"
        ),
        lambda: tf.CountTensor.from_frame(
            EVENTS[["who", "what"]].iloc[[0, 0]], AXES, repeated="sum"
        ),
    ),
    (
        "repeated='sum'",
        lambda: tf.read_counts(csv("who,what\na,x\na,x\n"), AXES, repeated="error"),
        lambda: tf.read_counts(csv("who,what\na,x\na,x\n"), AXES, repeated="sum"),
    ),
    *(
        (
            f"repeated='{how}'",
            lambda: counted(repeated="error"),
            lambda how=how: counted(repeated=how),
        )
        for how in ("sum", "mean", "last", "max")
    ),
    *(
        (f"repeated='{how}'", lambda: rounded("mean"), lambda how=how: rounded(how))
        for how in ("last", "max")
    ),
    *(
        (
            f"missing='{how}'",
            lambda: labelled(missing="error"),
            lambda how=how: labelled(missing=how),
        )
        for how in ("drop", "label")
    ),
    (
        "errors='coerce'",
        lambda: with_counts(EVENTS["n"].astype(str).replace("3", "n/a")),
        lambda: with_counts(
            pd.to_numeric(EVENTS["n"].astype(str).replace("3", "n/a"), errors="coerce"),
            missing="drop",
        ),
    ),
    (
        "scale=(1, 10)",
        lambda: with_counts(EVENTS["n"] / 2),
        lambda: tf.Margins(scale=(1, 10)).fit(with_counts(2 * (EVENTS["n"] / 2))),
    ),
    (
        "missing='drop'",
        lambda: tf.read_counts(csv("who,what,n\na,x,1\na,y,\n"), AXES, "n"),
        lambda: tf.read_counts(csv("who,what,n\na,x,1\na,y,\n"), AXES, "n", missing="drop"),
    ),
    (
        "missing='drop'",
        lambda: labelled("label", "(missing)"),
        lambda: labelled("drop", "(missing)"),
    ),
    ("missing='drop'", lambda: words(), lambda: words(missing="drop")),
    (
        "bad='drop'",
        lambda: tf.read_counts(csv("who,what,n\na,x,1\na,y,-2\n"), AXES, "n"),
        lambda: tf.read_counts(csv("who,what,n\na,x,1\na,y,-2\n"), AXES, "n", bad="drop"),
    ),
    (
        "bad='drop'",
        lambda: tf.CountTensor.from_frame(NEVER, AXES, bins={"what": "day"}),
        lambda: tf.CountTensor.from_frame(NEVER, AXES, bins={"what": "day"}, bad="drop"),
    ),
    (
        "axes=[...]",
        lambda: tf.read_counts(csv("who,what\na,x\n")),
        lambda: tf.read_counts(csv("who,what\na,x\n"), axes=AXES),
    ),
    (
        "delimiter=';'",
        lambda: tf.read_counts(csv("who;what\na;x\n"), AXES),
        lambda: tf.read_counts(csv("who;what\na;x\n"), AXES, delimiter=";"),
    ),
    (
        "axes=",
        lambda: tf.read_counts(own_file(longer)),
        lambda: [
            own_file(longer),
            Path("own.csv.axes").unlink(),
            tf.read_counts("own.csv", axes=AXES, value="count"),
        ],
    ),
    (
        "axes=",
        lambda: tf.read_counts(own_file(broken_axes)),
        lambda: tf.read_counts(own_file(broken_axes), axes=AXES, value="count"),
    ),
    (
        "axes=",
        lambda: tf.read_counts(own_file(other_types)),
        lambda: tf.read_counts(own_file(other_types), axes=AXES, value="count"),
    ),
    (
        "axes=",
        lambda: tf.read_counts(own_file(wide)),
        lambda: tf.read_counts(own_file(wide), axes=AXES, value="n"),
    ),
    (
        "value=",
        lambda: tf.read_counts(own_file(wide)),
        lambda: tf.read_counts(own_file(wide), axes=AXES, value="n"),
    ),
    (
        'author=["..."]',
        lambda: TENSOR.sel(axis_0=TENSOR.axes[0].label(1), axis_1=TENSOR.axes[1].label(1)),
        lambda: TENSOR.sel(axis_0=[TENSOR.axes[0].label(1)]),
    ),
    ("marginal()", lambda: TENSOR.collapse("axis_0", "axis_1"), lambda: TENSOR.marginal("axis_2")),
    (
        "sel()",
        lambda: TENSOR.to_dense(most_cells=1),
        lambda: TENSOR.sel(axis_0=[TENSOR.axes[0].label(0)]).to_dense(),
    ),
    ("collapse()", lambda: TENSOR.to_scipy(), lambda: TENSOR.collapse("axis_2").to_scipy()),
    ("to_sparse()", lambda: TENSOR.to_scipy(), lambda: TENSOR.to_sparse()),
    (
        "cells='nonzero'",
        lambda: tf.split(TENSOR, cells="all", groups=np.zeros(TENSOR.nnz, int)),
        lambda: tf.split(TENSOR, cells="nonzero", groups=np.arange(TENSOR.nnz)),
    ),
    (
        "cells='nonzero'",
        lambda: tf.split(TENSOR.with_cells([0, 1]), 0.0001, cells="all"),
        lambda: tf.split(TENSOR.with_cells([0, 1]), 0.5, cells="nonzero"),
    ),
    (
        "cv=tf.cross_validator(5)",
        lambda: TENSOR[0],
        lambda: GridSearchCV(tf.Constant(), {}, cv=tf.cross_validator(5)).fit(TENSOR),
    ),
    (
        "folds=[tf.split(tensor, groups=tf.near_copies(tensor, axis))]",
        lambda: next(tf.cross_validator(3).split(TENSOR, groups=[1])),
        lambda: next(
            tf.cross_validator(
                folds=[tf.split(TENSOR, groups=tf.near_copies(TENSOR, "axis_0"))]
            ).split(TENSOR)
        ),
    ),
    (
        "time='axis_1'",
        lambda: tf.LastValue().fit(TWO_TIMES),
        lambda: tf.LastValue(time="axis_1").fit(TWO_TIMES),
    ),
    (
        "ordered=['year']",
        lambda: tf.LastValue().fit(tf.CountTensor.from_frame(YEARLY, ["who", "year"])),
        lambda: tf.LastValue().fit(
            tf.CountTensor.from_frame(YEARLY, ["who", "year"], ordered=["year"])
        ),
    ),
    (
        "period=7",
        lambda: tf.SeasonalNaive(time="axis_1").fit(TWO_TIMES),
        lambda: tf.SeasonalNaive(time="axis_1", period=7).fit(TWO_TIMES),
    ),
    (
        "SmoothedPast",
        lambda: tf.BPTF(**QUICK).fit(TENSOR).forecast(1),
        lambda: tf.SmoothedPast(time="axis_1").fit(TWO_TIMES).forecast(1),
    ),
    (
        "from_frame(frame, axes=[...])",
        lambda: tf.BPTF(**QUICK).fit(EVENTS),
        lambda: tf.BPTF(**QUICK).fit(tf.CountTensor.from_frame(EVENTS, axes=AXES, value="n")),
    ),
    (
        "read_counts(path, axes=[...])",
        lambda: tf.BPTF(**QUICK).fit(EVENTS),
        lambda: tf.read_counts(csv("who,what\na,x\n"), axes=AXES),
    ),
    (
        "fit(tensor)",
        lambda: tf.BPTF().predict(TENSOR),
        lambda: tf.BPTF(**QUICK).fit(TENSOR).predict(TENSOR),
    ),
    (
        "components(axis)",
        lambda: FIT.set_output(),
        lambda: [FIT.components("axis_0"), FIT.vectors("axis_0")],
    ),
    (
        "zeros='observed'",
        lambda: MISSING.probability(TENSOR),
        lambda: SEEN.probability(TENSOR),
    ),
    (
        "zeros='observed'",
        lambda: ranking(MISSING, TENSOR, EMPTY, by="probability"),
        lambda: ranking(SEEN, TENSOR, EMPTY, by="probability"),
    ),
    (
        "zeros='observed'",
        lambda: tf.surprise(fitted(zeros="missing"), TENSOR, absent=3),
        lambda: tf.surprise(SEEN, TENSOR, absent=3),
    ),
    (
        "tail='lower'",
        lambda: tf.surprise(SEEN, TENSOR, absent=3, tail="upper"),
        lambda: tf.surprise(SEEN, TENSOR, absent=3, tail="lower"),
    ),
    ("metric='rmse'", lambda: tuned(metric="log-pmf-positive"), lambda: tuned(metric="rmse")),
    ("'mae-mean'", lambda: tuned(metric="log-pmf-positive"), lambda: tuned(metric="mae-mean")),
    (
        "gate='none'",
        lambda: fitted(zeros="observed", gate=("axis_0", "axis_0")),
        lambda: fitted(zeros="observed", gate="none"),
    ),
    (
        "zeros='observed'",
        lambda: fitted(zeros="missing", gate=("axis_0", "axis_1")),
        lambda: fitted(zeros="observed", gate=("axis_0", "axis_1")),
    ),
    (
        "`validation` share",
        lambda: fitted(zeros="observed", gate="auto", validation=None),
        lambda: fitted(zeros="observed", gate="auto", validation=0.2),
    ),
    (
        "amount='head'",
        lambda: tf.BPTF(**QUICK, scale=(1, 5)).fit(RATED),
        lambda: tf.BPTF(**QUICK, scale=(1, 5), amount="head").fit(RATED),
    ),
    (
        "loss='poisson'",
        lambda: tf.MLPTF(max_iter=1, loss="squared", truncated=True).fit(TENSOR),
        lambda: tf.MLPTF(max_iter=1, loss="poisson", truncated=True).fit(TENSOR),
    ),
    (
        "zeros='observed'",
        lambda: tf.MLPTF(max_iter=1, zeros="missing", negatives=2).fit(TENSOR),
        lambda: tf.MLPTF(max_iter=1, zeros="observed", negatives=2).fit(TENSOR),
    ),
    (
        "likelihood='poisson'",
        lambda: fitted(zeros="observed", likelihood="negative-binomial"),
        lambda: fitted(zeros="observed", likelihood="poisson", truncated=False),
    ),
    (
        "truncated=False",
        lambda: fitted(zeros="observed", truncated=True),
        lambda: fitted(zeros="observed", truncated=False),
    ),
    (
        "zeros='missing'",
        lambda: fitted(zeros="observed", likelihood="negative-binomial"),
        lambda: fitted(zeros="missing", likelihood="negative-binomial"),
    ),
    (
        "amount='negative-binomial'",
        lambda: vae(zeros="missing", interactions=[("axis_0", "axis_1")]),
        lambda: vae(
            zeros="missing", interactions=[("axis_0", "axis_1")], amount="negative-binomial"
        ),
    ),
    (
        "zeros='missing'",
        lambda: vae(zeros="observed", interactions="none", amount="negative-binomial"),
        lambda: vae(zeros="missing", interactions="none", amount="negative-binomial"),
    ),
    (
        "`validation` share",
        lambda: vae(zeros="missing", batch_entities=5, validation=None),
        lambda: vae(zeros="missing", batch_entities=5, validation=0.2),
    ),
    (
        "by='relevance'",
        lambda: FIT.components("axis_0", by="frex", relevance=0.5),
        lambda: FIT.components("axis_0", by="relevance", relevance=0.5),
    ),
    (
        "components('axis_0')",
        lambda: FIT.course(0, "axis_0"),
        lambda: FIT.components("axis_0"),
    ),
    (
        "n_members=1",
        lambda: vae(zeros="missing", n_members=2).drop([0]),
        lambda: vae(zeros="missing", n_components=2, n_members=1).drop([0]),
    ),
    (
        "n_members=1",
        lambda: tf.stability(TENSOR, vae(zeros="missing", n_members=2), runs=2),
        lambda: tf.stability(TENSOR, vae(zeros="missing", n_members=1), runs=2),
    ),
    (
        "one_standard_error=False",
        lambda: tf.select_rank(TENSOR, (1,), fitted(), 2, one_standard_error=False, stability=True),
        lambda: tf.select_rank(TENSOR, (1,), fitted(), 2, one_standard_error=False),
    ),
    (
        "model.components(axis)",
        lambda: FIT.similar("somebody"),
        lambda: FIT.similar(FIT.components("axis_0")["name"].iloc[0]),
    ),
    (
        "likelihood='negative-binomial'",
        lambda: vae(
            zeros="missing", amount="negative-binomial", dispersion=1.0, likelihood="poisson"
        ),
        lambda: vae(
            zeros="missing",
            amount="negative-binomial",
            dispersion=1.0,
            likelihood="negative-binomial",
        ),
    ),
    (
        "scale=None",
        lambda: tf.Margins(scale=(1, 5)).fit(RATED).log_pmf(TENSOR),
        lambda: tf.Margins(scale=None).fit(RATED).log_pmf(TENSOR),
    ),
    (
        "load(folder)",
        lambda: tf.surprise("m", TENSOR),
        lambda: [FIT.save("m"), tf.surprise(tf.load("m"), TENSOR)],
    ),
    (
        "text.lower().split()",
        lambda: Cooccurrence.from_documents(["a b"]),
        lambda: Cooccurrence.from_documents(["A b".lower().split()]),
    ),
    (
        "ax=None",
        lambda: plots.component_bars(FIT, 0, "axis_0", ax=panels(9)),
        lambda: plots.component_bars(FIT, 0, "axis_0", ax=None),
    ),
    (
        "figure.subplots(",
        lambda: plots.component_bars(FIT, 0, "axis_0", ax=panels(9)),
        lambda: plots.component_bars(FIT, 0, "axis_0", ax=panels(1)),
    ),
    ("device='cpu'", lambda: tf.BPTF(device="cuda:77").fit(TENSOR), lambda: fitted(device="cpu")),
    (UNKNOWN, lambda: FIT.predict(beyond()), lambda: FIT.predict(beyond(), unknown="prior")),
    (UNKNOWN, lambda: FIT.score(beyond()), lambda: FIT.score(beyond(), unknown="prior")),
    (UNKNOWN, lambda: FIT.interval(beyond()), lambda: FIT.interval(beyond(), unknown="prior")),
    (UNKNOWN, lambda: FIT.sample(beyond()), lambda: FIT.sample(beyond(), unknown="prior")),
    (UNKNOWN, lambda: FIT.rate(beyond()), lambda: FIT.rate(beyond(), unknown="prior")),
    (UNKNOWN, lambda: FIT.log_pmf(beyond()), lambda: FIT.log_pmf(beyond(), unknown="prior")),
    (UNKNOWN, lambda: FIT.predictive(beyond()), lambda: FIT.predictive(beyond(), unknown="prior")),
    (
        UNKNOWN,
        lambda: SEEN.probability(beyond()),
        lambda: SEEN.probability(beyond(), unknown="prior"),
    ),
    (
        UNKNOWN,
        lambda: tf.surprise(FIT, beyond()),
        lambda: tf.surprise(FIT, beyond(), unknown="prior"),
    ),
    (
        UNKNOWN,
        lambda: scores_of(FIT, beyond(), ["rmse"]),
        lambda: FIT.predict(beyond(), unknown="prior"),
    ),
    (
        UNKNOWN,
        lambda: ranking(FIT, beyond(), EMPTY),
        lambda: FIT.predict(beyond(), unknown="prior"),
    ),
]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.filterwarnings("ignore::tallyfold.errors.TallyfoldWarning")
@pytest.mark.parametrize("number", range(len(REMEDIES)), ids=lambda n: f"{n}: {REMEDIES[n][0]}")
def test_what_a_message_names_works(number):
    named, fails, remedy = REMEDIES[number]
    with pytest.raises(TallyfoldError) as refused:
        fails()
    assert named in str(refused.value)
    remedy()


NOT_RUN = {
    "n_draws=": "a gigabyte of draws; see tests/models/test_arviz.py",
    "backend='auto'": "a kernel without a torch form; the models' own rules come first",
    "bad_lines='skip'": "data sets of the paper; see tests/paper/test_datasets.py",
    "device='cpu'": "the message of a card without memory; device= is tried above",
    "memory_limit=": "DuckDB is out of memory",
    "top=": "an axis of more than two thousand million labels",
    "max_iter=": "a warning; see tests/models/test_convergence.py",
    "tol=": "a warning; see tests/models/test_convergence.py",
    "encoding=": "data sets of the paper; see tests/paper/test_datasets.py",
    "bad_lines=": "data sets of the paper; see tests/paper/test_datasets.py",
    "columns=": "data sets of the paper; see tests/paper/test_datasets.py",
}
"""Remedies that cannot be carried out here, and why."""
STATES = {
    "zeros='auto'",
    "repeated='error'",
    "cells='all'",
    "validation=None",
    "validation=",
    "interactions='none'",
    "by=",
    "tail='upper'",
    "gate='auto'",
    "amount='head'",
    "loss='squared'",
    "amount=",
    "sampling=",
    "likelihood='auto'",
}
"""What messages say of what was given; no remedy."""


def named_arguments():
    """Return the arguments that messages of errors and warnings name, with where they do."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).parts[0] == "cli":  # options; their tests run them
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            called = getattr(getattr(node, "func", None), "attr", "")
            if isinstance(node, ast.Raise) or called == "warn":
                texts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
                for text in filter(lambda each: isinstance(each, str), texts):
                    for name in re.findall(r"\b[a-z_]+=(?:'[a-z-]+'|None|False|(?=[ .,]|$))", text):
                        found.setdefault(name, f"{path.name}:{node.lineno}")
    return found


def test_every_argument_that_a_message_names_is_tried():
    tried = " ".join(named for named, _, _ in REMEDIES)
    missing = {
        name: place
        for name, place in named_arguments().items()
        if name not in tried and name not in NOT_RUN and name not in STATES
    }
    assert missing == {}
