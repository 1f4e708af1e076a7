"""The axis of time on the page: totals that came, and a ribbon of the next ones."""

import pytest
from tests.models.test_forecasting import days

import tallyfold as tf
from tallyfold.report.explorer import write_report
from tallyfold.report.explorer.payload import payload_of


@pytest.fixture(scope="module")
def model():
    return tf.SmoothedPast().fit(days(skip=(5,)))


def test_totals_and_ribbon_are_those_of_the_model(model):
    tensor = days(skip=(5,))
    shown = payload_of(model)["next_periods"]
    came = dict(zip(tensor.axes[2].labels.to_pylist(), tensor.marginal("day"), strict=True))
    assert shown["axis"] == "day"
    assert shown["known"][5] == ["", 0]  # a gap is a period without counts
    assert [n for label, n in shown["known"] if label] == list(came.values())
    wanted = tf.next_totals(model, len(shown["next"]), level=0.9)
    assert [row[0] for row in shown["next"]] == [str(day) for day in wanted["day"]]
    for number, column in enumerate(("mean", "low", "high"), 1):
        assert [row[number] for row in shown["next"]] == pytest.approx(wanted[column], rel=1e-3)


def test_a_model_without_memory_shows_none():
    assert payload_of(tf.Constant().fit(days()))["next_periods"] is None


def test_the_ribbon_is_drawn(visit, model, tmp_path):
    page = visit(write_report(model, tmp_path / "page.html").as_uri())
    card = page.locator("#ahead section.card")
    band, line = card.locator("path.band"), card.locator("path.line")
    box, whole = band.bounding_box(), line.bounding_box()
    shown = payload_of(model)["next_periods"]
    assert box["height"] > 5
    assert box["x"] + box["width"] == pytest.approx(whole["x"] + whole["width"], abs=2)
    card.locator("summary").click()
    card.locator("tbody tr").first.wait_for()
    assert card.locator("tbody tr").count() == len(shown["known"]) + len(shown["next"])


def test_without_memory_the_section_is_hidden(visit, tmp_path):
    page = visit(write_report(tf.Constant().fit(days()), tmp_path / "page.html").as_uri())
    assert page.locator("#ahead").is_hidden()
