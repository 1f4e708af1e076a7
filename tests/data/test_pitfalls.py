"""What once went wrong, or nearly did: odd names, odd labels, odd files."""

import contextlib
import decimal
import gzip
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from sklearn.feature_extraction.text import TfidfVectorizer

import tallyfold as tf
from tallyfold.errors import (
    CountError,
    DataError,
    DroppedWarning,
    FormatError,
    LabelError,
    ParameterError,
    ShapeError,
)

read, Tensor = tf.read_counts, tf.CountTensor
TABLES = [".csv", ".tsv", ".jsonl", ".parquet"]


def write(frame, path):
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")


# -- files ----


@pytest.mark.parametrize("ending", TABLES)
@pytest.mark.parametrize("name", ["s[1]", "da*ta", "what?"])
def test_a_file_whose_name_looks_like_a_pattern_is_that_file(name, ending, tmp_path):
    for other in ("s1", "daXXta", "what1"):
        write(pd.DataFrame({"a": [7], "b": [7]}), tmp_path / f"{other}{ending}")
    write(pd.DataFrame({"a": [1], "b": [2]}), tmp_path / f"{name}{ending}")
    tensor = read(tmp_path / f"{name}{ending}", axes=["a", "b"])
    assert tensor.axis("a").labels.to_pylist() == [1]


@pytest.mark.parametrize("ending", TABLES)
@pytest.mark.parametrize(
    "odd", ["fault", "one", "n", "x0", "x1", "place", "row_", "label", "c0", "k0"]
)
def test_columns_may_have_any_name(odd, ending, tmp_path):
    path = tmp_path / f"x{ending}"
    frame = pd.DataFrame({"a": ["x", "y"], "b": ["u", "v"], odd: [True, False], "value": [5, 7]})
    write(frame, path)
    assert read(path, axes=["a", "b"], value="value").counts.tolist() == [5, 7]
    assert read(path, axes=["a", odd], value="value").names == ("a", odd)
    tensor = Tensor.from_frame(frame, axes=[odd, "a"], value="value")
    tf.write_counts(tensor, path, value="value of it")
    assert read(path) == tensor
    write(frame.assign(value=[5, -7]), path)
    with pytest.raises(CountError, match="-7"):
        read(path, axes=["a", odd], value="value")


def test_names_that_differ_in_case_only(tmp_path):
    (tmp_path / "x.csv").write_text("User,user\na,b\n")
    tensor = read(tmp_path / "x.csv", axes=["User", "user"])
    assert tensor.axis("User").labels.to_pylist() == ["a"]
    with pytest.raises(ParameterError, match="not only in case"):
        tf.write_counts(tensor, tmp_path / "y.parquet")
    tf.write_counts(tensor, tmp_path / "y.npz")
    assert read(tmp_path / "y.npz") == tensor


def test_a_csv_with_the_index_of_pandas(tmp_path):
    pd.DataFrame({"a": [1, 2], "b": [3, 4]}).to_csv(tmp_path / "x.csv")
    assert read(tmp_path / "x.csv", axes=["a", "b"]).nnz == 2


@pytest.mark.parametrize("ending", TABLES)
@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2020-01-01T00:30:00+09:00", "2019-12-31"),
        ("2020-01-01T23:30:00-05:00", "2020-01-02"),
        ("2020-01-01T23:30:00Z", "2020-01-01"),
        ("2020-01-01 23:30:00.123456", "2020-01-01"),
    ],
)
def test_zones_in_text_are_honoured_alike(text, day, ending, tmp_path):
    frame = pd.DataFrame({"a": ["x", "y"], "t": [text, "2020-01-05"]})
    write(frame, tmp_path / f"x{ending}")
    bins = {"t": "day"}
    for tensor in (
        read(tmp_path / f"x{ending}", axes=["a", "t"], bins=bins),
        Tensor.from_frame(frame, axes=["a", "t"], bins=bins),
    ):
        assert tensor.axis("t").labels.to_pylist() == [day, "2020-01-05"]


