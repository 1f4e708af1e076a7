"""The page's content, worked out in Python: its numbers, its safety, its size."""

import base64
import datetime as dt
import hashlib
import json
import re
import subprocess
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pyarrow as pa
import pytest
import typer
from tests.inference.pair_effects import simulate_pairs
from tests.models.quick import REMEMBER, in_time, quick
from tests.report.explorer_model import NASTY, SCRIPT, YEARS, labelled_parts, labelled_tensor
from typer.testing import CliRunner

import tallyfold as tf
from tallyfold import MODELS
from tallyfold.cli.model_tables import report
from tallyfold.data.ordering import order_of
from tallyfold.errors import DataError, LabelError, NotFittedError, ParameterError, StorageError
from tallyfold.evaluation.metrics import METRICS
from tallyfold.evaluation.scaling import component_places
from tallyfold.models.fitted import Fitted
from tallyfold.posterior.gamma_factors import GammaFactors
from tallyfold.posterior.gamma_posterior import GammaPosterior
from tallyfold.report.explorer import write_report
from tallyfold.report.explorer.entities import (
    MOST_BYTES,
    label_text,
    limits,
    order_entry,
    packed,
)
from tallyfold.report.explorer.held_out import COMPLETE_SCORES, SCORES
from tallyfold.report.explorer.page import SCRIPTS, page_text
from tallyfold.report.explorer.payload import payload_of

PACKAGE = files("tallyfold.report.explorer")


@pytest.fixture(scope="module")
def parts():
    return labelled_parts()


@pytest.fixture(scope="module")
def model(parts):
    return tf.BPTF(n_components=3, max_iter=30).fit(parts.train)


@pytest.fixture(scope="module")
def payload(model):
    return payload_of(model)


@pytest.fixture(scope="module")
def text(payload):
    return page_text(payload)


def unpacked(part, n_components):
    """Read numbers back as the page does."""
    codes = np.frombuffer(base64.b64decode(part["codes"]), "<u2").astype(float)
    values = np.exp(part["from"] + (codes - 1) * (part["to"] - part["from"]) / 65534)
    return np.where(codes == 0, 0.0, values).reshape(-1, n_components)


def embedded_data(text):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(found[1])


# -- numbers ---------------------------------------------------------------------------------------


def test_weights_and_intervals_are_those_of_components(model, payload):
    for entry in payload["axes"]:
        parts = {name: unpacked(entry[name], 3) for name in ("mean", "low", "high")}
        table = model.components(entry["name"], top=entry["size"])
        for row in table.itertuples():
            at = entry["labels"].index(str(row.label)), row.component
            shown = [parts[name][at] for name in ("mean", "low", "high")]
            assert shown == pytest.approx([row.weight, row.low, row.high], rel=1e-3, abs=2e-12)
            assert payload["components"][row.component]["share"] == pytest.approx(row.share, 1e-3)


def test_packing_keeps_three_digits_and_zero():
    values = np.concatenate([[0.0], np.geomspace(1e-11, 3.0, 5000)])
    back = unpacked(packed(values), 1)[:, 0]
    assert back[0] == 0
    np.testing.assert_allclose(back[1:], values[1:], rtol=5e-4)
    assert unpacked(packed([0.0, 0.0]), 1).tolist() == [[0.0], [0.0]]
    assert unpacked(packed([0.25, 0.25]), 1)[:, 0] == pytest.approx([0.25, 0.25])


def test_ordered_axis_is_in_order_and_others_by_frequency(model, payload):
    user, _, year = payload["axes"]
    assert year["labels"] == YEARS
    assert year["places"] == [float(label) for label in YEARS]
    assert year["order"] == {"kind": "number", "line": True}
    assert user["order"] is None
    overall = unpacked(user["mean"], 3) @ [each["share"] for each in payload["components"]]
    assert (np.diff(overall) <= 1e-4 * overall[:-1]).all()


def test_map_keeps_distances_where_two_dimensions_are_enough():
    weights = [np.random.default_rng(0).dirichlet(np.ones(size), 3).T for size in (7, 5)]
    places, shown = component_places(weights)
    overlap = np.mean([np.sqrt(w).T @ np.sqrt(w) for w in weights], axis=0)
    distance = np.linalg.norm(places[:, None] - places, axis=-1)
    np.testing.assert_allclose(distance**2, 2 - 2 * overlap, atol=1e-12)
    assert shown == pytest.approx(1)


