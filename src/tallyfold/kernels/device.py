"""Where torch computes: the CPU, or a graphics card inside :func:`use_device`.

Only ``backend="torch"`` looks at the device. Arrays that never change, such as the cells of a fit,
are copied there once; the copy is freed with its array, or when the ``with`` block ends.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from tallyfold.errors import BackendError

DEVICES = "'cpu', 'cuda', or 'cuda:' and a number"


class _Device(NamedTuple):
    """A device, and the copies kept there, by the id of the array and the form of the copy."""

    device: str
    kept: dict[tuple[int, Any], Any]


_HOST = _Device("cpu", {})
_in_use: ContextVar[_Device] = ContextVar("tallyfold_device", default=_HOST)


def device_in_use() -> str:
    """Return the device that torch computes on in this context."""
    return _in_use.get().device


def kept_in_use() -> dict[tuple[int, Any], Any]:
    """Return the copies that are kept on the device in use."""
    return _in_use.get().kept


@contextmanager
def use_device(device: str) -> Iterator[None]:
    """Let torch compute on a device inside a ``with`` block; free the copies kept there after it.

    Examples
    --------
    >>> with use_device("cpu"):
    ...     device_in_use()
    'cpu'
    """
    chosen = _Device(checked_device(device), {})
    token = _in_use.set(chosen)
    try:
        yield
    except RuntimeError as error:
        if type(error).__name__ != "OutOfMemoryError":
            raise
        raise BackendError(
            f"device {device!r} ran out of memory: {str(error).splitlines()[0]} Use device='cpu', "
            "a card with more memory, fewer components, or a part of the cells."
        ) from error
    finally:
        _in_use.reset(token)
        chosen.kept.clear()


def is_device(value: Any) -> bool:
    """Tell whether a value is the name of a device, here or elsewhere."""
    return isinstance(value, str) and re.fullmatch(r"cpu|cuda(:\d+)?", value) is not None


def checked_device(device: str) -> str:
    """Return a device; refuse one that is unknown or not on this machine."""
    if not is_device(device):
        raise BackendError(f"`device` must be {DEVICES}; got {device!r}.")
    if device == "cpu":
        return device
    import torch

    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if int(device.partition(":")[2] or 0) >= there:
        found = f"{there} of them, numbered from 0" if there else "none"
        raise BackendError(
            f"`device` must be a CUDA device of this machine, on which torch finds {found}; got "
            f"{device!r}. Use device='cpu', or a torch that was built for this machine's CUDA."
        )
    return device
