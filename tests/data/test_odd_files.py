"""Files that are wide, endless, damaged, or no files at all."""

import gzip
import os
import subprocess
import sys

import pytest

import tallyfold as tf
from tallyfold.data.formats import table
from tallyfold.data.formats.files import read_rows
from tallyfold.data.formats.sql import connected
from tallyfold.data.temporaries import temporary_prefix
from tallyfold.errors import FormatError

AB = ["a", "b"]


def test_a_header_of_many_columns_is_looked_at_once(tmp_path, monkeypatch):
    """Work that grows with the square of the columns would compare names millions of times."""
    compared = [0]

    class Name(str):
        __hash__ = str.__hash__

        def __eq__(self, other):
            compared[0] += 1
            return str.__eq__(self, other)

    names = [Name(f"c{number}") for number in range(3000)]
    form = table.Delimited(",")
    monkeypatch.setattr(form, "_header", lambda file: tuple(names))
    with connected() as connection:
        source = form.source(connection, ["x.csv"], ["c1", "c2"])
    assert len(source.types) == 3000
    assert list(source.columns) == ["c1", "c2"]
    assert compared[0] < 30_000


def test_a_wide_file(tmp_path):
    names = [f"c{number}" for number in range(3000)]
    rows = "".join(",".join([sign] * 3000) + "\n" for sign in "xyx")
    (tmp_path / "x.csv").write_text(",".join(names) + "\n" + rows)
    assert tf.read_counts(tmp_path / "x.csv", ["c1", "c2999"]).total == 3
    (tmp_path / "x.csv").write_text(",".join([*names, "c7"]) + "\n" + rows)
    with pytest.raises(FormatError, match="must name each column once; it repeats 'c7'"):
        tf.read_counts(tmp_path / "x.csv", ["c1", "c2"])


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_a_first_line_without_an_end(ending, tmp_path, monkeypatch):
    monkeypatch.setattr(table, "LONGEST_HEADER", 10_000)
    data = b"a," * 10_000
    file = tmp_path / f"x{ending}"
    file.write_bytes(gzip.compress(data) if ending == ".csv.gz" else data)
    with pytest.raises(FormatError, match="must name the columns; it has no end within 10,000"):
        tf.read_counts(file, AB)
    file = tmp_path / "quoted.csv"
    file.write_bytes(b'"' + b"a\n" * 10_000)
    with pytest.raises(FormatError, match="no end within 10,000"):
        tf.read_counts(file, AB)


@pytest.mark.skipif(os.name != "posix", reason="there are no such files")
@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_what_can_be_read_only_once_is_refused(kind, tmp_path):
    file = tmp_path / "x.csv"
    os.symlink("/dev/zero", file) if kind == "device" else os.mkfifo(file)
    for read in (lambda: tf.read_counts(file, AB), lambda: list(read_rows(file, AB))):
        with pytest.raises(FormatError, match="is a pipe or a device.*Save it as a file first"):
            read()


@pytest.mark.parametrize("ending", [".csv.gz", ".jsonl.gz", ".tns.gz"])
def test_a_gzip_file_with_a_wrong_checksum_is_refused(ending, tmp_path):
    tensor = tf.simulate((6, 5), 1, density=0.5).tensor
    file = tmp_path / f"x{ending}"
    tf.write_counts(tensor, file)
    assert tf.read_counts(file) == tensor
    packed = bytearray(file.read_bytes())
    packed[-8] ^= 1
    (tmp_path / f"y{ending}").write_bytes(packed)
    with pytest.raises(FormatError, match=r"damaged|could not be read"):
        tf.read_counts(tmp_path / f"y{ending}", list(tensor.names))


def test_rows_of_a_gzip_file_with_a_wrong_checksum_are_refused(tmp_path):
    packed = bytearray(gzip.compress(b"a,b\nx,y\n"))
    packed[-8] ^= 1
    (tmp_path / "x.csv.gz").write_bytes(packed)
    with pytest.raises(FormatError, match="is damaged: CRC check failed"):
        list(read_rows(tmp_path / "x.csv.gz", AB))


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".csv.gz"])
def test_labels_of_megabytes_come_back(ending, tmp_path):
    labels = ["x" * 3_000_000, "short"]
    tensor = tf.CountTensor(
        [tf.Axis("a", labels), tf.Axis("b", ["u", "v"])], [[0, 0], [1, 1]], [1, 2]
    )
    tf.write_counts(tensor, tmp_path / f"x{ending}")
    assert tf.read_counts(tmp_path / f"x{ending}") == tensor


def test_folders_of_killed_processes_are_cleared(tmp_path, monkeypatch):
    code = "import sys, tempfile; from tallyfold.data.temporaries import temporary_prefix\n"
    code += "tempfile.mkdtemp(dir=sys.argv[1], prefix=temporary_prefix('tallyfold'))"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    (tmp_path / "tallyfold-mine").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with connected():
        inside = {path.name for path in tmp_path.iterdir()} - {"tallyfold-mine"}
        assert all(name.startswith(temporary_prefix("tallyfold")) for name in inside)
        assert len(inside) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["tallyfold-mine"]
