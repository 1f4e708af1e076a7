"""Every figure draws what its numbers say, wherever it is asked to, and leaves no trace."""

import importlib.util
import logging
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

import tallyfold as tf
from tallyfold.data.ordering import places_of
from tallyfold.errors import DataError, LabelError, ParameterError
from tallyfold.evaluation.profiles import profile, top
from tallyfold.evaluation.scaling import scaling
from tallyfold.evaluation.search.rank import RankChoice
from tallyfold.evaluation.stability import Stability
from tallyfold.models.base import CountModel
from tallyfold.probability.counts import COUNTS
from tallyfold.probability.mixture import CountMixture
from tallyfold.report import plots
from tallyfold.report.plots.calibration import mean_pit
from tallyfold.report.plots.legible import legible
from tallyfold.report.plots.style import COLOURS, value_limit

DOCS = Path(__file__).parents[2] / "docs"

NASTY = [
    "$x^2$ and $y",
    "<script>alert('x')</script>",
    "__init__",
    "日本語のラベル",
    "two\nlines\tand\x00more",
    "a/very/long/path/of/a/file/that/goes/on/and/on/and/on/until/its/end.txt",
    "100 % \\frac{",
    "🎉",
]
YEARS = [f"{year}" for year in range(2003, 2010)]


def tensor_of(*sizes_or_labels, random_state=0):
    """Make a tensor with labels of one's own."""
    axes = [
        tf.Axis(name, [*labels])
        for name, labels in zip(("user", "word", "year"), sizes_or_labels, strict=True)
    ]
    shape = tuple(len(axis) for axis in axes)
    counts = np.random.default_rng(random_state).poisson(1.2, shape)
    indices = np.argwhere(counts > 0)
    return tf.CountTensor(axes, indices, counts[counts > 0])


@pytest.fixture(scope="module")
def model():
    users = [f"user {number}" for number in range(12)]
    tensor = tensor_of(users, [*NASTY, "plain"], YEARS)
    return tf.BPTF(n_components=3, max_iter=15).fit(tensor)


@pytest.fixture(scope="module")
def parts():
    return tf.split(tf.simulate((40, 30, 20), 3, density=0.2, random_state=1).tensor)


@pytest.fixture(scope="module")
def fitted(parts):
    return tf.BPTF(n_components=3, max_iter=40).fit(parts[0])


SCORES = pd.DataFrame(
    {
        "model": ["$a$", "_b", "$a$", "_b"],
        "dataset": ["d_1", "d_1", "$e$", "$e$"],
        "mae": [0.5, 0.6, 1.5, None],
        "se": [0.1, 0.1, 0.2, None],
        "paper": [0.7, None, 1.4, 1.2],
        "share": [1, 1, 10, 10],
    }
)
CELLS_4000 = np.stack([np.arange(4000), np.zeros(4000, int)], axis=1)
RANKS = pd.DataFrame({"components": [1, 2, 4, 8], "mean": [-2, -1.1, -1.05, -1.2], "se": 0.1})
POINTS = pd.DataFrame(
    {"label": NASTY, "x": np.arange(8.0), "y": np.arange(8.0) ** 2, "genre": [*"aabbccd", None]}
)

TOLD = {"total": -2.0, "period actual": 9, "period mean": 8, "period low": 5, "period high": 11}
BACKTEST = pd.DataFrame(
    [
        (f"_{origin}", f"$p{origin}$", 1, model, "all", metric, value + origin)
        for origin in range(3)
        for model in ("$a$", "_b")
        for metric, value in TOLD.items()
    ],
    columns=["origin", "period", "ahead", "model", "combinations", "metric", "value"],
)


def stable(model):
    """Return what `stability` would, of two fits."""
    number = int((~model.posterior_.switched_off()).sum())
    overlaps = np.linspace(0.1, 0.9, 2 * number).reshape(2, number)
    return Stability(model, "log-pmf-positive", pd.DataFrame(), overlaps, [])


