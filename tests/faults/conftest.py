"""The command line in this process, as the tests of the command line have it; a tensor; a model."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import run  # noqa: F401

import tallyfold as tf


@pytest.fixture(scope="session")
def tensor() -> tf.CountTensor:
    return tf.simulate((60, 50, 10), 2, density=0.1, random_state=0).tensor


@pytest.fixture(scope="session")
def model(tensor) -> tf.BPTF:
    return tf.BPTF(n_components=8, max_iter=3, backend="numpy").fit(tensor)


@pytest.fixture
def nowhere(tmp_path) -> Iterator[Path]:
    """Give a folder that nobody may write to: root is held back by no mode, but by /proc."""
    if os.geteuid() == 0:
        yield Path("/proc")
        return
    folder = tmp_path / "read-only"
    folder.mkdir(mode=0o500)
    yield folder
    folder.chmod(0o700)
