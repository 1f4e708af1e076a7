"""Prefetching: memory is requested before it is needed.

A cell's entities may be anywhere on their axes. Where the table is larger than the processor's
cache, every look-up would wait for memory, and the time per cell would grow with the tensor. The
cells to come are known, so their rows are requested some cells ahead. No result depends on it.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tallyfold.kernels.fused.jit import jit_inline

AHEAD = 8
"""How many cells ahead: enough for memory to answer, few enough not to be evicted before use."""
LINE = 8
"""Numbers of 8 bytes in a cache line."""
TO_READ, KEPT, DATA = 0, 3, 1
"""Arguments of LLVM's prefetch: to read, to be kept in the cache, data."""


def _ask_for(typing_context: Any, array: Any, index: Any) -> Any:
    """Request the cache line of one number of a one-dimensional array, without waiting for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        view = context.make_array(kind)(context, builder, arguments[0])
        at = cgutils.get_item_pointer(  # type: ignore[no-untyped-call]
            context, builder, kind, view, [arguments[1]], wraparound=False
        )
        address, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        asked = ir.FunctionType(ir.VoidType(), [address, number, number, number])
        function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module, asked, "llvm.prefetch.p0i8"
        )
        how = [number(word) for word in (TO_READ, KEPT, DATA)]
        builder.call(function, [builder.bitcast(at, address), *how])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


ask_for: Any = intrinsic(_ask_for)


@jit_inline
def prefetch_rows(table_RW, first_J, others_NJ, n):  # type: ignore[no-untyped-def]
    """Request the rows of the other axes that cell n + `AHEAD` will need."""
    if n + AHEAD < len(others_NJ):
        for j in range(len(first_J)):
            row_W = table_RW[first_J[j] + others_NJ[n + AHEAD, j]]
            for k in range(0, len(row_W), LINE):
                ask_for(row_W, k)


@jit_inline
def ask_for_weight(weight_N, order_N, n):  # type: ignore[no-untyped-def]
    """Request the weight of cell n + `AHEAD`; weights are in the original order."""
    if n + AHEAD < len(order_N):
        ask_for(weight_N, order_N[n + AHEAD])