@pytest.mark.parametrize("n_components", [1, 2])
def test_map_of_few_components(n_components):
    places, shown = component_places(
        [np.random.default_rng(0).dirichlet(np.ones(5), n_components).T]
    )
    assert places.shape == (n_components, 2)
    assert np.isfinite(places).all()
    assert shown == pytest.approx(1)


@pytest.mark.parametrize(
    ("labels", "kind", "places"),
    [
        (["3", "-1.5", "1e2"], "number", [3, -1.5, 100]),
        (["2024-01", "2024-02"], "time", [738886, 738917]),
        (["2024-01-01", "2024-01-02T12"], "time", [738886, 738887.5]),
        (["2024-Q1", "2024-Q2"], "time", [738886, 738977]),
        (["2024-W01", "2024-W02"], "time", [738886, 738893]),
        (["2024-01", "2024-13"], None, None),
        (["1", "nan"], None, None),
        (["1", "1_000"], None, None),
        (["may", "june"], None, None),
        (["2024"], None, None),
        ([], None, None),
    ],
)
def test_order_of_labels(labels, kind, places):
    order = order_of(labels)
    assert (order and order.kind) == kind
    assert (order and order.places) == places


def test_many_numbers_are_rather_names():
    assert order_of([str(n) for n in range(200)]).line
    assert not order_of([str(n) for n in range(201)]).line


def test_scores_are_those_of_the_metrics(model, parts):
    named = []
    entry = payload_of(model, test=parts.test, train=parts.train, announce=named.append)["held_out"]
    assert named == ["Main effects", "Constant"]
    assert [row["model"] for row in entry["rows"]] == ["BPTF", *named, "One for every cell"]
    expected = [METRICS[name].compute(model, parts.test) for name in SCORES]
    assert entry["rows"][0]["scores"] == pytest.approx(expected, rel=1e-3)
    constant = tf.Constant().fit(parts.train)
    assert entry["rows"][2]["scores"][3] == pytest.approx(constant.score(parts.test), rel=1e-3)
    error = np.abs(parts.test.counts - 1).mean()
    assert entry["rows"][3]["scores"][:2] == pytest.approx([error, error], rel=1e-3)
    coverage = dict(map(tuple, entry["calibration"]["coverage"]))
    expected = METRICS["coverage-80"].compute(model, parts.test)
    assert coverage[0.8] == pytest.approx(expected, rel=1e-3)
    means = np.array(entry["calibration"]["means"])
    assert (np.diff(means[:, 0]) >= 0).all()
    assert means[:, 1].mean() == pytest.approx(parts.test.counts.mean(), rel=0.02)


def test_without_train_there_are_no_constants(model, parts):
    entry = payload_of(model, test=parts.test)["held_out"]
    assert [row["model"] for row in entry["rows"]] == ["BPTF", "One for every cell"]
    assert entry["simple"] is False


def test_calibration_of_a_large_test_tensor_is_thinned(model, parts, monkeypatch):
    monkeypatch.setattr("tallyfold.report.explorer.held_out.MOST_CELLS", 20)
    entry = payload_of(model, test=parts.test)["held_out"]
    assert entry["cells"] == parts.test.nnz
    assert entry["calibration"]["cells"] == 20


def test_training_counts_stand_beside_labels(model, parts):
    payload = payload_of(model, train=parts.train)
    item = payload["axes"][1]
    at = item["labels"].index("item 4")
    assert item["counted"][at] == parts.train.sel(item=["item 4"]).total
    assert payload["data"]["train"]["cells"] == parts.train.nnz
    assert payload["data"]["train"]["total"] == parts.train.total


def test_interactions_are_those_that_are_surely_above_one():
    tensor = simulate_pairs((40, 20, 10)).tensor
    asked = [["item", "day"]]
    model = tf.VAEBPTF(
        zeros="missing", amount="negative-binomial", n_components=2, max_iter=12, interactions=asked
    ).fit(tensor)
    (entry,) = payload_of(model)["interactions"]
    effects = model.interaction_effects("item", "day", top=12)
    effects = effects[effects["low"] > 1]
    assert len(effects)
    assert entry["axes"] == ["item", "day"]
    labels = effects[["item", "day"]].astype(str).to_numpy().tolist()
    assert [row[:2] for row in entry["rows"]] == labels
    np.testing.assert_allclose(
        [row[2:] for row in entry["rows"]], effects[["multiplier", "low", "high"]], rtol=1e-3
    )


