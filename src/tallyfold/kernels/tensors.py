"""Arrays on the device in use: the only module that makes tensors of arrays.

Other files derive their tensors from these by methods, so that all are on the same device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from weakref import finalize

import numpy as np

from tallyfold.kernels.arrays import Array, Floats
from tallyfold.kernels.device import device_in_use, kept_in_use

if TYPE_CHECKING:
    import torch

CHUNK_NUMBERS = {"cpu": 1 << 17, "cuda": 1 << 22}
"""Cells times components of a chunk: as many as a CPU's cache holds, or as keep a card busy."""

P = ParamSpec("P")
T = TypeVar("T")


def floats(array: Array) -> torch.Tensor:
    """Return a copy in float64."""
    return _copied(array, "float64")


def int32_columns(array: Array) -> tuple[torch.Tensor, ...]:
    """Return copies of the columns in int32: positions to look up."""
    return tuple(_copied(column, "int32") for column in array.T)


def int64(array: Array) -> torch.Tensor:
    """Return a copy in int64: positions to add to, which torch is slow at in int32."""
    return _copied(array, "int64")


def kept(array: Array, form: Callable[[Array], T]) -> T:
    """Return an array's form on the device, made once for as long as the array lives.

    For arrays that never change. The key is the array's id, which Python may give to another array
    only after this one is freed; its entry is removed then.
    """
    there = kept_in_use()
    key = id(array), form
    if key not in there:
        made = form(array)
        finalize(array, there.pop, key, None).atexit = False
        there[key] = made
        return made
    return there[key]  # type: ignore[no-any-return]


def kept_if_fixed(array: Array, form: Callable[[Array], T]) -> T:
    """Return an array's form on the device, kept there if the array is read-only."""
    return form(array) if array.flags.writeable else kept(array, form)


def array_of(tensor: torch.Tensor) -> Floats:
    """Return what a tensor holds as an array."""
    return np.asarray(tensor.cpu().numpy(), dtype=np.float64)


def chunks(n_cells: int, n_components: int) -> Iterator[slice]:
    """Yield ranges of cells that are taken at a time."""
    return ranges(n_cells, CHUNK_NUMBERS[device_in_use().partition(":")[0]] // max(1, n_components))


def ranges(length: int, step: int) -> Iterator[slice]:
    """Yield ranges of `step` rows, or of one if the step is less."""
    step = max(1, step)
    return (slice(start, min(start + step, length)) for start in range(0, length, step))


def on_one_thread(kernel: Callable[P, T]) -> Callable[P, T]:
    """Let torch use one thread of the CPU: the bits of a sum depend on the number of threads."""

    @wraps(kernel)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with openmp().limit(limits=1):  # of this thread alone
            return kernel(*args, **kwargs)

    return run


@cache
def openmp() -> Any:
    """Return the control of torch's threads; kept, since making it takes longer than a kernel."""
    import torch  # noqa: F401  (loaded libraries only are found)
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController().select(user_api="openmp")


def _copied(array: Array, dtype: str) -> torch.Tensor:
    import torch

    whole = np.ascontiguousarray(array)
    return torch.tensor(whole, dtype=getattr(torch, dtype), device=device_in_use())