FIGURES = {
    "component_bars": lambda m, t, ax: plots.component_bars(m, 0, "word", ax=ax),
    "components_grid": lambda m, t, ax: plots.components_grid(m, 1, ax=ax),
    "stability_bars": lambda m, t, ax: plots.stability_bars(stable(m), ax=ax),
    "time_course": lambda m, t, ax: plots.time_course(m, "year", named_by="word", ax=ax),
    "factor_profile": lambda m, t, ax: plots.factor_profile(m, "word", NASTY[:2], ax=ax),
    "top_entities_bars": lambda m, t, ax: plots.top_entities_bars(
        m, "word", {"user": "user 3"}, ax=ax
    ),
    "component_map": lambda m, t, ax: plots.component_map(m, named_by="word", ax=ax),
    "entity_map": lambda m, t, ax: plots.entity_map(POINTS, "genre", ax=ax),
    "convergence": lambda m, t, ax: plots.convergence(m, ax=ax),
    "calibration": lambda m, t, ax: plots.calibration(m, t, ax=ax),
    "pit_histogram": lambda m, t, ax: plots.pit_histogram(m, t, ax=ax),
    "rank_curve": lambda m, t, ax: plots.rank_curve(RANKS, ax=ax),
    "score_curves": lambda m, t, ax: plots.score_curves(
        SCORES, "share", "mae", "model", "se", log="xy", ax=ax
    ),
    "backtest_scores": lambda m, t, ax: plots.backtest_scores(BACKTEST, ax=ax),
    "forecast_ribbons": lambda m, t, ax: plots.forecast_ribbons(BACKTEST, "$a$", ax=ax),
    "score_bars": lambda m, t, ax: plots.score_bars(
        SCORES, "mae", error="se", published="paper", ax=ax
    ),
}
PANELS = {"components_grid": 3, "factor_profile": 2, "convergence": 2, "score_bars": 2}


def test_every_figure_is_tested():
    assert set(FIGURES) == set(plots.__all__) == set(dir(plots))


