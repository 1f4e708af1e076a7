"""Which back-end computes a kernel: the choice that all kernels share."""

import logging
import os
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from tallyfold.errors import BackendError, ParameterError
from tallyfold.kernels.device import device_in_use

BACKENDS = ("auto", "numba", "numpy", "torch")
MODULES = {"numba": "fused", "numpy": "reference", "torch": "on_device"}
"""The module of this package that has a back-end's kernels."""

_log = logging.getLogger("tallyfold")


def chosen_backend(backend: str, *, small: bool) -> str:
    """Return ``"numba"``, ``"numpy"`` or ``"torch"``.

    Parameters
    ----------
    backend
        The argument of a kernel. ``"auto"`` is torch on a device other than the CPU; on the CPU,
        NumPy for small problems and numba elsewhere.
    small
        Whether NumPy would finish sooner than numba takes to load or compile its kernels.
    """
    if backend not in BACKENDS:
        raise BackendError(f"`backend` must be one of {BACKENDS}; got {backend!r}.")
    if backend != "auto":
        return backend
    if device_in_use() != "cpu":
        return "torch"
    return "numpy" if small else "numba"


def kernels_of(backend: str, *, small: bool) -> Any:
    """Return the module that computes; the arguments are those of :func:`chosen_backend`."""
    chosen = chosen_backend(backend, small=small)
    if chosen == "numba":
        announce_compilation()
    return import_module(f"tallyfold.kernels.{MODULES[chosen]}")


def refuse_elsewhere(backend: str, device: str) -> None:
    """Refuse a back-end that cannot compute on a device."""
    if device != "cpu" and backend not in ("auto", "torch"):
        raise ParameterError(
            f"`backend` must be 'auto' or 'torch' with device={device!r}; got {backend!r}, which "
            "computes on the CPU only."
        )


@cache
def announce_compilation() -> None:
    """Log a warning if no compiled kernel is found on disk; at most once per process."""
    if not is_compiled():
        _log.warning(
            "compiling kernels for this machine: about 10 to 20 seconds, once. backend='numpy' "
            "needs no compilation."
        )


def is_compiled() -> bool:
    """Tell whether compiled kernels are on disk, where numba puts them."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    folder = Path(chosen) if chosen else Path(__file__).parent / "fused" / "__pycache__"
    return any(folder.rglob("*.nbi"))
