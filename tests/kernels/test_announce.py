"""Compiling is said once, and only where nothing compiled is found."""

import logging

from tallyfold.kernels import backends


def test_compiling_is_announced_once(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    backends.announce_compilation.cache_clear()
    with caplog.at_level(logging.WARNING, "tallyfold"):
        backends.announce_compilation()
        backends.announce_compilation()
    assert [record.message for record in caplog.records] == [
        "compiling kernels for this machine: about 10 to 20 seconds, once. backend='numpy' needs "
        "no compilation."
    ]


def test_compiled_kernels_are_found(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert not backends.is_compiled()
    (tmp_path / "module").mkdir()
    (tmp_path / "module" / "kernel.nbi").touch()
    assert backends.is_compiled()
