"""The decorators that compile kernels.

Compiled code is cached on disk. Numba checks the age of a kernel's own file only: after an edit of
a function that kernels in other files call, clear the cache (``__pycache__/*.nb?``).
"""

from collections.abc import Callable
from typing import Any

from numba import njit

_SUMS = {"contract", "reassoc", "nsz"}


def _compiler(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator: no GIL, no division checks, cached on disk if a folder is writable."""

    def compiled(function: Callable[..., Any]) -> Any:
        try:
            return njit(nogil=True, error_model="numpy", cache=True, **options)(function)
        except RuntimeError:  # no folder that numba may write to
            return njit(nogil=True, error_model="numpy", **options)(function)

    return compiled


jit = _compiler(fastmath=False)
"""IEEE arithmetic in the order written; stated, since an option not given is the caller's."""

jit_in_order = _compiler(fastmath={"contract"})
"""As `jit`, but a product and a sum may become one instruction."""

jit_sums = _compiler(fastmath=_SUMS)
"""A sum over components may be reordered into vectors; NaN and infinity keep their meaning."""

jit_inline = _compiler(fastmath=_SUMS, inline="always")
"""As `jit_sums`, for the few lines of an inner loop: a call there costs more than the work."""
