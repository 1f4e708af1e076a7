"""``tallyfold split``: two files that hold what the library's splits hold."""

import pytest

import tallyfold as tf

AXES = ("--axes", "author,word,year", "--value", "count")


def test_help_has_examples(run):
    result = run("split", "--help")
    assert result.code == 0
    assert "tallyfold split counts.parquet" in result.out
    assert max(len(line) for line in result.out.splitlines()) <= 80


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (("--cells", "nonzero"), lambda tensor: tf.split(tensor, 0.2, random_state=0)),
        (
            ("--holdout", "0.3", "--seed", "4", "--cells", "nonzero"),
            lambda t: tf.split(t, 0.3, random_state=4),
        ),
        (
            ("--copies", "word", "--cells", "nonzero"),
            lambda t: tf.split(t, 0.2, random_state=0, groups=tf.near_copies(t, "word")),
        ),
        (
            ("--copies", "word", "--cells", "all"),
            lambda t: tf.split(t, 0.2, cells="all", groups=tf.near_copies(t, "word")),
        ),
        (("--by-entity", "author"), lambda t: tf.split_entities(t, "author", 0.2, random_state=0)),
        (("--after", "year=2008"), lambda t: tf.split_time(t, "year", after=2008)),
    ],
)
def test_the_parts_are_the_librarys(run, events, tensor, tmp_path, options, wanted):
    files = [tmp_path / "train.parquet", tmp_path / "test.npz"]
    result = run("split", events, *files, *AXES, *options)
    assert (result.code, result.err) == (0, "")
    for file, part in zip(files, wanted(tensor), strict=True):
        assert f"wrote {part.nnz:,} cells to {file}" in result.out
        found = tf.read_counts(file).to_frame().astype(str)
        assert sorted(found.values.tolist()) == sorted(part.to_frame().astype(str).values.tolist())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--copies", "shelf"), "no axis 'shelf'"),
        (("--copies", "word", "--by-entity", "author"), "--copies is for cells"),
        (("--copies", "word", "--after", "year=2008"), "--copies is for cells"),
        (("--holdout", "1"), "--holdout must be a share"),
        (("--after", "year=2008", "--holdout", "0.1"), "--after says what is held out"),
        (("--after", "2008"), "--after wants AXIS=VALUE"),
        (("--after", "month=3"), "month"),
        (("--by-entity", "month"), "month"),
        (("--after", "year=1999"), "leaves the train part empty"),
    ],
)
def test_what_cannot_be_split_is_refused(run, events, tmp_path, options, words):
    files = [tmp_path / "train.parquet", tmp_path / "test.parquet"]
    result = run("split", events, *files, *AXES, *options)
    assert (result.code, result.out) == (2, "")
    assert words in result.err
    assert "Traceback" not in result.err
    assert not files[0].exists()


def test_targets_are_two_files_and_none_that_is_read(run, frame, tmp_path):
    file, other = tmp_path / "events.csv", tmp_path / "test.csv"
    frame.to_csv(file, index=False)
    assert "is a file to read" in run("split", file, file, other, *AXES).err
    assert "must be two files" in run("split", file, other, other, *AXES).err
    assert "must be one of" in run("split", file, other, tmp_path / "x.xls", *AXES).err
    assert not other.exists()
