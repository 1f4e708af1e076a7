"""``tallyfold datasets``, run in this process as a person would type it."""

import gzip
import json
from pathlib import Path
from typing import NamedTuple

import pytest

import tallyfold as tf
from tallyfold import cli
from tallyfold.paper.datasets import DATASETS


class Result(NamedTuple):
    code: int
    out: str
    err: str


class Run:
    """Call it with arguments; it gives back the exit code and what was written."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: object) -> Result:
        with pytest.raises(SystemExit) as stopped:
            cli.main(["datasets", *(str(argument) for argument in arguments)])
        written = self.capsys.readouterr()
        code = stopped.value.code
        assert isinstance(code, int | None)
        return Result(code or 0, written.out, written.err)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    return Run(capsys)


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    file = tmp_path / "ratings_Amazon_Instant_Video.csv.gz"
    rows = "A1,B1,5.0,1389657600\nA1,B1,2.0,1389657700\nA2,B1,4.0,1391212800\n"
    file.write_bytes(gzip.compress(rows.encode()))
    return file


@pytest.fixture
def nips(tmp_path: Path) -> Path:
    folder = tmp_path / "nips"
    folder.mkdir()
    (folder / "authors.csv").write_text("id,name\n1,Zoë [red]\n2,Bob\n", encoding="utf-8")
    (folder / "paper_authors.csv").write_text("id,paper_id,author_id\n1,7,1\n2,8,2\n3,9,2\n")
    rows = '7,2004,"sparse\ncounts, sparse"\n8,2005,dense counts\n9,2006,Abstract Missing\n'
    (folder / "papers.csv").write_text("id,year,abstract\n" + rows)
    return folder


def test_the_list_fits_80_columns_and_names_all(run: Run) -> None:
    result = run()
    assert (result.code, result.err) == (0, "")
    assert max(len(line) for line in result.out.splitlines()) <= 80
    for name, dataset in DATASETS.items():
        (line,) = [line for line in result.out.splitlines() if line.startswith(f"{name} ")]
        assert " x ".join(dataset.axes) in line
        assert dataset.way in line


def test_the_list_as_json(run: Run) -> None:
    result = run("--json")
    listed = json.loads(result.out)
    assert list(listed) == list(DATASETS)
    assert listed["nips"]["paper"] == {"shape": [6427, 4377, 14], "nonzeros": 757366}
    assert listed["demo"]["paper"] is None
    assert listed["game"]["way"] == "not public"


@pytest.mark.parametrize("name", DATASETS)
def test_show(run: Run, name: str) -> None:
    result = run("show", name)
    assert (result.code, result.err) == (0, "")
    assert DATASETS[name].title in result.out
    text = " ".join(result.out.split())
    assert DATASETS[name].terms in text
    assert all(step in text for step in DATASETS[name].steps)
    assert json.loads(run("show", name, "--json").out)["terms"] == DATASETS[name].terms


def test_addresses_and_commands_are_not_cut(run: Run) -> None:
    lines = run("show", "dblp").out.splitlines()
    assert any(line.endswith("open-corpus/index.html)") for line in lines)
    assert f"2. {DATASETS['dblp'].steps[1]}" in lines


@pytest.mark.parametrize("arguments", [["--help"], ["show", "--help"], ["build", "--help"]])
def test_help_has_an_example(run: Run, arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.code == 0
    assert "Example" in result.out
    assert "tallyfold datasets" in result.out
    assert max(len(line) for line in result.out.splitlines()) <= 80


def test_build_writes_a_tensor_and_says_what_was_left_out(run: Run, nips: Path) -> None:
    target = nips.parent / "nips.parquet"
    result = run("build", "nips", nips, "--out", target)
    assert (result.code, result.err) == (0, "")
    assert "author x word x year: 2 x 3 x 2" in result.out
    assert "left out: without an abstract: dropped 1 document" in result.out
    assert "the paper's tensor: 6,427 x 4,377 x 14, 757,366 non-zeros" in result.out
    assert "wrote 4 cells" in result.out
    rows = tf.read_counts(target).to_frame().itertuples(index=False)
    assert {tuple(row) for row in rows} == {
        ("Bob", "counts", 2005, 1),
        ("Bob", "dense", 2005, 1),
        ("Zoë [red]", "counts", 2004, 1),
        ("Zoë [red]", "sparse", 2004, 2),
    }


def test_choices_reach_the_builder(run: Run, nips: Path) -> None:
    stop = nips / "stop.txt"
    stop.write_text("dense\n")
    target = nips.parent / "n.npz"
    for arguments, words in (
        (["--stop-words", stop], ["counts", "sparse"]),
        (["--max-words", "1"], ["counts"]),
        (["--max-words", "all", "--stop-words", "none"], ["counts", "dense", "sparse"]),
        (["--min-df", "2"], ["counts"]),
        (["--min-df", "0.9"], ["counts"]),
        (["--years", "2005-2005"], ["counts", "dense"]),
        (["--years", "all", "--top", "word=2"], ["counts", "sparse"]),
        (["--min-nonzeros", "word=2"], ["counts"]),
    ):
        result = run("build", "nips", nips, "--out", target, *arguments)
        assert (result.code, result.err) == (0, "")
        assert tf.read_counts(target).axis("word").labels.to_pylist() == words


def test_repeated_ratings_are_listed_not_warned_of_twice(run: Run, ratings: Path) -> None:
    target = ratings.parent / "r.parquet"
    result = run("build", "video-rating", ratings, "--out", target, "--unit", "month", "--json")
    assert (result.code, result.err) == (0, "")
    facts = json.loads(result.out)
    assert facts["written"] == str(target)
    assert facts["shape"] == [2, 1, 2]
    (line,) = facts["dropped"]
    assert "dropped 1 cell (total count 5)" in line


def test_build_without_files(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "s.npz"
    assert run("build", "simulated", "--out", target, "--seed", "3").code == 0
    assert tf.read_counts(target) == tf.simulate.paper(random_state=3).tensor


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "nisp"], "Did you mean 'nips'?"),
        (["build", "game", "--out", "x.parquet"], "'game' cannot be built"),
        (["build", "nips", "--out", "x.parquet"], "must be the folder of your download"),
        (["build", "nips", "nowhere", "--out", "x.parquet"], "no file or folder 'nowhere'"),
        (["build", "nips", ".", "--out", "x.docx"], "docx"),
        (["build", "nips", ".", "--out", "no/folder/x.npz"], "there is no folder"),
        (["build", "nips", ".", "--out", "/proc/x.npz"], "'/proc/x.npz' could not be written"),
        (["build", "nips", ".", "--out", "x.npz", "--years", "2004"], "--years wants two years"),
        (["build", "nips", ".", "--out", "x.npz", "--max-words", "x"], "--max-words wants a whole"),
        (["build", "nips", ".", "--out", "x.npz", "--min-df", "x"], "--min-df wants a number"),
        (["build", "nips", ".", "--out", "x.npz", "--stop-words", "x"], "there is no file 'x'"),
        (["build", "nips", ".", "--out", "x.npz", "--sample", "0.1"], "no option 'sample'"),
        (["build", "nips", ".", "--out", "x.npz", "--bad-lines", "no"], "`bad_lines` must be"),
    ],
)
def test_bad_input_is_code_2(
    run: Run, nips: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(nips)
    result = run(*arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert "Traceback" not in result.err
    assert not list(nips.glob("x.*"))


def test_a_bad_line_is_named_and_can_be_skipped(run: Run, ratings: Path) -> None:
    rows = gzip.decompress(ratings.read_bytes()) + b"A3,B1,many,1391212800\n"
    ratings.write_bytes(gzip.compress(rows))
    target = ratings.parent / "r.parquet"
    result = run("build", "video-rating", ratings, "--out", target)
    assert result.code == 2
    assert "line 4 of" in result.err
    assert "got 'many'" in result.err
    assert not target.exists()
    result = run("build", "video-rating", ratings, "--out", target, "--bad-lines", "skip")
    assert result.code == 0
    assert "left out: a line that cannot be used: dropped 1 document" in result.out
    assert tf.read_counts(target).nnz == 2
