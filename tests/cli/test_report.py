"""``tallyfold report``: how its counts are read."""

import datetime as dt

import pandas as pd

import tallyfold as tf


def test_the_axes_are_the_models(run, folder, frame, tmp_path):
    file, page = tmp_path / "test.csv", tmp_path / "page.html"
    frame.iloc[:50].to_csv(file, index=False, sep=";")
    given = ("report", folder, "-o", page, "--test", file, "--value", "count")
    result = run(*given, "--delimiter", ";")
    assert (result.code, result.err) == (0, "")
    assert page.exists()
    assert run(*given, "--delimiter", ";", "--axes", "author,word,year").code == 0
    result = run(*given, "--delimiter", ";", "--axes", "author,word")
    assert result.code == 2
    assert "--axes must be the model's, author,word,year; got 'author,word'" in result.err


def test_times_are_binned_as_the_models_were(run, tmp_path):
    days = [dt.date(2024, 1 + n % 3, 1 + n) for n in range(12)]
    frame = pd.DataFrame({"who": ["ann", "bob"] * 6, "day": days, "n": range(1, 13)})
    months = tf.CountTensor.from_frame(frame, ["who", "day"], "n", bins={"day": "month"})
    tf.Constant().fit(months).save(tmp_path / "m")
    frame.to_csv(tmp_path / "test.csv", index=False)
    given = ("report", tmp_path / "m", "--test", tmp_path / "test.csv", "--value", "n")
    given = (*given, "--out", tmp_path / "page.html")
    assert run(*given).code == 0
    page = (tmp_path / "page.html").read_text("utf-8")
    assert run(*given, "--bin", "day=month").code == 0
    assert (tmp_path / "page.html").read_text("utf-8") == page
