"""Two machines with a slow cable between them, one of which is lost: see `machines`."""

import json
import time
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from tests.processes import machine_fit, machines

import tallyfold as tf

FIT = machines.ROOT / "tests" / "processes" / "machine_fit.py"
MEGABITS = 10
PATIENCE = 120
lacking = cache(machines.lacking)


def tensor():
    rng = np.random.default_rng(0)
    keys = np.unique(rng.integers(0, np.prod(machine_fit.SHAPE), 60_000))
    indices = np.stack(np.unravel_index(keys, machine_fit.SHAPE), axis=1).astype(np.int32)
    sizes = enumerate(machine_fit.SHAPE)
    axes = [tf.Axis(f"axis_{m}", pa.array(10 * np.arange(n) + m)) for m, n in sizes]
    counts = 1 + rng.poisson(0.5, len(keys))
    return tf.CountTensor.of_canonical(axes, np.asfortranarray(indices), counts)


def notes(folder, name):
    file = folder / name
    lines = file.read_text().splitlines() if file.exists() else []
    return np.array([json.loads(line) for line in lines])


def test_machines_share_a_fit_over_a_slow_cable_and_one_goes_on_alone(tmp_path):
    """Bytes and seconds of an iteration are what docs/scale.md computes from the axes."""
    if lacking():
        pytest.skip(lacking())
    whole = tensor()
    tf.write_store(whole, tmp_path / "store", shards=4)
    with machines.network() as names:
        machines.slow_down(names, f"{MEGABITS}mbit")
        both = [machines.node(names, number, FIT, tmp_path) for number in range(2)]
        end = time.monotonic() + PATIENCE
        while any(len(notes(tmp_path, f"{rank}-2.jsonl")) < 8 for rank in range(2)):
            assert time.monotonic() < end
            assert both[0].poll() is None, both[0].communicate()
            time.sleep(0.1)
        machines.pull_the_plug(names[1])
        _, said = both[0].communicate(timeout=PATIENCE)
        both[1].communicate()
        assert both[0].returncode != 0
        assert "lost the others" in said
        alone = machines.node(names, 0, FIT, tmp_path, "resume", nodes=1)
        _, said = alone.communicate(timeout=PATIENCE)
        assert alone.returncode == 0, said

    # times 2 (P - 1) / P, which is one; factors of the longest axis stay where they are
    wanted = 16 * machine_fit.COMPONENTS * sum(machine_fit.SHAPE[1:])
    for rank in range(2):
        rows = notes(tmp_path, f"{rank}-2.jsonl")
        sent, seconds = np.median(np.diff(rows[1:8, 1:3], axis=0), axis=0)
        assert wanted < sent < 1.1 * wanted
        assert seconds > 0.9 * 8 * wanted / (MEGABITS * 1e6)
        assert abs(rows[0, 3] - whole.nnz / 2) < 0.02 * whole.nnz  # read a half of the store
    assert len(notes(tmp_path, "0-1.jsonl")) < machine_fit.MODEL.max_iter - 6
    objective = tf.load(tmp_path / "model").history_["objective"]
    uninterrupted = tf.BPTF(**machine_fit.MODEL.get_params()).fit(whole).history_["objective"]
    np.testing.assert_allclose(objective, uninterrupted, rtol=1e-9)