# -- complete logs ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def complete_parts():
    return tf.split(tf.load_demo().filter(top={"module": 60, "word": 300}), 0.2, cells="all")


@pytest.fixture(scope="module")
def complete(complete_parts):
    return tf.VAEBPTF(n_components=3).fit(complete_parts.train)


def test_scores_of_a_complete_log_are_of_whether_and_how_many(complete, complete_parts):
    train, test = complete_parts
    entry = payload_of(complete, test=test, train=train)["held_out"]
    assert [each["name"] for each in entry["columns"]] == [*COMPLETE_SCORES.values()]
    assert [row["model"] for row in entry["rows"]] == ["VAEBPTF", "Main effects", "Constant"]
    total, whether, how_many, within = entry["rows"][0]["scores"]
    assert total == pytest.approx(complete.score(test), rel=1e-3)
    assert total == pytest.approx(whether + how_many, rel=1e-3)
    assert 0.5 < within < 1
    assert entry["rows"][2]["scores"][3] == 0.5  # the same of every cell
    assert entry["zeros"]
    assert not entry["errors"]


def test_scores_that_need_more_than_there_is_are_left_out(complete, complete_parts):
    def names(test, train):
        entry = payload_of(complete, test=test, train=train)["held_out"]
        return [each["name"] for each in entry["columns"]]

    test = complete_parts.test
    assert names(test, None) == ["log score", "whether", "how many"]
    unknown = tf.CountTensor(test.axes, test.indices, test.counts)  # which cells it holds
    assert names(unknown, None) == ["how many"]
    assert payload_of(complete, test=unknown)["held_out"]["calibration"]["occurrence"] is None


def test_shares_of_cells_with_a_count_are_those_of_all_held_out_cells(complete, complete_parts):
    test = complete_parts.test
    groups = payload_of(complete, test=test)["held_out"]["calibration"]["occurrence"]
    every_NM = np.argwhere(np.ones(test.shape, bool)).astype(np.int32)
    every_NM = every_NM[test.part.contains(test.axes, every_NM)]
    probability_N = complete.probability(
        tf.CountTensor(test.axes, every_NM, every_NM[:, 0] * 0 + 1)
    )
    counted = {tuple(cell) for cell in test.indices.tolist()}
    counted_N = np.array([tuple(cell) in counted for cell in every_NM.tolist()])
    expected = []
    for low in np.arange(10) / 10:
        own_N = (probability_N >= low) & ((probability_N < low + 0.1) | (low == 0.9))
        if own_N.sum() >= 20:
            expected.append([probability_N[own_N].mean(), counted_N[own_N].mean()])
    assert len(expected) > 3
    np.testing.assert_allclose(groups, expected, rtol=1e-3)


def test_the_page_says_what_tells_whether_there_is_a_count(complete):
    fit = payload_of(complete)["fit"]
    assert fit["whether"].startswith("factors, ")
    assert fit["gate"] == " × ".join(complete.gate_ or ("none",))


def test_the_page_names_the_gate(complete_parts):
    def shown(model):
        return payload_of(model.fit(complete_parts.train))["fit"]["gate"]

    names = complete_parts.train.names
    given = {"n_components": 2, "max_iter": 3}
    assert shown(tf.BPTF(**given, zeros="observed", gate=names[1:])) == " × ".join(names[1:])
    assert shown(tf.BPTF(**given, zeros="observed")) == "none"
    assert shown(tf.BPTF(**given)) is None


def test_scores_of_whether_and_of_how_many_are_not_one_line(complete):
    fit, history = payload_of(complete)["fit"], complete.history_
    assert [each["name"] for each in fit["scored"]] == ["whether there is a count", "how many"]
    heads = history["phase"].isin(["head", "residuals"])
    assert fit["scored"][1]["own"] == heads.tolist()
    assert fit["scored"][0]["own"] == (~heads).tolist()
    assert [each["phase"] for each in fit["objectives"]] == [
        phase for phase in history["phase"].unique() if phase not in ("head", "residuals")
    ]
    assert [phase for *_, phase in fit["history"]] == history["phase"].tolist()


