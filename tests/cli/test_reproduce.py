"""`tallyfold reproduce` from outside."""

import subprocess
import sys

import pytest

import tallyfold as tf


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "tallyfold", "reproduce", *map(str, arguments)],
        capture_output=True,
        text=True,
        **options,
    )


def test_the_list_names_every_experiment():
    from tallyfold.paper.experiments import EXPERIMENTS

    listed = run("--list")
    assert listed.returncode == 0
    assert all(name in listed.stdout for name in EXPERIMENTS)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["mea"], "one of synthetic-rank"),
        (["mae", "--data", "nowhere"], "folder"),
        (["mae", "--tensors", "nips"], "--tensors"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, text, tmp_path):
    failed = run(*arguments, cwd=tmp_path)
    assert failed.returncode == 2
    assert text in failed.stderr
    assert "Traceback" not in failed.stderr
    assert not list(tmp_path.iterdir())


def test_a_run_of_ones_own_data_goes_on_where_it_stopped(tmp_path):
    folder = tmp_path / "tensors"
    folder.mkdir()
    tensor = tf.simulate((15, 12, 4), 2, density=0.3, axes=("a", "b", "c")).tensor
    tf.write_counts(tensor, folder / "mine.parquet")
    arguments = ["ablation", "--quick", "--data", folder, "--out", tmp_path / "out"]
    first = run(*arguments)
    assert first.returncode == 0, first.stderr
    assert "without reweighting" in first.stdout
    assert "[1/4]" in first.stdout
    again = run(*arguments)
    assert "[1/4]" not in again.stdout  # the fits are there already
    page = (tmp_path / "out" / "ablation.md").read_text()
    assert "`tallyfold reproduce ablation --quick --data FOLDER`" in page
    assert str(tmp_path) not in page
