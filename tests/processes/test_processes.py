"""Several real processes, started by torchrun, against one."""

import os
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.processes import fits, heavy, spread, stores

import tallyfold as tf
from tallyfold.cli import main
from tallyfold.inference.distributed.launched import processes_started
from tallyfold.inference.distributed.process_group import ALONE

ROOT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "TALLYFOLD_THREADS": "1"}
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
FITS_IN = {2: list(fits.FITS), 3: fits.QUICK}
"""Which fits so many processes share; three of them read stores, too."""
PATIENCE = 240
"""Seconds that a command may take before the test gives up."""


@pytest.fixture(scope="module")
def run_in(tmp_path_factory):
    """Give the folder in which so many processes have left what they did, started once."""

    @cache
    def run(number):
        """The scripts themselves check what all processes must agree on."""
        folder = tmp_path_factory.mktemp("together")
        for longest in stores.LONGEST if number == 3 else ():
            tf.write_store(stores.tensor(longest), folder / f"store-{longest}", shards=4)
        command = [*TORCHRUN, str(number), str(Path(__file__).with_name("together.py")), folder]
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = ENVIRONMENT | {"PYTHONPATH": path}
        done = subprocess.run(command, env=environment, timeout=PATIENCE, stderr=subprocess.PIPE)
        assert done.returncode == 0, done.stderr.decode()
        return folder

    return run


@pytest.mark.parametrize("number", FITS_IN)
def test_many_processes_leave_what_one_leaves(number, run_in):
    """Two of them are also given different things, which all refuse alike: see `quarrels`."""
    whole = fits.tensor()
    for name in FITS_IN[number]:
        found = np.load(run_in(number) / f"{name}-{number}.npz")
        alone = fits.numbers_of(fits.fitted(name, whole), whole)
        assert set(found) == set(alone)
        for key, value in alone.items():
            words = f"{name}: {key}"
            np.testing.assert_allclose(found[key], value, rtol=1e-4, atol=1e-9, err_msg=words)


@pytest.mark.parametrize("name", heavy.FITS)
def test_two_processes_decide_what_one_decides_on_a_heavy_tailed_log(name, run_in):
    """Searches make a million times as much of the last digit of a sum, unless it is rounded."""
    whole = heavy.tensor()
    found = np.load(run_in(2) / f"{name}-2.npz")
    alone = fits.numbers_of(heavy.fitted(name, whole), whole)
    assert set(found) == set(alone)
    for key, value in alone.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-10, err_msg=f"{name}: {key}")
    np.testing.assert_allclose(found["predicted"], alone["predicted"], rtol=1e-11)


def assert_same(file, alone):
    found = np.load(file)
    assert set(found) == set(alone)
    for key, value in alone.items():
        np.testing.assert_allclose(
            found[key], value, rtol=1e-11, atol=1e-14, err_msg=f"{file}: {key}"
        )


@pytest.mark.parametrize("number", FITS_IN)
def test_factors_that_live_with_their_cells_are_those_of_one_process(number, run_in):
    """Also of a run that one process began, or several that do not see each other's files."""
    folder, whole = run_in(number), fits.tensor()
    alone = {name: fits.numbers_of(spread.fitted(name, whole), whole) for name in spread.FITS}
    for name, numbers in alone.items():
        assert_same(folder / f"{name}-{number}.npz", numbers)
    others = [f"{how}-{number}" for how in ("from-1", "not-seen", "in-files")]
    others += ["mended"] * (number > 2)
    for name in others:
        assert_same(folder / f"{name}.npz", alone["spread bptf"])
    if number > 2:
        assert_same(folder / "torn-apart.npz", alone["spread bptf, all cells"])


@pytest.mark.parametrize("number", FITS_IN)
def test_one_process_goes_on_with_the_parts_of_several(number, run_in):
    whole, place = fits.tensor(), run_in(number) / f"stopped-{number}"
    assert len(spread.files(place)) == number
    resumed = fits.numbers_of(spread.resumed("spread bptf", whole, place), whole)
    alone = fits.numbers_of(spread.fitted("spread bptf", whole), whole)
    for key, value in alone.items():
        np.testing.assert_allclose(resumed[key], value, rtol=1e-11, err_msg=key)
    assert spread.files(place) == []


def test_processes_read_their_own_ranges_of_a_store_and_leave_what_one_leaves(run_in):
    for longest in stores.LONGEST:
        for name in stores.NAMES:
            found = np.load(run_in(3) / f"{name}-{longest}.npz")
            whole = stores.tensor(longest)
            alone = stores.numbers_of_fit(name, whole, whole)
            for key, value in alone.items():
                np.testing.assert_allclose(found[key], value, rtol=1e-6, atol=1e-9, err_msg=key)


@pytest.mark.parametrize(
    "left_over",
    [{"WORLD_SIZE": "2"}, {"RANK": "1"}, {"RANK": "1", "WORLD_SIZE": "x", "MASTER_ADDR": "here"}],
)
def test_words_left_in_the_environment_make_no_processes(left_over, monkeypatch):
    for name, word in left_over.items():
        monkeypatch.setenv(name, word)
    assert processes_started() == (0, 1)
    with tf.many_processes() as group:
        assert group is ALONE


# -- the command line -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    file = tmp_path_factory.mktemp("events") / "events.parquet"
    tf.simulate((60, 40, 10), 3, density=0.2, random_state=1).tensor.to_frame().to_parquet(file)
    return file


def fit_words(events, out, *more, iterations=30):
    return [
        *["fit", str(events)],
        *["--axes", "axis_0,axis_1,axis_2", "--value", "count", "--model", "bptf"],
        *["--components", "3", "--max-iter", str(iterations), "--set", "tol=0"],
        *["--set", "validation=none", "--out", str(out), *more],
    ]