def test_times_before_1970_to_the_nanosecond(tmp_path):
    times = pa.array([-1, 0, 1], pa.timestamp("ns"))
    table = pa.table({"a": ["x", "y", "z"], "t": times})
    pq.write_table(table, tmp_path / "x.parquet")
    for tensor in (
        read(tmp_path / "x.parquet", axes=["a", "t"], bins={"t": "year"}),
        Tensor.from_frame(table, axes=["a", "t"], bins={"t": "year"}),
    ):
        assert tensor.axis("t").labels.to_pylist() == ["1969", "1970"]
        assert tensor.marginal("t").tolist() == [1, 2]


def test_early_and_late_years(tmp_path):
    early = pd.DataFrame({"a": ["x", "y"], "t": ["0044-03-15", "0999-01-01"]})
    tensor = Tensor.from_frame(early, axes=["a", "t"], bins={"t": "month"})
    assert tensor.axis("t").labels.to_pylist() == ["0044-03", "0999-01"]
    for moment in ("12000-01-01", "infinity"):
        (tmp_path / "x.csv").write_text(f"a,t\nx,{moment}\n")
        with pytest.raises(LabelError):
            read(tmp_path / "x.csv", axes=["a", "t"], bins={"t": "year"})
    far = Tensor.from_frame(
        pa.table({"a": [1], "t": pa.array([2**62], pa.timestamp("us"))}), axes=["a", "t"]
    )
    assert "Axis('t'" in repr(far.axis("t"))


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_labels_in_folder_names(ending, tmp_path):
    for year in (2020, 2021):
        (tmp_path / f"year={year}").mkdir()
        write(pd.DataFrame({"a": ["x"], "b": [year]}), tmp_path / f"year={year}" / f"p{ending}")
    tensor = read(tmp_path, axes=["a", "year"])
    assert [str(label) for label in tensor.axis("year").labels.to_pylist()] == ["2020", "2021"]
    (tmp_path / "b=9").mkdir()
    write(pd.DataFrame({"a": ["x"], "b": [1]}), tmp_path / "b=9" / f"p{ending}")
    alone = read(tmp_path / "b=9", axes=["a", "b"])
    assert alone.axis("b").labels.to_pylist() == [1]