@pytest.mark.parametrize("kind", ["vae-bptf", "bptf"])
def test_scores_of_factors_and_of_a_head_are_not_one_line(kind):
    tensor = tf.load_demo().filter(top={"module": 40, "word": 100})
    given = {"zeros": "missing"} if kind == "vae-bptf" else {"zeros": "observed"}
    model = tf.MODELS[kind](n_components=2, max_iter=5, amount="head", **given).fit(tensor)
    fit, history = payload_of(model)["fit"], model.history_
    heads = history["phase"].isin(["head", "residuals"]).to_numpy()
    assert heads.any()
    assert {each["name"]: each["own"] for each in fit["scored"]} == {
        "factors": (~heads).tolist(),
        "count head": heads.tolist(),
    }
    (drawn,) = fit["objectives"]
    shown = [objective for _, objective, *_ in fit["history"][drawn["from"] : drawn["to"]]]
    assert shown == pytest.approx(history["objective"][~heads], rel=1e-6)


# -- every model -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_page(name, parts, tmp_path):
    fitted = quick(name).fit(in_time(parts.train) if name in REMEMBER else parts.train)
    data = embedded_data(
        write_report(fitted, tmp_path / "x.html", test=parts.test).read_text(encoding="utf-8")
    )
    explorable = name not in ("constant", "mlp-tf", "margins", *REMEMBER)
    assert bool(data["components"]) is explorable
    assert len(data["axes"]) == 3 * explorable
    assert data["fit"]["model"] == type(fitted).__name__
    check_objectives(data["fit"], fitted.history_)
    words = {"constant": "the histogram of all counts", "margins": "learned from margins"}
    if name in words:
        assert data["fit"]["amount"] == words[name]
    assert data["fit"]["seconds"] == pytest.approx(fitted.history_["seconds"].iloc[-1], rel=0.01)
    shown = {each["name"]: each["value"] for each in data["fit"]["parameters"]}
    assert shown.keys() == fitted.get_params().keys()
    if name in ("ptf-kl", "ntf-ls"):
        assert all(axis["low"] is None and axis["high"] is None for axis in data["axes"])


def check_objectives(fit, history):
    """Check that each line of objectives is of one phase, and that no other is left out."""
    drawn = []
    for run in fit["objectives"]:
        rows = history.iloc[run["from"] : run["to"]]
        assert set(rows["phase"]) == {run["phase"]}
        size = rows["objective"].abs()
        assert size.max() < 1000 * size.min()  # a bound of the data and a score of a cell
        drawn += rows["iteration"].tolist()
    assert len(set(drawn)) == len(drawn)
    rest = history[~history["iteration"].isin(drawn)]
    assert (rest["objective"] == rest["validation"]).all()  # is drawn as a score
    assert [number for number, *_ in fit["history"]] == history["iteration"].tolist()


@pytest.mark.parametrize(
    "model",
    [
        tf.BPTF(n_components=2, zeros="observed", gate="auto", max_iter=5),
        tf.VAEBPTF(n_components=2, zeros="missing", amount="negative-binomial", max_iter=5),
        tf.BPTF(n_components=2, amount="head", max_iter=5),
    ],
    ids=["gate", "encoders", "head"],
)
def test_every_line_of_objectives_is_of_one_phase(model, parts):
    fit = payload_of(model.fit(parts.train))["fit"]
    check_objectives(fit, model.history_)
    assert len({*model.history_["phase"]}) > 1


def test_scores_that_were_kept_are_shown_without_test_cells(parts, tmp_path):
    model = tf.BPTF(n_components=2, max_iter=5).fit(parts.train)
    assert payload_of(model)["kept"] is None
    model.keep_scores({"log-pmf-positive": -1.5, "my own": 3, "mae-mean": None}, parts.test)
    model.save(tmp_path / "model")
    kept = payload_of(tf.load(tmp_path / "model"))["kept"]
    assert kept["cells"] == parts.test.nnz
    assert kept["rows"] == [{"model": "bptf", "scores": [-1.5, 3.0, None], "own": True}]
    assert [each["larger"] for each in kept["columns"]] == [True, None, False]
    assert all("nan" not in str(each) for each in kept["rows"])


# -- what components say ---------------------------------------------------------------------------


