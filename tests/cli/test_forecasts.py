"""``tallyfold forecast`` and ``tallyfold backtest``."""

import json

import pandas as pd
import pytest
from tests.models.test_forecasting import days

import tallyfold as tf


@pytest.fixture(scope="module")
def counts(tmp_path_factory):
    file = tmp_path_factory.mktemp("counts") / "counts.parquet"
    tf.write_counts(days(12), file)
    return file


@pytest.fixture(scope="module")
def model(counts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "m"
    tf.SmoothedPast().fit(tf.read_counts(counts)).save(folder)
    return folder


def test_forecast_writes_the_most_expected_cells(run, model, tmp_path):
    out = tmp_path / "next.csv"
    found = run("forecast", model, "--horizon", 3, "--top", 4, "--out", out)
    assert found.code == 0
    frame = pd.read_csv(out)
    assert list(frame) == ["user", "item", "day", "probability", "mean", "low", "high"]
    assert frame["day"].tolist() == [12] * 4 + [13] * 4 + [14] * 4
    listed = run("forecast", model, "--top", 2)
    head = listed.out.splitlines()[0].replace('"', "")
    assert head == "user,item,day,probability,mean,low,high"


def test_models_are_asked_of_periods_to_come(run, model, tmp_path):
    later = days(13)
    later = later.with_cells(later.indices[:, 2] == 12)
    tf.write_counts(later, tmp_path / "next.npz")
    refused = run("surprise", model, tmp_path / "next.npz")
    assert refused.code == 2
    assert "--horizon N knows the next N periods" in refused.err
    asked = (tmp_path / "next.npz", "--horizon", 1, "--json")
    ahead = tf.load(model).forecast(1)
    odd = json.loads(run("surprise", model, *asked, "--top", 3).out)["top"]
    assert [row["p"] for row in odd] == tf.surprise(ahead, later, top=3)["p"].tolist()
    scores = json.loads(run("score", model, *asked, "--metrics", "log-pmf").out)["scores"]
    assert scores["smoothed-past"]["log-pmf"] == pytest.approx(ahead.log_pmf(later).mean())
    cells = later.to_frame("pandas").head(3)
    cells.drop(columns="count").to_csv(tmp_path / "cells.csv", index=False)
    refused = run("predict", model, tmp_path / "cells.csv")
    assert refused.code == 2
    assert "(Here: --horizon N, --unknown" in refused.err
    told = run("predict", model, tmp_path / "cells.csv", "--horizon", 1)
    means = [float(line.split(",")[4]) for line in told.out.splitlines()[1:]]
    assert means == pytest.approx(ahead.predict(cells))


def test_forecast_of_a_model_that_does_not_remember(run, counts, tmp_path):
    tf.Constant().fit(tf.read_counts(counts)).save(tmp_path / "m")
    found = run("forecast", tmp_path / "m")
    assert found.code == 2
    assert "does not remember" in found.err


def test_backtest_shows_a_row_per_model(run, counts, tmp_path):
    asked = ("backtest", counts, "--models", "moving-average,last-value", "--origins", 2)
    found = run(*asked, "--out", tmp_path / "rows", "--figure", tmp_path / "scores.png")
    assert found.code == 0
    assert "moving-average" in found.out
    assert "Means over 2 origins" in found.out
    assert (tmp_path / "scores.png").stat().st_size > 5000
    again = run(*asked, "--out", tmp_path / "rows", "--json")
    rows = json.loads(again.out)["rows"]
    assert {row["model"] for row in rows} == {"moving-average", "last-value"}
    assert "done before" not in again.out


def test_backtest_refuses_counts_without_time(run, counts):
    plain = run("backtest", counts, "--time", "user")
    assert plain.code == 2
    assert "has no order" in plain.err


def test_update_says_how_well_a_new_period_was_foretold(run, model, tmp_path):
    longer, other = days(13), days(13, seed=1)
    for name, tensor in (("usual", longer), ("odd", other)):
        tf.write_counts(tensor.with_cells(tensor.indices[:, 2] == 12), tmp_path / f"{name}.parquet")
        found = run("update", model, tmp_path / f"{name}.parquet", "--out", tmp_path / name)
        assert found.code == 0
        said = found.out + found.err
        assert "12: log score" in said
        assert "the 8 periods before" in said
        assert ("think of a new fit" in said) == (name == "odd")


def test_forecast_writes_totals_of_labels(run, model, tmp_path):
    out = tmp_path / "totals.csv"
    assert run("forecast", model, "--totals", "item", "--horizon", 2, "--out", out).code == 0
    told = pd.read_csv(out)
    assert list(told) == ["item", "day", "mean", "low", "high"]
    assert set(told["day"]) == {12, 13}
    assert (told["low"] <= told["high"]).all()
    whole = run("forecast", model, "--totals", "day")
    assert whole.out.splitlines()[1].startswith("12,")
    none = run("forecast", model, "--totals", "colour")
    assert none.code == 2
    assert "no axis 'colour'" in none.err
