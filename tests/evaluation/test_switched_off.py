"""Components that the prior has switched off: counted, said once, and in no list."""

import json
import logging

import numpy as np
import pytest
from tests.report.test_explorer import unpacked

import tallyfold as tf
from tallyfold.cli import main
from tallyfold.evaluation.profiles import profile
from tallyfold.evaluation.words.coherence import coherence_by_component
from tallyfold.models.completion import say_switched_off
from tallyfold.posterior.point_factors import PointFactors
from tallyfold.report import plots
from tallyfold.report.explorer.payload import payload_of

pytestmark = pytest.mark.usefixtures("brief_heads")


@pytest.fixture(scope="module")
def tensor():
    return tf.simulate((60, 50, 20), 2, density=0.1, random_state=1).tensor


@pytest.fixture(scope="module", params=["bptf", "vae-bptf", "bptf, missing"])
def model(request, tensor):
    given = {"n_components": 20, "prior_shape": 1.0}
    if request.param == "vae-bptf":
        return tf.VAEBPTF(zeros="observed", **given).fit(tensor)
    zeros = "missing" if "missing" in request.param else "observed"
    return tf.BPTF(zeros=zeros, **given).fit(tensor)


@pytest.fixture(scope="module")
def on(model):
    return np.flatnonzero(~model.posterior_.switched_off()).tolist()


def test_two_components_need_no_twenty(model, on):
    factors = model.posterior_
    assert 2 <= len(on) <= 12
    assert on == list(range(len(on)))  # numbers go by size, and columns by numbers
    shares = factors.shares()
    assert shares[on].sum() > 0.9
    # what is off says about the same of all labels
    for off in set(range(20)) - set(on):
        for name in factors.names:
            column = factors.mean(name)[:, off]
            assert column.std() / column.mean() < 1
    assert not factors.switched_off(0.0).any()


def test_lists_have_none_of_them(model, on):
    listed = model.components("axis_1", 3)
    assert sorted(listed["component"].unique()) == on
    assert model.components("axis_1", 3, least=0)["component"].nunique() == 20
    frame = profile(model, "axis_1", "axis_1-07")
    assert sorted(frame["component"]) == on
    assert frame.attrs["switched_off"] == 20 - len(on)
    assert model.posterior_.to_xarray().sizes["component"] == 20


def test_words_are_scored_by_the_same_rule(model, on, tensor):
    found = coherence_by_component(model, "axis_1", tensor)
    assert sorted(found.scores["component"]) == on
    assert found.left_out["components switched off"] == 20 - len(on)


def test_the_page_and_its_map_have_none_of_them(model, on):
    payload = payload_of(model)
    assert [each["name"] for each in payload["components"]] == on
    assert [each["called"] for each in payload["components"]] == model.component_names_[: len(on)]
    assert payload["switched_off"] == 20 - len(on)
    entry = payload["axes"][1]
    weights = unpacked(entry["mean"], len(on))
    mean = model.posterior_.mean("axis_1")[:, on]
    rows = [model.axes_[1].positions([label])[0] for label in entry["labels"]]
    np.testing.assert_allclose(weights, (mean / mean.sum(axis=0))[rows], rtol=1e-3, atol=2e-12)


def test_figures_have_none_of_them(model, on):
    texts = {text.get_text() for text in plots.component_map(model).texts}
    assert texts <= {str(number) for number in on}
    assert texts
    (panel,) = plots.factor_profile(model, "axis_0", "axis_0-03")
    assert len(panel.patches) == len(on)
    named = panel.xaxis.get_major_formatter()
    assert [named(place) for place in range(len(on))] == [str(number) for number in on]
    assert plots.component_bars(model, 19, "axis_0") is not None  # asked for by its number


def test_lines_of_time_have_none_of_them():
    made = tf.simulate((40, 30, 12), 2, density=0.2, random_state=1).tensor
    axes = [*made.axes[:2], tf.Axis("year", range(2010, 2022))]
    tensor = tf.CountTensor(axes, made.indices, made.counts)
    model = tf.BPTF(n_components=8, zeros="observed", prior_shape=1.0, validation=None).fit(tensor)
    assert (~model.posterior_.switched_off()).sum() == 2
    assert len(plots.time_course(model, "year").get_lines()) == 2


def test_it_is_said_once(tensor, caplog):
    say_switched_off.cache_clear()
    with caplog.at_level(logging.WARNING, "tallyfold"):
        model = tf.BPTF(n_components=20, zeros="observed", prior_shape=1.0)
        off = int(model.fit(tensor).posterior_.switched_off().sum())
        model.fit(tensor)
        tf.BPTF(n_components=2, zeros="observed").fit(tensor)
    said = [each.getMessage() for each in caplog.records if "switched off" in each.getMessage()]
    assert len(said) == 1
    assert said[0].startswith(f"{off} of 20 components are switched off: the data need no more.")


def test_the_command_line_lists_none_of_them(model, on, tmp_path, capsys):
    model.save(tmp_path / "m")

    def run(*arguments):
        with pytest.raises(SystemExit):
            main([str(each) for each in arguments])
        return capsys.readouterr().out

    words = f"{20 - len(on)} of 20 components are switched off: the data need no more."
    shown = run("components", tmp_path / "m", "--axis", "axis_1", "--top", "2")
    assert shown.count("% of the rate") == len(on)
    assert words in shown
    rows = json.loads(run("components", tmp_path / "m", "--axis", "axis_1", "--json"))
    assert sorted({row["component"] for row in rows}) == on
    off = next(number for number in range(20) if number not in on)
    alone = run("components", tmp_path / "m", "--axis", "axis_1", "--component", off)
    assert f"Component {off}," in alone
    assert "switched off" not in alone
    assert words in run("profile", tmp_path / "m", "--of", "axis_1=axis_1-07")


def test_a_component_is_not_off_for_being_even():
    """Half an even share is enough, even if all labels are alike; and one that stands alone."""
    flat, peaked = np.ones((5, 1)), np.array([[1.0], [0], [0], [0], [0]])
    labels = [list("abcde")] * 2

    def off(*columns):
        factor = np.hstack(columns)
        return PointFactors(
            ["x", "y"], labels, [np.vstack([factor, factor[:1]])] * 2
        ).switched_off()

    assert off(flat).tolist() == [False]
    assert off(flat, flat).tolist() == [False, False]
    assert off(peaked * 4, flat * 0.3).tolist() == [False, True]
    assert off(peaked * 4, peaked[::-1] * 1.5).tolist() == [False, False]
    assert off(peaked * 4, peaked * 0.1).tolist() == [False, True]
