"""Killed with SIGKILL at any moment: no torn file is loaded, and what is begun can be ended."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tallyfold as tf

pytestmark = pytest.mark.skipif(os.name != "posix", reason="works by fork and SIGKILL")

ROOT = Path(__file__).parents[2]
FEW = "ignore:the fit ended at its limit"
"""The warning of fits with few iterations."""
ONE_THREAD = {"TALLYFOLD_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
PATH = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
ENVIRONMENT = os.environ | ONE_THREAD | {"PYTHONPATH": PATH}
SILENT = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@pytest.mark.parametrize(
    ("work", "least"), [("save", 10), ("counts", 5), ("fit", 3), ("tune", 1), ("reproduce", 1)]
)
def test_work_that_is_killed_again_and_again_comes_to_the_same_end(work, least, tmp_path):
    """`killed_work` says what must hold; here it is only seen that there were kills enough."""
    program = Path(__file__).with_name("killed_work.py")
    command = [sys.executable, "-W", "error", "-W", FEW, str(program), work, str(tmp_path), "0"]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= least


def test_the_fit_verb_killed_from_outside_goes_on(tmp_path):
    file, out, whole = tmp_path / "x.npz", tmp_path / "m", tmp_path / "w"
    tf.write_counts(tf.simulate((30, 20, 10), 2, density=0.2, random_state=0).tensor, file)
    command = [sys.executable, "-m", "tallyfold", "fit", str(file), "--model", "bptf", "-k", "3"]
    command += ["--max-iter", "200", "--set", "tol=0", "--set", "backend=numpy", "--resume"]
    start = time.monotonic()
    subprocess.run([*command, "--out", whole], check=True, capture_output=True, env=ENVIRONMENT)
    lasts = time.monotonic() - start
    for share in np.random.default_rng(0).uniform(0.3, 1.0, 2):
        with subprocess.Popen([*command, "--out", out], env=ENVIRONMENT, **SILENT) as process:
            time.sleep(share * lasts)
            process.kill()
    last = subprocess.run([*command, "--out", out], capture_output=True, text=True, env=ENVIRONMENT)
    assert last.returncode == 0, last.stderr
    left, right = (tf.load(place).fitted_.arrays() for place in (whole, out))
    assert all(left[name].tobytes() == right[name].tobytes() for name in left)
    assert not (out / "checkpoint").exists()
