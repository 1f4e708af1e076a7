"""No verb writes over a file that it reads."""

import pytest

AXES = ("--axes", "author,word,year", "--value", "count")


@pytest.mark.parametrize("source", ["events.csv", "*.csv", "link.csv", "./events.csv"])
def test_convert_does_not_replace_what_it_reads(run, frame, tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    frame.to_csv("events.csv", index=False)
    if source == "link.csv":
        (tmp_path / "link.csv").symlink_to("events.csv")
    before = (tmp_path / "events.csv").read_bytes()
    result = run("convert", source, "events.csv", *AXES)
    assert result.code == 2
    assert "'events.csv' is a file to read" in result.err
    assert (tmp_path / "events.csv").read_bytes() == before
    assert run("convert", source, "counts.csv", *AXES).code == 0


def test_nor_do_predict_and_surprise(run, folder, frame, tmp_path):
    file = tmp_path / "cells.csv"
    frame.to_csv(file, index=False)
    for verb in ("predict", "surprise"):
        result = run(verb, folder, file, "--out", file)
        assert result.code == 2
        assert "is a file to read" in result.err
    assert file.read_text() == frame.to_csv(index=False)