def test_figures_load_no_matplotlib_until_drawn():
    code = (
        "import sys; from tallyfold.report import plots; [getattr(plots, n) for n in plots.__all__]"
        "; print('matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    with pytest.raises(AttributeError, match="no attribute 'pie'"):
        plots.pie  # noqa: B018


def gallery_figures():
    spec = importlib.util.spec_from_file_location("gallery_figures", DOCS / "gallery_figures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_gallery_shows_every_figure_under_its_code():
    blocks = gallery_figures().BLOCK.finditer((DOCS / "gallery.md").read_text("utf-8"))
    shown = {block["file"]: block["code"] for block in blocks if block["file"]}
    assert {*shown} == {f"_build/gallery/{name}.png" for name in plots.__all__}
    for name in plots.__all__:
        assert f"ax = plots.{name}(" in shown[f"_build/gallery/{name}.png"]


def test_the_gallery_is_drawn_by_the_code_of_its_page(tmp_path):
    page = tmp_path / "gallery.md"
    draw = "ax = plots.score_curves(frame, 'x', 'y')"
    page.write_text(
        "```python\nimport pandas as pd\nfrom tallyfold.report import plots\n"
        "frame = pd.DataFrame({'x': [1, 2], 'y': [3, 4]})\n```\n\n"
        f"```python\n{draw}\n```\n\n![A line](made/line.png)\n"
    )
    assert gallery_figures().render(page) == [tmp_path / "made" / "line.png"]
    assert (tmp_path / "made" / "line.png").read_bytes().startswith(b"\x89PNG")


def drawn(panels):
    """Return the axes of a figure, after it was drawn: a bad label fails there."""
    axes = np.ravel(np.asarray(panels, dtype=object))
    assert all(isinstance(ax, Axes) for ax in axes)
    axes[0].get_figure(root=True).draw_without_rendering()
    return axes


@pytest.mark.parametrize("name", FIGURES)
def test_draws_by_itself_with_labelled_axes_and_no_trace(name, model):
    before, open_figures = dict(matplotlib.rcParams), plt.get_fignums()
    test = tensor_of([f"user {n}" for n in range(12)], [*NASTY, "plain"], YEARS, random_state=5)
    result = FIGURES[name](model, test, None)
    assert isinstance(result, np.ndarray) is (name in PANELS)
    axes = drawn(result)
    axes[0].figure.savefig(BytesIO(), dpi=50)
    assert len(axes) == PANELS.get(name, 1)
    assert dict(matplotlib.rcParams) == before
    assert plt.get_fignums() == open_figures
    for ax in axes:
        assert ax.get_xlabel() or ax is not axes[-1] or name == "score_bars"
        assert ax.get_ylabel() or name in ("factor_profile", "score_bars")
        assert ax.get_title(loc="left")


def test_dots_say_what_they_measure_above_narrow_panels():
    frame = pd.DataFrame({"model": [*"ab"], "dataset": [*"cd"], "mae": [0.5, 0.6]})
    panels = plots.score_bars(frame, "mae", xlabel="absolute error (lower is better)", title="T")
    assert panels[0].figure.get_suptitle() == "T\nabsolute error (lower is better)"
    one = plots.score_bars(frame[:1], "mae", xlabel="absolute error")
    assert one[0].get_xlabel() == "absolute error"


@pytest.mark.parametrize("name", FIGURES)
def test_draws_on_given_axes_and_returns_them(name, model):
    test = tensor_of([f"user {n}" for n in range(12)], [*NASTY, "plain"], YEARS, random_state=5)
    given = Figure(figsize=(6, 9)).subplots(PANELS.get(name, 1), squeeze=False)
    result = FIGURES[name](model, test, given if name in PANELS else given[0, 0])
    assert [*drawn(result)] == [*given.ravel()]
    wrong = Figure().subplots(1, 4)
    with pytest.raises(ParameterError, match="`ax` must be as many axes; got 4"):
        FIGURES[name](model, test, wrong)
    with pytest.raises(ParameterError, match="`ax` must be matplotlib axes or None; got 'here'"):
        FIGURES[name](model, test, "here")


@pytest.mark.parametrize("name", FIGURES)
def test_is_light_and_legible_whatever_the_users_style(name, model):
    test = tensor_of([f"user {n}" for n in range(12)], [*NASTY, "plain"], YEARS, random_state=5)
    with plt.style.context("dark_background"):
        axes = drawn(FIGURES[name](model, test, None))
    assert axes[0].figure.get_facecolor() == (1, 1, 1, 1)
    for ax in axes:
        assert ax.get_facecolor() == (1, 1, 1, 1)
        for label in [*ax.get_xticklabels(), *ax.get_yticklabels(), ax.xaxis.label, ax.title]:
            assert sum(matplotlib.colors.to_rgb(label.get_color())) < 1


def test_labels_are_shown_as_they_are(model):
    ax = plots.component_bars(model, 0, "word", top=9)
    drawn(ax)
    shown = [text.get_text() for text in ax.get_yticklabels()]
    assert {"$x^2$ and $y", "<script>alert('x')</script>", "__init__", "100 % \\frac{"} <= set(
        shown
    )
    assert "two\\nlines\\tand\\x00more" in shown
    assert "a/very/long/path/of/a/fi…til/its/end.txt" in shown
    assert max(map(len, shown)) <= 40
    assert all(not text.get_parse_math() for text in ax.get_yticklabels())
    for kind in ("svg", "pdf"):
        ax.figure.savefig(BytesIO(), format=kind)


def test_legends_keep_names_that_begin_with_an_underscore():
    ax = plots.score_curves(SCORES, "share", "mae", "model")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["$a$", "_b"]
    assert not any(text.get_parse_math() for text in ax.get_legend().get_texts())


def test_a_character_no_font_has_becomes_a_box_and_is_logged(caplog):
    with caplog.at_level(logging.WARNING, "tallyfold"):
        (text,), _ = legible(["a\U00017000"])
    assert text == "a□"
    assert "U+17000" in caplog.text
    assert legible(["naïve Ωμέγα"])[0] == ["naïve Ωμέγα"]


def test_a_font_that_lacks_a_character_is_helped_out_by_another():
    with matplotlib.rc_context({"font.family": ["cmr10"]}):
        (text,), how = legible(["naïve Ωμέγα □"])
        assert text == "naïve Ωμέγα □"
        assert how["fontfamily"] == ["cmr10", "DejaVu Sans"]
        figure = Figure()
        figure.text(0.5, 0.5, text, **how)
        figure.savefig(BytesIO())


def test_long_labels_lose_their_middle():
    (text,), _ = legible(["a" * 50 + "b" * 50])
    assert len(text) == 40
    assert text.startswith("aaa")
    assert text.endswith("bbb")
    assert legible(["a" * 40])[0] == ["a" * 40]


def test_bars_are_as_long_as_the_weights(model):
    table = model.components("word", top=4).query("component == 2")
    ax = plots.component_bars(model, 2, "word", top=4)
    assert [bar.get_width() for bar in ax.patches] == pytest.approx(table["weight"].tolist())
    whiskers = np.array([path.vertices[:, 0] for path in ax.collections[0].get_paths()])
    assert whiskers == pytest.approx(table[["low", "high"]].to_numpy())
    bottom, top = ax.get_ylim()
    assert bottom > top  # the strongest is on top


def test_a_model_without_uncertainty_has_no_whiskers():
    tensor = tensor_of([*"abcd"], [*"efgh"], YEARS)
    model = tf.PTFKL(n_components=2, max_iter=5).fit(tensor)
    ax = plots.component_bars(model, 0, "word")
    assert not ax.collections
    assert "whiskers" not in ax.get_xlabel()
    course = plots.time_course(model, "year")
    assert not course.collections
    assert "bands" not in course.get_title(loc="left")
    assert "whiskers" not in plots.factor_profile(model, "word", "e")[0].get_ylabel()
    bars = plots.top_entities_bars(model, "word", {"user": "a"})
    assert bars.get_xlabel() == "predicted count"


def test_one_component_and_one_label():
    tensor = tensor_of(["only"], [*"efgh"], YEARS)
    model = tf.BPTF(n_components=1, max_iter=5).fit(tensor)
    drawn(plots.component_bars(model, 0, "user"))
    drawn(plots.components_grid(model, 0))
    drawn(plots.component_map(model, named_by="word"))
    drawn(plots.factor_profile(model, "user", "only"))
    drawn(plots.time_course(model, "year"))
    drawn(plots.top_entities_bars(model, "word", {"user": "only"}))
    drawn(plots.entity_map(pd.DataFrame({"label": ["a"], "x": [0.0], "y": [0.0]})))
    drawn(plots.rank_curve(RANKS[:1]))
    drawn(plots.score_bars(SCORES[:1], "mae"))
    drawn(plots.score_curves(SCORES[:1], "share", "mae"))


def test_a_wide_interval_does_not_squash_the_others():
    value, high = np.array([3.0, 2.0, 1.0, 0.5, 0.4]), np.array([3.2, 2.2, 1.2, 0.7, 50.0])
    assert value_limit(value, high) < 5
    assert value_limit(value, value * 1.3) > 3.9
    table = pd.DataFrame({"label": [*"abcde"], "mean": value, "low": 0.1, "high": high})
    ax = plots.top_entities_bars(table)
    assert ax.get_xlim()[1] < 5
    assert [text.get_text() for text in ax.texts] == ["to 50"]


def test_a_mean_outside_of_its_interval_is_drawn():
    table = pd.DataFrame({"label": ["a"], "mean": [1.0], "low": [0.0], "high": [0.2]})
    drawn(plots.top_entities_bars(table))


def test_time_course_follows_the_order_of_the_labels():
    years = ["2005", "2003", "2004"]
    model = tf.BPTF(n_components=2, max_iter=5).fit(tensor_of([*"abcd"], [*"efgh"], years))
    (line,) = plots.time_course(model, "year", [1]).get_lines()
    mean = model.posterior_.mean("year")[:, 1]
    assert line.get_xdata().tolist() == [2003, 2004, 2005]
    assert line.get_ydata() == pytest.approx((mean / mean.sum())[[1, 2, 0]])
    with pytest.raises(DataError, match="a line over axis 'word' needs .* such as 'e'"):
        plots.time_course(model, "word")
    with pytest.raises(ParameterError, match="at most 8 components; got 9"):
        plots.time_course(model, "year", [0] * 9)
    with pytest.raises(ParameterError, match="a component must be a number from 0 to 1"):
        plots.time_course(model, "year", [2])
    with pytest.raises(ParameterError, match="`components` must be a list"):
        plots.time_course(model, "year", 1)


@pytest.mark.parametrize(
    ("labels", "first", "second"),
    [
        (["2004-02", "2004-03"], "2004-02-01", "2004-03-01"),
        (["2004-Q2", "2004-Q3"], "2004-04-01", "2004-07-01"),
        (["2004-W02", "2004-W03"], "2004-01-05", "2004-01-12"),
        (["2004-01-05", "2004-01-06"], "2004-01-05", "2004-01-06"),
        (["2004-01-05T10", "2004-01-06T10"], "2004-01-05T10", "2004-01-06T10"),
    ],
)
def test_time_bins_are_times(labels, first, second):
    expected = np.array([first, second], "datetime64[m]")
    assert (places_of(pa.array(labels)).astype("datetime64[m]") == expected).all()


def test_other_labels_on_a_line():
    assert places_of(pa.array(["Mar", "Jan"])).tolist() == [3, 1]
    assert places_of(pa.array(["Sunday", "Monday"])).tolist() == [7, 1]
    assert places_of(pa.array([1.5, 0.5])).tolist() == [1.5, 0.5]
    assert places_of(pa.array(np.array(["2004-01-05"], "datetime64[D]"))).dtype.kind == "M"
    assert places_of(pa.array([True, False])) is None
    assert places_of(pa.array(["1", "two"])) is None


def test_names_of_months_are_written_in_their_order():
    months = ["Mar", "Jan", "Feb"]
    model = tf.BPTF(n_components=2, max_iter=5).fit(tensor_of([*"abcd"], [*"efgh"], months))
    ax = plots.time_course(model, "year")
    assert [text.get_text() for text in ax.get_xticklabels()] == ["Jan", "Feb", "Mar"]


def test_the_grid_draws_ordered_axes_as_lines(model):
    users, words, years = plots.components_grid(model, 0)
    assert len(users.patches) == 8
    assert len(words.patches) == 8
    assert not years.patches
    assert len(years.get_lines()) == 1
    (years,) = plots.components_grid(model, 0, ["year"], ordered=[])
    assert len(years.patches) == len(YEARS)


def test_profiles_are_those_of_the_model(model):
    first, second = plots.factor_profile(model, "word", NASTY[:2])
    for panel, label in ((first, NASTY[0]), (second, NASTY[1])):
        table = profile(model, "word", label).sort_values("component")
        assert [bar.get_height() for bar in panel.patches] == pytest.approx([*table["share"]])
    assert first.get_ylim() == second.get_ylim()
    with pytest.raises(LabelError, match="has no label"):
        plots.factor_profile(model, "word", "nobody")


def test_top_entities_from_a_model_and_from_a_frame_are_one(model):
    given = {"user": "user 1"}
    frame = top(model, "word", given, top=5)
    by_model = plots.top_entities_bars(model, "word", given, top=5)
    by_frame = plots.top_entities_bars(frame, "word", top=5)
    widths = [bar.get_width() for bar in by_model.patches]
    assert widths == [bar.get_width() for bar in by_frame.patches] == frame["mean"].tolist()
    title = by_model.get_title(loc="left").replace("\n", " ")
    assert title == "Highest predictions on word for user user 1"
    with pytest.raises(ParameterError, match="`axis` must name the axis"):
        plots.top_entities_bars(model)


def test_discs_have_the_area_of_the_shares(model):
    ax = plots.component_map(model)
    area = ax.collections[0].get_sizes()
    assert area / area.sum() == pytest.approx(model.posterior_.shares())
    assert {text.get_text() for text in ax.texts} == {"0", "1", "2"}


def test_entities_are_where_the_scaling_puts_them(model):
    frame = scaling(model, "word")
    ax = plots.entity_map(frame)
    offsets = np.asarray(ax.collections[0].get_offsets())
    assert offsets == pytest.approx(frame[["x", "y"]].to_numpy())
    assert "of the squared distances is seen" in ax.get_title(loc="left")
    assert not plots.entity_map(frame, labelled=0).texts


def test_many_entities_are_named_from_the_outside():
    rng = np.random.default_rng(0)
    place = rng.normal(size=(200, 2))
    place[77] = 9, 9
    frame = pd.DataFrame({"label": [f"w{n}" for n in range(200)], "x": place[:, 0]})
    said = [text.get_text() for text in plots.entity_map(frame.assign(y=place[:, 1])).texts]
    assert said[0] == "w77"
    far = np.argsort(-np.hypot(*(place - np.median(place, axis=0)).T))[:30]
    assert 10 < len(said) <= 30
    assert set(said) <= {f"w{n}" for n in far}


def test_many_groups_are_drawn_together_and_missing_ones_named():
    ax = plots.entity_map(POINTS, "genre")
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["a (2)", "b (2)", "c (2)", "d (1)", "no group (1)"]
    many = pd.DataFrame({"label": range(12), "x": 0.0, "y": np.arange(12.0), "group": range(12)})
    names = [text.get_text() for text in plots.entity_map(many).get_legend().get_texts()]
    assert names[-1] == "5 other groups (5)"
    assert len(names) == len(COLOURS)


def test_convergence_shows_the_history(fitted):
    objective, validation = plots.convergence(fitted)
    history = fitted.history_
    assert objective.get_lines()[0].get_ydata() == pytest.approx(history["objective"])
    assert validation.get_lines()[0].get_ydata() == pytest.approx(history["validation"])
    assert validation.get_lines()[1].get_xdata()[0] == fitted.n_iter_
    unvalidated = tf.BPTF(n_components=2, max_iter=3, validation=None)
    tensor = tf.simulate((9, 8, 7), 2, density=0.5).tensor
    assert len(plots.convergence(unvalidated.fit(tensor))) == 1


def test_convergence_leaves_out_the_objective_of_phases_that_prepare():
    tensor = tf.simulate((20, 15, 10), 2, density=0.3).tensor
    model = tf.GibbsBPTF(n_components=2, burn_in=3, n_draws=4).fit(tensor)
    history = model.history_
    chain = history[history["phase"].isin(["burn-in", "draws"])]
    assert 0 < len(chain) < len(history)
    objective, *validation = plots.convergence(model)
    line = objective.get_lines()[0]
    assert line.get_xdata().tolist() == chain["iteration"].tolist()
    assert line.get_ydata() == pytest.approx(chain["objective"])
    for panel in validation:
        known = history["validation"].notna()
        assert panel.get_lines()[0].get_xdata().tolist() == history["iteration"][known].tolist()


def test_convergence_has_a_panel_for_whether_and_one_for_how_many():
    tensor = tf.load_demo().filter(top={"module": 60, "word": 300})
    model = tf.VAEBPTF(n_components=2).fit(tensor)
    history = model.history_[model.history_["validation"].notna()]
    objective, whether, how_many = plots.convergence(model)
    sweeps = model.history_[model.history_["phase"] == "sweeps"]
    assert objective.get_lines()[0].get_ydata() == pytest.approx(sweeps["objective"])
    assert [len(panel.get_lines()) for panel in (whether, how_many)] == [1, 2]  # one has the mark
    assert whether.get_title(loc="left").endswith("whether there is a count")
    heads = history["phase"].isin(["head", "residuals"])
    for panel, own in ((whether, ~heads), (how_many, heads)):
        drawn = panel.get_lines()[0].get_ydata()
        assert drawn == pytest.approx(history.loc[own, "validation"].astype(float))


class Poissons(CountModel):
    """Stands for a model whose predictive distributions are given: Poisson, counts above zero."""

    axes_ = (tf.Axis("a", range(4000)), tf.Axis("b", [0]))

    def __init__(self, rate):
        self.rate = rate

    def predictive(self, cells):
        return CountMixture(COUNTS["poisson", True], self.rate[None])


def test_a_right_model_is_on_the_diagonal_and_a_wrong_one_is_not():
    rng = np.random.default_rng(0)
    rate = rng.gamma(2, 1.0, 4000)
    counts = COUNTS["poisson", True].sample(rng, rate)
    cells = tf.CountTensor([tf.Axis("a", range(4000)), tf.Axis("b", [0])], CELLS_4000, counts)
    levels = np.linspace(0, 1, 11)
    assert mean_pit(Poissons(rate), cells, levels) == pytest.approx(levels, abs=0.02)
    assert np.abs(mean_pit(Poissons(rate / 2), cells, levels) - levels).max() > 0.1
    line = plots.calibration(Poissons(rate), cells).get_lines()[1]
    assert line.get_ydata() == pytest.approx(line.get_xdata(), abs=0.03)
    narrow = plots.calibration(Poissons(rate / 2), cells).get_lines()[1]
    assert narrow.get_ydata()[10] < 0.45
    heights = [bar.get_height() for bar in plots.pit_histogram(Poissons(rate), cells).patches]
    assert heights == pytest.approx([1] * 10, abs=0.1)


def test_intervals_of_a_complete_log_are_of_how_many():
    tensor = tf.load_demo().filter(top={"module": 60, "word": 300})
    train, test = tf.split(tensor, 0.2, cells="all")
    model = tf.Constant(zeros="observed").fit(train)
    assert model.probability(test).max() < 0.5  # a zero is most probable, and no cell here has it
    levels = np.linspace(0, 1, 11)
    assert mean_pit(model, test, levels) == pytest.approx(levels, abs=0.03)


def test_models_without_a_distribution_say_so(parts):
    model = tf.NTFLS(n_components=2, max_iter=3).fit(parts[0])
    assert model.fitted_.likelihood is None
    with pytest.raises(ParameterError, match="predicts means only"):
        plots.calibration(model, parts[1])
    empty = parts[1].with_cells(np.zeros(parts[1].nnz, bool))
    with pytest.raises(DataError, match="nothing to compare with"):
        plots.pit_histogram(tf.Constant().fit(parts[0]), empty)


def test_rank_curve_marks_best_and_chosen():
    ax = plots.rank_curve(RANKS)
    best, chosen = (line for line in ax.get_lines() if line.get_markersize() >= 10)
    assert best.get_xydata().tolist() == [[4, -1.05]]
    assert chosen.get_xydata().tolist() == [[2, -1.1]]
    with pytest.raises(DataError, match="no number of components has a score"):
        plots.rank_curve(RANKS.assign(mean=None))


def test_rank_curve_of_a_choice_uses_its_own_rule():
    scores = pd.DataFrame(
        {
            "components": [1, 1, 2, 2, 3, 3],
            "fold": [0, 1] * 3,
            "score": [3.0, 3.2, 1.0, 1.4, 0.95, 1.5],
            "seconds": 1.0,
            "error": None,
        }
    )
    choice = RankChoice("mae-mean", True, scores)
    ax = plots.rank_curve(choice)
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == [f"best: {choice.best}", f"chosen: {choice.chosen}"]
    assert choice.best == 2
    assert "smaller is better" in ax.get_ylabel()
    assert "of the difference to the best" in ax.get_ylabel()
    (bars,) = (one for one in ax.containers if isinstance(one, ErrorbarContainer))
    drawn_bars = [np.ptp(part[:, 1]) / 2 for part in bars[2][0].get_segments()]
    assert drawn_bars == pytest.approx(choice.table["difference_se"].fillna(0).tolist())


def test_curves_have_the_numbers_of_the_frame_and_gaps_where_there_is_none():
    ax = plots.score_curves(SCORES, "share", "mae", "model", "se", xlabel="share, %")
    first, second = (container.lines[0] for container in ax.containers)
    assert first.get_xydata().tolist() == [[1, 0.5], [10, 1.5]]
    assert second.get_xydata().tolist() == [[1, 0.6]]
    assert ax.get_xlabel() == "share, %"
    same = plots.score_curves(pl.from_pandas(SCORES), "share", "mae", "model")
    assert len(same.containers) == 2


def test_dots_stand_beside_the_published_ones():
    first, second = plots.score_bars(SCORES, "mae", error="se", published="paper")
    ours, paper = first.containers[0].lines[0], first.get_lines()[-1]
    assert ours.get_xdata().tolist() == [0.5, 0.6]
    assert paper.get_xdata()[0] == 0.7
    assert second.get_title(loc="left") == "$e$"
    assert [text.get_text() for text in first.get_yticklabels()] == ["$a$", "_b"]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda m: plots.component_bars(m, 3, "word"), ParameterError, "from 0 to 2"),
        (lambda m: plots.component_bars(m, -1, "word"), ParameterError, "got -1"),
        (lambda m: plots.component_bars(m, 0, "wrod"), LabelError, "no axis 'wrod'"),
        (lambda m: plots.component_bars(m, 0, "word", top=0), ParameterError, "`top`"),
        (lambda m: plots.component_bars(m, 0, "word", level=1), ParameterError, "`level`"),
        (lambda m: plots.component_map(m, ["wrod"]), LabelError, "no axis 'wrod'"),
        (lambda m: plots.entity_map(SCORES), LabelError, "no column 'label'"),
        (lambda m: plots.entity_map(POINTS[:0]), DataError, "no row"),
        (lambda m: plots.entity_map(POINTS.assign(x=np.nan)), DataError, "'x' must hold finite"),
        (lambda m: plots.score_curves(SCORES, "model", "mae"), DataError, "row 0: '\\$a\\$'"),
        (lambda m: plots.score_curves(SCORES, "share", "mae", log="z"), ParameterError, "`log`"),
        (lambda m: plots.score_curves([1, 2], "share", "mae"), ParameterError, "a data frame"),
        (lambda m: plots.factor_profile(m, "word", NASTY * 2), ParameterError, "at most 8"),
        (lambda m: plots.factor_profile(m, "word", []), ParameterError, "`labels`"),
        (lambda m: plots.components_grid(m, 0, []), ParameterError, "`axes`"),
        (lambda m: plots.components_grid(m, 0, "word"), ParameterError, "`axes`"),
    ],
)
def test_bad_input_is_told(model, call, error, words):
    with pytest.raises(error, match=words):
        call(model)
