"""Products and sums over a row's components in vectors of a fixed width, written as such.

Left to itself the compiler guards a loop that both reads and writes by a test of addresses, takes
vectors of the machine's width, and finishes one by one: with some ten components, that takes longer
than the sums. Here a vector has `VECTOR` components on every machine, rows are padded to whole
vectors, and the order of a sum is that of the code: it depends on nothing else.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tallyfold.kernels.fused.visits import VECTOR

_FLAGS = ("contract",)
"""A product and a sum may become one instruction."""
_DOUBLE = ir.DoubleType()
_ROW = ir.VectorType(_DOUBLE, VECTOR)


class _Rows:
    """Rows of arguments as addresses; vectors are loaded from them and stored."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self.builder = builder
        self.views = [
            context.make_array(kind)(context, builder, value)
            if isinstance(kind, types.Array)
            else value
            for kind, value in zip(signature.args, arguments, strict=True)
        ]

    def _at(self, number: int, index: Any) -> Any:
        address = self.builder.gep(self.views[number].data, [index])
        return self.builder.bitcast(address, _ROW.as_pointer())

    def load(self, number: int, index: Any) -> Any:
        return self.builder.load(self._at(number, index), align=8)

    def store(self, vector: Any, number: int, index: Any) -> None:
        self.builder.store(vector, self._at(number, index), align=8)

    def steps(self, number: int) -> Any:
        """Return a loop over the beginnings of a row's vectors."""
        (size,) = cgutils.unpack_tuple(self.builder, self.views[number].shape, 1)  # type: ignore[no-untyped-call]
        return cgutils.for_range_slice(
            self.builder, size.type(0), size, size.type(VECTOR), inc=True
        )


def _multiply(typing_context: Any, own: Any, one: Any, two: Any, start: Any, product: Any) -> Any:
    """Write one * two from column `start` on; return its inner product with own."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows, first = _Rows(context, builder, signature, arguments), arguments[3]
        sums = cgutils.alloca_once_value(builder, ir.Constant(_ROW, [0.0] * VECTOR))  # type: ignore[no-untyped-call]
        with rows.steps(4) as (k, _):
            at = builder.add(first, k)
            vector = builder.fmul(rows.load(1, at), rows.load(2, at))
            rows.store(vector, 4, k)
            term = builder.fmul(rows.load(0, at), vector, flags=_FLAGS)
            builder.store(builder.fadd(builder.load(sums), term, flags=_FLAGS), sums)
        parts = [
            builder.extract_element(builder.load(sums), ir.IntType(32)(i)) for i in range(VECTOR)
        ]
        return builder.fadd(builder.fadd(parts[0], parts[2]), builder.fadd(parts[1], parts[3]))

    return types.float64(own, one, two, types.intp, product), generate


def _add_scaled(typing_context: Any, scale: Any, product: Any, start: Any, sums: Any) -> Any:
    """Add scale * product from column `start` on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = _Rows(context, builder, signature, arguments)
        some = ir.Constant(_ROW, ir.Undefined)
        for i in range(VECTOR):
            some = builder.insert_element(some, arguments[0], ir.IntType(32)(i))
        with rows.steps(1) as (k, _):
            at = builder.add(arguments[2], k)
            term = builder.fmul(some, rows.load(1, k), flags=_FLAGS)
            rows.store(builder.fadd(rows.load(3, at), term, flags=_FLAGS), 3, at)
        return context.get_dummy_value()

    return types.void(types.float64, product, types.intp, sums), generate


multiply: Any = intrinsic(_multiply)
add_scaled: Any = intrinsic(_add_scaled)
