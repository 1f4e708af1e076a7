"""The ways kernels are compiled.

Compiled code is kept on disk. Numba checks the age of a kernel's own file only: whoever edits a
function that kernels in other files call must clear the cache (``__pycache__/*.nb?``).
"""

from collections.abc import Callable
from typing import Any

from numba import njit

_SUMS = {"contract", "reassoc", "nsz"}


def _compiler(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator: no GIL, no division checks, kept on disk where there is a place."""

    def compiled(function: Callable[..., Any]) -> Any:
        try:
            return njit(nogil=True, error_model="numpy", cache=True, **options)(function)
        except RuntimeError:  # no folder that numba may write to
            return njit(nogil=True, error_model="numpy", **options)(function)

    return compiled


jit = _compiler(fastmath=False)
"""IEEE arithmetic in the order written. Said outright: what is left out is taken from a caller."""

jit_in_order = _compiler(fastmath={"contract"})
"""As `jit`, but a product and a sum may become one instruction."""

jit_sums = _compiler(fastmath=_SUMS)
"""A sum over components may be taken in vectors; NaN and infinity stay honest."""

jit_inline = _compiler(fastmath=_SUMS, inline="always")
"""As `jit_sums`, for the few lines of an inner loop: a call there costs more than the work."""