def main_effects_alone():
    """Draw counts in which labels are more or less frequent, and nothing goes together."""
    rng = np.random.default_rng(0)
    rates = [rng.gamma(2.0, 1.0, size) for size in (30, 20, 8)]
    counts = rng.poisson(3 * np.einsum("a,b,c->abc", *(rate / rate.mean() for rate in rates)))
    axes = [tf.Axis.numbered(name, size) for name, size in zip("abc", counts.shape, strict=True)]
    return tf.CountTensor(axes, np.argwhere(counts), counts[counts > 0])


def test_components_that_say_nothing_beyond_main_effects_are_said_to():
    model = tf.BPTF(n_components=3, zeros="observed").fit(main_effects_alone())
    assert not model.posterior_.switched_off().any()
    said = payload_of(model)["nothing_beyond"]
    assert said.startswith("The 3 components carry next to nothing beyond main effects")
    assert f"components: {said}" in str(model.card())
    assert model.card().facts["components"] == said


def test_of_components_that_differ_nothing_is_said(payload, model, complete):
    assert payload["nothing_beyond"] == ""
    assert "components: The" not in str(model.card())
    assert payload_of(tf.MainEffects(max_iter=3).fit(labelled_tensor()))["nothing_beyond"] == ""


def test_examples_are_those_of_the_model(model, parts):
    entry = payload_of(model, train=parts.train)["examples"]
    assert entry["cells"] == entry["looked_at"] == parts.train.nnz
    for component, rows in enumerate(entry["rows"]):
        expected = model.examples(component, parts.train, top=10)
        labels = expected[["user", "item", "year"]].astype(str)
        assert [row[1:3] for row in rows] == labels[["item", "year"]].to_numpy().tolist()
        assert [row[3] for row in rows] == expected["count"].tolist()
        assert [row[4] for row in rows] == pytest.approx(expected["share"], rel=1e-3)


def test_examples_of_very_many_cells_are_among_some(model, parts, monkeypatch):
    monkeypatch.setattr("tallyfold.report.explorer.components.MOST_CELLS", 50)
    entry = payload_of(model, train=parts.train)["examples"]
    assert entry["looked_at"] == 50 < entry["cells"]
    assert [len(rows) for rows in entry["rows"]] == [10] * 3


def test_training_cells_that_the_model_does_not_know_are_no_examples(model, parts):
    other = parts.train.axes[0].labels.to_pylist()
    axes = [tf.Axis("user", [f"new {n}" if n else other[0] for n in range(len(other))])]
    train = tf.CountTensor([*axes, *parts.train.axes[1:]], parts.train.indices, parts.train.counts)
    entry = payload_of(model, train=train)["examples"]
    assert entry["looked_at"] == (parts.train.indices[:, 0] == 0).sum() < entry["cells"]
    assert {row[0] for rows in entry["rows"] for row in rows} <= {other[0]}


@pytest.mark.parametrize(
    ("labels", "kind", "steps"),
    [
        (["2024-01", "2024-02", "2024-03"], "time", [31, 29]),
        (["2024-Q1", "2024-Q2"], "time", [91]),
        (["march", "april"], "number", [1]),
        (["Mon", "Tue", "Sun"], "number", [1, 5]),
        ([dt.date(2024, 2, 28), dt.date(2024, 3, 1)], "time", [2]),
        ([dt.datetime(2024, 2, 28), dt.datetime(2024, 2, 28, 12)], "time", [0.5]),
        (["ann", "bob"], None, []),
        (["2024"], None, []),
    ],
)
def test_places_of_labels_in_order(labels, kind, steps):
    order = order_entry(pa.array(labels))
    assert (order and order["kind"]) == kind
    assert np.diff(order["places"] if order else []).tolist() == steps


# -- safety ----------------------------------------------------------------------------------------


def test_no_label_can_leave_its_place(text, payload):
    assert SCRIPT in payload["axes"][0]["labels"]
    assert SCRIPT not in text
    assert text.count("</script>") == 2  # the data's and the script's own
    assert set(NASTY) <= {*embedded_data(text)["axes"][0]["labels"]}


def test_a_title_is_text(payload):
    text = page_text(payload | {"title": "<img src=x> & $style"})
    assert "<img" not in text
    assert "<h1>&lt;img src=x&gt; &amp; $style</h1>" in text