def test_keys_of_json_that_come_late(tmp_path):
    lines = ['{"a": "x", "b": "y"}'] * 25_000 + ['{"a": "x", "b": "z", "n": 2}']
    (tmp_path / "x.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(CountError, match="line 1: nothing"):
        read(tmp_path / "x.jsonl", axes=["a", "b"], value="n")
    wide = "{" + ", ".join(f'"k{number}": {number}' for number in range(300)) + "}"
    (tmp_path / "y.jsonl").write_text(wide + "\n")
    assert read(tmp_path / "y.jsonl", axes=["k1", "k299"]).nnz == 1


def test_lines_are_those_an_editor_shows(tmp_path):
    (tmp_path / "x.csv").write_text('a,b,n\n1,"two\nlines",1\n\n2,z,-1\n')
    with pytest.raises(CountError, match="line 5: -1"):
        read(tmp_path / "x.csv", axes=["a", "b"], value="n")
    (tmp_path / "x.jsonl").write_text('{"a": 1, "b": 2}\n\n{"a": 1}\n')
    with pytest.raises(LabelError, match="line 3: nothing"):
        read(tmp_path / "x.jsonl", axes=["a", "b"])


def test_files_with_different_columns_are_named(tmp_path):
    pd.DataFrame({"a": [1], "b": [1]}).to_parquet(tmp_path / "one.parquet")
    pd.DataFrame({"a": [1], "c": [1]}).to_parquet(tmp_path / "two.parquet")
    with pytest.raises(LabelError, match=r"two.parquet' has no column 'b'; it has 'a', 'c'"):
        read(tmp_path, axes=["a", "b"])


def test_endings_in_capitals(tmp_path):
    tensor = Tensor.from_array(np.eye(3, dtype=int), ["a", "b"])
    for name in ("X.CSV.GZ", "X.TNS.Gz", "X.Jsonl.ZST", "X.PARQUET"):
        tf.write_counts(tensor, tmp_path / name)
        assert read(tmp_path / name) == tensor
    with gzip.open(tmp_path / "X.CSV.GZ") as text:
        assert text.readline() == b'"a","b","count"\n'


@pytest.mark.parametrize("ending", [*TABLES, ".tns", ".npz", ".csv.gz", ".tns.zst"])
def test_a_tensor_without_cells_comes_back(ending, tmp_path):
    whole = Tensor.from_array(np.eye(3, dtype=int), ["a", "b"])
    empty = whole.with_cells(np.zeros(3, bool))
    tf.write_counts(empty, tmp_path / f"x{ending}")
    assert read(tmp_path / f"x{ending}") == empty


def test_bytes_that_are_not_utf8_and_lines_that_end_differently(tmp_path):
    (tmp_path / "x.csv").write_bytes("a,b\né,1\n".encode("latin-1"))
    with pytest.raises(FormatError, match="UTF-8"):
        read(tmp_path / "x.csv", axes=["a", "b"])
    (tmp_path / "x.csv").write_bytes(b"a,b\r\n1,x\n2,y\r\n")
    with pytest.raises(FormatError, match="write the file anew"):
        read(tmp_path / "x.csv", axes=["a", "b"])


def test_paths_of_odd_kinds(tmp_path, monkeypatch):
    write(pd.DataFrame({"a": [1], "b": [2]}), tmp_path / "x.csv")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read("~/x.csv", axes=["a", "b"]).nnz == 1
    (tmp_path / ".ipynb_checkpoints").mkdir()
    write(pd.DataFrame({"a": [1], "b": [2]}), tmp_path / ".ipynb_checkpoints" / "x.csv")
    assert read(tmp_path, axes=["a", "b"]).total == 1
    with pytest.raises(ParameterError, match="each file once"):
        read([tmp_path / "x.csv", tmp_path / "x.csv"], axes=["a", "b"])
    for odd in (None, b"x.csv", 3):
        with pytest.raises(ParameterError, match="`path` must be a path"):
            read(odd, axes=["a", "b"])
    with pytest.raises(ParameterError, match="`memory_limit` must be an amount"):
        read(tmp_path / "x.csv", axes=["a", "b"], memory_limit="lots")
    with pytest.raises(ParameterError, match="`delimiter` must be one character"):
        read(tmp_path / "x.csv", axes=["a", "b"], delimiter=5)
    with pytest.raises(ParameterError, match="`repeated` must be"):
        read(tmp_path / "x.csv", axes=["a", "b"], repeated="bogus")


def test_arguments_that_mean_nothing_for_a_file_are_refused(tmp_path):
    (tmp_path / "x.tns").write_text("1 1 2\n1 1 3\n")
    assert read(tmp_path / "x.tns").counts.tolist() == [5]
    with pytest.raises(LabelError, match="repeat a cell"):
        read(tmp_path / "x.tns", repeated="error")
    for given in ({"value": "n"}, {"delimiter": ";"}, {"memory_limit": "1GB"}):
        with pytest.raises(ParameterError, match="Leave it out"):
            read(tmp_path / "x.tns", **given)


def test_one_wrong_position_does_not_fill_the_memory(tmp_path):
    (tmp_path / "x.tns").write_text("1 1 2\n2147483647 1 3\n")
    assert read(tmp_path / "x.tns").shape == (2, 1)


def test_repeated_cells_of_files_are_named(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\nx,1\nx,1\ny,2\n")
    with pytest.raises(LabelError, match=r"\(x, 1\) 2 times"):
        read(tmp_path / "x.csv", axes=["a", "b"], repeated="error")


def test_random_damage_gives_typed_errors_only(tmp_path):
    tensor = tf.simulate((6, 5, 4), 2, density=0.4).tensor
    rng = np.random.default_rng(0)
    for ending in (".parquet", ".csv", ".jsonl.gz", ".csv.zst", ".tns", ".npz"):
        path = tmp_path / f"x{ending}"
        tf.write_counts(tensor, path)
        for file in tmp_path.glob(f"x{ending}*"):
            data = file.read_bytes()
            for _ in range(12):
                spoilt = bytearray(data)
                for place in rng.integers(0, len(data), rng.integers(1, 4)):
                    spoilt[place] ^= int(rng.integers(1, 256))
                file.write_bytes(bytes(spoilt))
                for axes in (None, list(tensor.names)):
                    given = {"value": "count"} if axes and ending != ".tns" else {}
                    with contextlib.suppress(FormatError, DataError, ParameterError):
                        read(path, axes, **given)
            file.write_bytes(data)


# -- frames and arrays ----


def test_counts_that_a_float_would_round():
    frame = pd.DataFrame({"a": [1], "b": [1]})
    tiny = decimal.Decimal("1.0000000000000000001")
    for value in (tiny, decimal.Decimal(2**53 + 1)):
        table = pa.table({"a": [1], "b": [1], "n": pa.array([value], pa.decimal128(38, 19))})
        with pytest.raises(CountError):
            Tensor.from_frame(table, axes=["a", "b"], value="n")
    with pytest.raises(CountError, match="must be numbers"):
        Tensor.from_frame(frame.assign(n=[object()]), axes=["a", "b"], value="n")


def test_minus_zero_and_zero_are_one_label(tmp_path):
    frame = pd.DataFrame({"a": [0.0, -0.0, 1.0], "b": [1, 1, 1]})
    tensor = Tensor.from_frame(frame, axes=["a", "b"])
    assert tensor == Tensor.from_frame(frame[::-1], axes=["a", "b"])
    assert tensor.counts.tolist() == [2, 1]
    frame.to_parquet(tmp_path / "x.parquet")
    assert read(tmp_path / "x.parquet", axes=["a", "b"]) == tensor


def test_frames_that_arrow_cannot_take():
    for frame, kind in (
        (pd.DataFrame([[1, 2, 3]], columns=["a", "a", "b"]), LabelError),
        (pd.DataFrame([[1, 2]], columns=[0, 1]), ParameterError),
        (pd.DataFrame({"a": [2**70, 1], "b": [1, 2]}, dtype=object), LabelError),
        (pd.DataFrame({"a": ["\ud800"], "b": [1]}, dtype=object), LabelError),
    ):
        with pytest.raises(kind):
            Tensor.from_frame(frame, axes=list(dict.fromkeys(frame.columns)))
    for axes in (None, 5, "ab", [0, 1]):
        with pytest.raises(ParameterError, match="`axes` must be a list of column names"):
            Tensor.from_frame(pd.DataFrame({"a": [1], "b": [1]}), axes=axes)
    half = pa.table({"a": pa.array(np.array([1, 2], np.float16)), "b": [1, 2]})
    assert Tensor.from_frame(half, axes=["a", "b"]).axis("a").labels.type == pa.float32()


def test_filters_and_bins_of_the_wrong_kind():
    frame = pd.DataFrame({"a": [1], "b": [1]})
    for given in ({"top": 5}, {"min_nonzeros": ["a"]}, {"bins": "month"}):
        with pytest.raises(ParameterError, match="must be like"):
            Tensor.from_frame(frame, axes=["a", "b"], **given)


def test_lazy_frames_read_only_what_is_needed_and_keep_the_order_of_enums():
    days = pl.Enum(["tue", "mon"])
    lazy = pl.LazyFrame({"a": ["x", "y"], "day": ["mon", "tue"]}).with_columns(
        pl.col("day").cast(days),
        # reading this column would fail
        bad=pl.col("a").map_elements(lambda _: 1 / 0, return_dtype=pl.Int64),
    )
    tensor = Tensor.from_frame(lazy, axes=["a", "day"])
    assert tensor.axis("day").labels.to_pylist() == ["tue", "mon"]
    ordered = pa.DictionaryArray.from_arrays([1, 0], ["tue", "mon"], ordered=True)
    tensor = Tensor.from_frame(pa.table({"a": ["x", "y"], "day": ordered}), axes=["a", "day"])
    assert tensor.axis("day").labels.to_pylist() == ["tue", "mon"]


def test_selecting_casts_nothing_that_means_something_else():
    flags = Tensor.from_frame(pd.DataFrame({"f": [True, False], "n": [0, 1]}), axes=["f", "n"])
    for wrong in ({"f": [5]}, {"n": [True]}, {"n": [1.5]}):
        with pytest.raises(LabelError, match="Ask with the type"):
            flags.sel(**wrong)
    assert flags.sel(n=np.array([1], np.int8)).nnz == 1
    times = pd.DataFrame({"t": pd.to_datetime(["2020-01-01", "2020-01-02"]), "n": [1, 2]})
    tensor = Tensor.from_frame(times, axes=["t", "n"])
    assert tensor.sel(t=[np.datetime64("2020-01-02")]).nnz == 1
    assert tf.split_time(tensor, "t", after=np.datetime64("2020-01-01")).test.nnz == 1
    with pytest.raises(LabelError, match="Ask with the type"):
        tensor.sel(t=[pd.Timestamp("2020-01-02", tz="Asia/Tokyo")])
    with pytest.raises(LabelError, match="`after` must be comparable"):
        tf.split_time(tensor, "t", after=None)


def test_an_axis_called_self():
    tensor = Tensor.from_array(np.eye(2, dtype=int), ["self", "other"])
    assert tensor.sel(**{"self": [1]}).nnz == 1


def test_labels_from_an_iterator_are_read_once():
    axis = tf.Axis("a", ["x", "y"])
    assert axis.positions(iter(["y"])).tolist() == [1]
    with pytest.raises(LabelError, match="no label 'zz'"):
        axis.positions(iter(["zz"]))


def test_long_labels_are_cut_in_messages():
    axis = tf.Axis("a", ["x" * 100_000, "y"])
    assert len(repr(axis)) < 200
    with pytest.raises(LabelError) as caught:
        axis.positions(["z" * 100_000])
    assert len(str(caught.value)) < 500


def test_arrays_of_odd_kinds():
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix([[1, 2], [3, 4]])
    assert Tensor.from_array(matrix).counts.tolist() == [1, 2, 3, 4]
    assert Tensor.from_array(np.eye(2, dtype=bool)).total == 2
    assert Tensor.from_array(scipy.sparse.csr_array(np.eye(2, dtype=bool))).total == 2
    three = scipy.sparse.coo_array(np.ones((2, 2, 2), int))
    assert Tensor.from_array(three).shape == (2, 2, 2)
    with pytest.raises(ShapeError, match="at least two axes; got 0"):
        Tensor.from_array(np.array(3))
    with pytest.raises(DataError, match="no entry"):
        Tensor.from_array(np.zeros((2, 2), int))


def test_what_filters_take_away_is_all_reported():
    texts = pd.DataFrame({"text": ["spam", "", "spam eggs"], "who": ["a", "b", "c"]})
    tensor = Tensor.from_documents(texts, "text", ["who"], top={"word": 5})
    assert [str(record) for record in tensor.dropped] == [
        "no word left in the text: dropped 1 document",
        "without a cell: dropped 1 who label",
    ]
    frame = pd.DataFrame({"w": ["x", "x", "y"], "v": [1, 2, 3], "n": [5, 5, 1]})
    (record,) = Tensor.from_frame(frame, ["w", "v"], "n", top={"w": 1}).dropped
    assert record.labels == {"w": 1, "v": 1}
    with pytest.warns(DroppedWarning):
        zero = Tensor.from_frame(frame.assign(n=[5, 0, 1]), ["w", "v"], "n", top={"w": 10})
    assert [record.labels for record in zero.dropped] == [None, {"w": 0, "v": 1}]


def test_vectorisers_of_odd_kinds():
    texts = pd.DataFrame({"text": ["spam", "spam eggs"], "who": ["a", "b"]})

    def counted(vectorizer):
        return Tensor.from_documents(texts, "text", ["who"], vectorizer=vectorizer)

    with pytest.raises(CountError, match="what the vectorizer counts"):
        counted(TfidfVectorizer())
    with pytest.raises(ParameterError, match="fit_transform and get_feature_names_out"):
        counted("english")
    with pytest.raises(ParameterError, match="give them to your own"):
        Tensor.from_documents(texts, "text", ["who"], vectorizer=TfidfVectorizer(), min_df=2)
    with pytest.raises(ParameterError, match="`min_df` must be"):
        Tensor.from_documents(texts, "text", ["who"], min_df=1.5)
    with pytest.raises(ParameterError, match="`stop_words` must be"):
        Tensor.from_documents(texts, "text", ["who"], stop_words="german")


def test_zoned_labels_do_not_depend_on_the_zone_of_the_machine(tmp_path):
    times = pa.array([0, 1], pa.timestamp("us", tz="Asia/Tokyo"))
    pq.write_table(pa.table({"a": ["x", "y"], "t": times}), tmp_path / "x.parquet")
    code = (
        "import tallyfold as tf, sys;"
        "t = tf.read_counts(sys.argv[1], axes=['a', 't']); print(t.axis('t').labels.type)"
    )
    for zone in ("America/New_York", "UTC"):
        run = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "x.parquet")],
            env={"TZ": zone, "PATH": "", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout.strip() == "timestamp[us, tz=UTC]"