def fit_command(events, out, *more, iterations=30):
    words = fit_words(events, out, *more, iterations=iterations)
    return [sys.executable, "-m", "tallyfold", *words]


def fit_here(events, out, *more, iterations=30):
    """Fit in this process."""
    with pytest.raises(SystemExit) as stopped:
        main(fit_words(events, out, *more, iterations=iterations))
    assert not stopped.value.code


def ran(command):
    return subprocess.run(
        command, env=ENVIRONMENT, timeout=PATIENCE, capture_output=True, text=True
    )


def started(command):
    """Start a command that Ctrl-C reaches, in a process group of its own."""
    return subprocess.Popen(
        command,
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def workers(out):
    """Return the processes that write to a folder by rank."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().split(b"\0")
            given = dict(
                w.split(b"=", 1) for w in (place / "environ").read_bytes().split(b"\0") if w
            )
        except (OSError, ValueError):
            continue
        if str(out).encode() in words and b"RANK" in given:
            found[int(given[b"RANK"])] = int(place.name)
    return found


def wait_for_checkpoint(out, process):
    for _ in range(PATIENCE * 20):
        if list(Path(out).rglob("checkpoint/*/model.json")) and len(workers(out)) > 1:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("no checkpoint was written")


def test_the_command_line_starts_processes_and_one_of_them_writes(events, tmp_path):
    said = ran(fit_command(events, tmp_path / "two", "--holdout", "0.2", "--processes", "2"))
    assert said.returncode == 0, said.stderr
    assert said.stdout.count("wrote") == 1
    assert said.stderr.count("if not so, --zeros missing") == 1
    assert "main effects" in said.stdout
    fit_here(events, tmp_path / "one", "--holdout", "0.2")
    one, two = (tf.load(tmp_path / name) for name in ("one", "two"))
    assert one.axes_ == two.axes_
    for axis in one.posterior_.names:
        np.testing.assert_allclose(two.posterior_.mean(axis), one.posterior_.mean(axis), rtol=1e-4)


def test_the_command_line_shares_a_store(events, tmp_path):
    """One process gives the bits of the plain file, two the same model; the second reads a half."""
    place, names = tmp_path / "store", ["axis_0", "axis_1", "axis_2"]
    tf.write_store(events, place, names, "count", shards=4)
    more = ["--model", "bptf", "--components", "3", "--max-iter", "20"]  # zeros: by the counts
    fit_here(events, tmp_path / "plain", *more, iterations=20)
    words = ["fit", str(place), *more, "--set", "tol=0", "--set", "validation=none"]
    with pytest.raises(SystemExit):
        main([*words, "--out", str(tmp_path / "one")])
    command = [sys.executable, "-m", "tallyfold", *words, "--out", str(tmp_path / "two")]
    said = ran([*command, "--processes", "2"])
    assert said.returncode == 0, said.stderr
    assert said.stdout.count("wrote") == 1
    plain, one, two = (tf.load(tmp_path / name) for name in ("plain", "one", "two"))
    arrays = plain.fitted_.arrays()
    assert all(array.tobytes() == one.fitted_.arrays()[n].tobytes() for n, array in arrays.items())
    assert two.axes_ == one.axes_
    assert two.fitted_.parameters["zeros"] == "observed"
    for axis in one.posterior_.names:
        np.testing.assert_allclose(two.posterior_.mean(axis), one.posterior_.mean(axis), rtol=1e-8)
    again = ran([*command, "--processes", "2", "--resume"])
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("this fit is finished") == 1
    (place / "part-00003.parquet").write_bytes(b"x" * 10)
    broken = ran([*command, "--processes", "2", "--overwrite"])
    assert broken.returncode == 2
    assert broken.stderr.count("part-00003.parquet' is not the file that was written") == 1


def test_bad_input_is_said_once_and_ends_with_code_2(events, tmp_path):
    more = ["--processes", "2", "--model", "ptf-kl", "--zeros", "missing"]
    said = ran(fit_command(events, tmp_path / "bad", *more))
    assert said.returncode == 2
    assert said.stderr.count("tallyfold:") == 1
    assert "one process only" in said.stderr
    assert "Traceback" not in said.stderr


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes by /proc")
def test_a_process_that_dies_stops_the_others_and_the_run_goes_on_in_another_number(
    events, tmp_path
):
    iterations = 200
    process = started(
        fit_command(events, tmp_path / "died", "--processes", "2", iterations=iterations)
    )
    wait_for_checkpoint(tmp_path / "died", process)
    os.kill(workers(tmp_path / "died")[1], signal.SIGKILL)
    killed = time.monotonic()
    _, said = process.communicate(timeout=PATIENCE)
    assert time.monotonic() - killed < 60
    assert process.returncode == 2
    assert "lost the others" in said
    assert "process 2 of 2 was killed (signal 9)" in said
    assert "Traceback" not in said
    assert not workers(tmp_path / "died")

    fit_here(events, tmp_path / "died", "--resume", iterations=iterations)
    fit_here(events, tmp_path / "whole", iterations=iterations)
    one, two = (tf.load(tmp_path / name) for name in ("whole", "died"))
    assert len(two.history_) == iterations
    np.testing.assert_allclose(two.history_["objective"], one.history_["objective"], rtol=1e-8)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes by /proc")
def test_ctrl_c_ends_all_processes_with_the_same_iteration(events, tmp_path):
    out = tmp_path / "stopped"
    process = started(fit_command(events, out, "--processes", "2", iterations=100_000))
    wait_for_checkpoint(out, process)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, said
    assert said.count("the fit was interrupted") == 1
    assert tf.load(out).fitted_.reason == "interrupted"