def test_nothing_is_loaded_from_outside(text):
    outside = set(re.findall(r"(?:https?:)?//[\w.]+\.\w+[^\s\"']*", text))
    assert outside == {"http://www.w3.org/2000/svg"}
    assert re.findall(r"<[^>]*\ssrc=", text.partition('<script type="application/json"')[0]) == []
    assert re.findall(r'href="([^"]*)"', text) == ["data:,"]
    assert not re.search(r"\b(fetch|XMLHttpRequest|import)\s*\(|@import|innerHTML", text)


def test_the_policy_allows_only_the_pages_own_script_and_style(text):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none';")
    for tag in ("script", "style"):
        content = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_the_page_is_the_same_every_time(model, tmp_path):
    pages = [write_report(model, tmp_path / f"{n}.html").read_bytes() for n in range(2)]
    assert pages[0] == pages[1]


# -- size ------------------------------------------------------------------------------------------


PAGE_ITSELF = 80_000  # bytes of script, style and what does not grow with the labels


def made_up_model(shape, n_components, label="label"):
    """Return a model as large as wanted, without fitting one."""
    rng = np.random.default_rng(0)
    axes = tuple(
        tf.Axis(f"axis {number}", [f"{label} {number} {n}" for n in range(size)])
        for number, size in enumerate(shape)
    )
    shapes = [rng.gamma(0.3, 5.0, (size + 1, n_components)) + 0.05 for size in shape]
    factors = GammaFactors(
        [axis.name for axis in axes],
        [axis.labels for axis in axes],
        GammaPosterior.of(shapes, [np.full_like(shape, 10.0) for shape in shapes]),
    )
    model = tf.BPTF(n_components=n_components)
    model._fitted = replace(Fitted(axes, factors, None, None), parameters=model.get_params())
    return model


def test_a_model_of_ten_thousand_labels_fits_in_three_megabytes(tmp_path):
    model = made_up_model((6417, 4377, 14), 10)
    file = write_report(model, tmp_path / "large.html")
    assert file.stat().st_size < 3_000_000
    data = embedded_data(file.read_text(encoding="utf-8"))
    assert [len(axis["labels"]) for axis in data["axes"]] == [6417, 4377, 14]


def test_a_larger_model_keeps_its_strongest_labels(tmp_path, monkeypatch):
    monkeypatch.setattr("tallyfold.report.explorer.entities.MOST_BYTES", 62_000)
    model = made_up_model((3000, 40, 9), 4)
    file = write_report(model, tmp_path / "larger.html")
    axis, short, _ = embedded_data(file.read_text(encoding="utf-8"))["axes"]
    assert axis["size"] == 3000
    assert 900 < len(axis["labels"]) < 1100
    assert file.stat().st_size < 62_000 + PAGE_ITSELF
    assert len(short["labels"]) == 40
    strongest = model.components("axis 0", top=100)["label"]
    assert {*strongest} <= {*axis["labels"]}


@pytest.mark.parametrize("length", [5, 250])
def test_a_model_of_sixty_thousand_labels_fits_in_five_megabytes(tmp_path, length):
    model = made_up_model((40_000, 20_000, 60), 10, "é" * length)
    file = write_report(model, tmp_path / "large.html")
    assert 2_500_000 < file.stat().st_size < 5_000_000


def test_a_label_without_end_says_how_long_it_is():
    assert label_text("x" * 300) == "x" * 300
    assert label_text("x" * 1234) == "x" * 300 + "… (1,234 characters)"


def test_room_is_shared_out():
    assert limits([10, 20, 30], [50, 50, 50]) == [10, 20, 30]
    given = limits([1_000_000, 7, 1_000_000], [400, 400, 800])
    assert given[1] == 7
    assert given[0] == pytest.approx(2 * given[2], abs=2)
    assert 400 * (given[0] + given[1]) + 800 * given[2] <= MOST_BYTES
    assert limits([9, 9], [10_000_000, 10_000_000]) == [1, 1]


# -- files -----------------------------------------------------------------------------------------


def test_every_part_of_the_page_is_shipped():
    shipped = {each.name for each in PACKAGE.joinpath("script").iterdir()}
    assert shipped == {f"{name}.js" for name in SCRIPTS}
    for name in ("page.html", "page.css"):
        assert PACKAGE.joinpath(name).read_text(encoding="utf-8")


