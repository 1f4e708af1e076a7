"""The card of a model that ``fit --holdout`` wrote, and verbs that cut times as the fit did."""

import json

import numpy as np
import pandas as pd
import pytest

import tallyfold as tf


@pytest.fixture(scope="module")
def dated(tmp_path_factory):
    rng = np.random.default_rng(0)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 150, 400), unit="D")
    user, page = ([f"{name}-{n}" for n in rng.integers(0, 8, 400)] for name in ("user", "page"))
    frame = pd.DataFrame({"user": user, "page": page, "day": day.strftime("%Y-%m-%d")})
    file = tmp_path_factory.mktemp("dated") / "events.csv"
    frame.to_csv(file, index=False)
    return file


FIT = ("--axes", "user,page,day", "--model", "bptf", "--components", "2", "--max-iter", "4")


@pytest.mark.parametrize("refit", [False, True])
def test_held_out_scores_are_on_the_card(run, dated, tmp_path, refit):
    out = tmp_path / "model"
    given = (*FIT, "--zeros", "missing", "--bin", "day=month", "--out", out, "--holdout", "0.2")
    told = json.loads(run("fit", dated, *given, *["--refit"] * refit, "--json").out)
    held_out = json.loads(run("describe", out, "--json").out)["held out"]
    assert held_out["refitted"] is refit
    assert held_out["scores"]["bptf"] == told["scores"]["bptf"]
    assert held_out["scores"].keys() == told["scores"].keys() > {"bptf", "margins"}
    text = run("describe", out).out
    assert f"held-out scores: on {held_out['cells']} cells, " in text
    assert ("of a fit to the other cells" in text) is refit
    assert "bins: day by month\n" in text
    whole = tf.read_counts(dated, ["user", "page", "day"], bins={"day": "month"})
    assert (f"fingerprint {whole.fingerprint()}\n" in text) is refit


def test_the_fingerprint_of_a_file_is_that_of_its_model(run, dated, tmp_path):
    out = tmp_path / "model"
    reading = ("--axes", "user,page,day", "--bin", "day=week")
    run("fit", dated, *FIT, "--zeros", "missing", "--bin", "day=week", "--out", out)
    (line,) = [t for t in run("describe", dated, *reading).out.splitlines() if "fingerprint" in t]
    assert line.split("fingerprint ")[1] in run("describe", out).out


def test_verbs_cut_times_as_the_fit_did(run, dated, tmp_path):
    out = tmp_path / "model"
    run("fit", dated, *FIT, "--zeros", "missing", "--bin", "day=month", "--out", out)
    plain, cut = (run("predict", out, dated, *more) for more in ((), ("--bin", "day=month")))
    assert (plain.code, plain.out) == (0, cut.out)
    assert "2024-01-" in plain.out  # columns stay as they were
    plain, cut = (run("score", out, dated, *more) for more in ((), ("--bin", "day=month")))
    assert (plain.code, plain.out) == (0, cut.out)
    more = tmp_path / "more.csv"
    more.write_text("user,page,day\nuser-1,page-1,2024-09-01\nuser-1,page-1,2024-09-20\n")
    said = run("surprise", out, more, "--unknown", "prior", "--json")
    (cell,) = json.loads(said.out)["top"]
    assert (cell["day"], cell["count"]) == ("2024-09", 2)
