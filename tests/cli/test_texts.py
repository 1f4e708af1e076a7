"""Texts become counts of words."""

import tallyfold as tf

PAPERS = """author,year,abstract
ann; bob,2003,"Sparse counts, sparse tensors"
bob,2004,Dense tensors
cem,,Dense matrix
"""
COUNT = ("--text", "abstract", "--axes", "author,year")


def test_words_of_texts_are_counted(run, tmp_path):
    (tmp_path / "x.csv").write_text(PAPERS)
    files = tmp_path / "x.csv", tmp_path / "x.npz"
    done = run("convert", *files, *COUNT, "--explode", "author=;", "--missing", "drop")
    assert "missing in year (1): dropped 1 document" in done.out
    counts = tf.read_counts(files[1])
    assert counts.names == ("author", "word", "year")
    assert counts.labels("author") == ["ann", "bob"]
    assert counts.labels("year") == [2003, 2004]
    assert counts.sel(author=["ann"], word=["sparse"]).total == 2
    query = "--query", f"select * from '{files[0]}' where year = 2004"
    done = run("convert", files[1], *query, "--database", ":memory:", *COUNT)
    assert tf.read_counts(files[1]).labels("word") == ["dense", "tensors"]


def test_options_of_texts_need_texts(run, tmp_path):
    (tmp_path / "x.csv").write_text(PAPERS)
    files = tmp_path / "x.csv", tmp_path / "x.npz"
    for wrong in (("--axes", "author,year", "--min-df", "2"), COUNT[:2], (*COUNT, "--value", "n")):
        done = run("convert", *files, *wrong)
        assert (done.code, "--text" in done.err) == (2, True)