def test_the_script_parses(text, tmp_path):
    script = tmp_path / "page.js"
    script.write_text(re.search(r"<script>(.*?)</script>", text, re.DOTALL)[1], encoding="utf-8")
    try:
        done = subprocess.run(["node", "--check", script], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("node is not installed; the browser's tests run the script too")
    assert done.returncode == 0, done.stderr


def test_a_failure_leaves_the_old_page(model, tmp_path, monkeypatch):
    file = tmp_path / "page.html"
    file.write_text("old", encoding="utf-8")

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tallyfold.data.formats.writing.os.replace", fail)
    with pytest.raises(StorageError, match="No space left"):
        write_report(model, file)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert file.read_text(encoding="utf-8") == "old"


@pytest.mark.parametrize(
    ("path", "message"),
    [("data.parquet", "ends in .html"), ("none/x.html", "no folder"), (".", "ends in .html")],
)
def test_bad_paths(path, message, model, tmp_path):
    with pytest.raises(ParameterError, match=message):
        write_report(model, tmp_path / path)
    assert list(tmp_path.iterdir()) == []


def test_bad_arguments(model, parts, tmp_path):
    file = tmp_path / "x.html"
    with pytest.raises(NotFittedError):
        write_report(tf.BPTF(), file)
    with pytest.raises(ParameterError, match=r"`model` must be a fitted model; got str"):
        write_report("model", file)
    with pytest.raises(ParameterError, match=r"`test` must be a CountTensor or None; got list"):
        write_report(model, file, test=[])
    strange = [tf.Axis("user", ["a"]), tf.Axis("item", ["item 1"]), tf.Axis("year", ["2003"])]
    with pytest.raises(LabelError, match=r"1 of 1 cells .* does not know"):
        write_report(model, file, test=tf.CountTensor(strange, [[0, 0, 0]], [1]))
    with pytest.raises(LabelError, match="must have the model's axes"):
        write_report(model, file, test=tf.simulate((4, 3), 1, density=0.9).tensor)
    empty = tf.CountTensor(parts.test.axes, np.empty((0, 3), int), np.empty(0, int))
    with pytest.raises(DataError, match="no non-zero cell"):
        write_report(model, file, test=empty)
    assert not file.exists()


# -- the command line ------------------------------------------------------------------------------


@pytest.fixture
def run():
    app = typer.Typer()
    app.command()(report)
    return lambda *arguments: CliRunner().invoke(app, [str(each) for each in arguments])


def test_report_of_a_saved_model(model, parts, run, tmp_path):
    model.save(tmp_path / "model")
    for name, tensor in parts._asdict().items():
        tf.write_counts(tensor, tmp_path / f"{name}.parquet")
    given = [f"--{name}={tmp_path / name}.parquet" for name in ("test", "train")]
    out = tmp_path / "page.html"
    result = run(tmp_path / "model", "--out", out, "--title", "Users & <items>", *given)
    assert result.exit_code == 0, result.output
    assert "Fitting Main effects" in result.output
    assert re.search(r"wrote .*page\.html \(\d+\.\d kB\)", result.output)
    text = out.read_text(encoding="utf-8")
    assert "<title>Users &amp; &lt;items&gt;</title>" in text
    assert embedded_data(text)["held_out"]["cells"] == parts.test.nnz


def test_report_reads_a_plain_table(model, parts, run, tmp_path):
    model.save(tmp_path / "model")
    file = tmp_path / "test.parquet"
    parts.test.to_frame("pandas").rename(columns={"count": "n"}).to_parquet(file)
    reading = ["--axes", "user,item,year", "--value", "n"]
    result = run(tmp_path / "model", "-o", tmp_path / "x.html", "--test", file, *reading)
    assert result.exit_code == 0, result.output


def test_report_of_no_model(run, tmp_path):
    result = run(tmp_path / "nowhere", "--out", tmp_path / "x.html")
    assert isinstance(result.exception, StorageError)  # which the command turns into exit code 2
    assert not (tmp_path / "x.html").exists()


def test_help_has_examples(run):
    assert "tallyfold report model --out report.html" in run("--help").output


def test_open_shows_the_file(model, run, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    model.save(tmp_path / "model")
    assert run(tmp_path / "model", "-o", tmp_path / "x.html", "--open").exit_code == 0
    assert opened == [(tmp_path / "x.html").resolve().as_uri()]
