"""Kinds of work to kill, each with what must hold after every kill and in the end.

Run as a program: the name of the work, an empty folder, and a seed. It prints how often the work
was killed before it was done; anything that does not hold is a traceback and an exit code.
"""

import contextlib
import io
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from tests.faults.messages import assert_clear
from tests.faults.mortal import in_fork, kill_at_random, seconds_of

import tallyfold as tf
from tallyfold.cli import main
from tallyfold.errors import FormatError

warnings.filterwarnings("ignore", r"\d+ of \d+ fits ended at their limit")
TENSOR = tf.simulate((30, 20, 10), 2, density=0.2, random_state=0).tensor
FITS = {
    "bptf": tf.BPTF(n_components=2, max_iter=25, tol=0, backend="numpy"),
    "bptf-gibbs": tf.GibbsBPTF(n_components=2, burn_in=10, n_draws=10, thin=1, backend="numpy"),
    "vae-bptf": tf.VAEBPTF(
        zeros="missing", n_components=2, max_iter=8, n_members=2, backend="numpy"
    ),
}


def save(folder: Path, seed: int) -> int:
    """Save two models to one folder by turns: one of them is there, whole, or none yet."""
    models = [tf.BPTF(n_components=k, max_iter=2, backend="numpy").fit(TENSOR) for k in (2, 20)]
    said = [model.predict(TENSOR) for model in models]

    def again_and_again() -> None:
        while True:
            for model in models:
                model.save(folder / "m")

    def check() -> None:
        if (folder / "m" / "model.json").exists():
            found = tf.load(folder / "m").predict(TENSOR)
            assert any(np.array_equal(found, known) for known in said)
            assert not list((folder / "m").glob(".writing-*"))  # cleared by loading

    return kill_at_random(again_and_again, check, 0.1, 12, seed)


def counts(folder: Path, seed: int) -> int:
    """Write two tensors to the same files by turns: one is there, or the file says what it is."""
    tensors = [TENSOR, tf.simulate((40, 30), 2, density=0.5, random_state=1).tensor]
    files = [folder / f"x{ending}" for ending in (".npz", ".parquet", ".csv", ".jsonl.gz", ".tns")]

    def again_and_again() -> None:
        while True:
            for tensor in tensors:
                for file in files:
                    tf.write_counts(tensor, file)

    def check() -> None:
        for file in filter(Path.exists, files):
            try:
                assert tf.read_counts(file) in tensors
            except FormatError as error:  # killed between the file and its axes
                assert_clear(error, "holds the axes of another file")

    return kill_at_random(again_and_again, check, 0.2, 6, seed)


def fit(folder: Path, seed: int) -> int:
    """Fit with a checkpoint after every iteration; in the end the factors are the same bits."""
    return sum(_killed_fit(name, folder / name, seed) for name in FITS)


def _killed_fit(name: str, folder: Path, seed: int) -> int:
    model = FITS[name]

    def resumed() -> tf.BPTF:
        fresh = type(model)(**model.get_params())
        return fresh.fit(TENSOR, checkpoint=folder / "run", every=1, resume=True)

    def check() -> None:
        whole = type(model)(**model.get_params()).fit(TENSOR)
        found = resumed()
        left, right = (each.fitted_.arrays() for each in (whole, found))
        assert left.keys() == right.keys()
        assert all(left[key].tobytes() == right[key].tobytes() for key in left)
        assert len(whole.history_) == len(found.history_)

    whole = seconds_of(
        lambda: type(model)(**model.get_params()).fit(TENSOR, checkpoint=folder / "w", every=1)
    )
    killed = kill_at_random(resumed, lambda: None, whole / 2, 5, seed)
    in_fork(check)
    return killed


def tune(folder: Path, seed: int) -> int:
    """Search a grid; in the end every point was tried once, with the scores of a whole search."""
    import alembic.command  # noqa: F401  before the forks, which would all do it again
    import optuna.storages._rdb.storage  # noqa: F401

    space = {"n_components": [1, 2], "prior_shape": [0.3, 1.0]}

    def search(file: str = "s.db") -> pd.DataFrame:
        model = tf.BPTF(max_iter=10, backend="numpy")
        found = tf.tune(model, TENSOR, space, 2, storage=folder / file, pruner=None)
        trials = found.trials.drop(columns=["number", "seconds"])  # one tried again comes later
        return trials.sort_values(list(space), ignore_index=True)

    def check() -> None:
        found, whole = search(), search("whole.db")
        assert found["state"].tolist() == ["complete"] * 4
        pd.testing.assert_frame_equal(found, whole)

    whole = seconds_of(lambda: search("whole.db"))
    killed = kill_at_random(search, lambda: None, whole / 2, 3, seed)
    in_fork(check)
    return killed


def reproduce(folder: Path, seed: int) -> int:
    """Reproduce an experiment; in the end its table is that of a run that was let be."""
    import tallyfold.paper.page  # noqa: F401  before the forks
    from tallyfold.paper import held_out

    held_out.variants = lambda dataset: {  # models that take no minutes
        f"m{number}": tf.BPTF(n_components=2, max_iter=10, prior_shape=number, backend="numpy")
        for number in range(1, 9)
    }
    (folder / "tensors").mkdir()

    def run(out: str = "out") -> None:
        arguments = ["--quick", "--no-figures", "--data", str(folder / "tensors")]
        with contextlib.redirect_stdout(io.StringIO()):
            main(["reproduce", "ablation", *arguments, "--out", str(folder / out)])

    def check() -> None:
        files = [sorted((folder / out).glob("*.csv")) for out in ("out", "whole")]
        assert [file.name for file in files[0]] == [file.name for file in files[1]]
        for mine, whole in zip(*files, strict=True):
            assert mine.read_bytes() == whole.read_bytes()

    in_fork(lambda: tf.write_counts(TENSOR, folder / "tensors" / "mine.parquet"))
    whole = seconds_of(lambda: run("whole"))
    killed = kill_at_random(run, lambda: None, whole / 2, 3, seed)
    in_fork(run)
    in_fork(check)
    return killed


if __name__ == "__main__":
    work = {"save": save, "counts": counts, "fit": fit, "tune": tune, "reproduce": reproduce}
    sys.stdout.write(f"{work[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))}\n")
