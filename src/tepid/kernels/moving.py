"""Bytes moved as the system moves them, from within a kernel, where no lock of Python is held.

None of these looks at bounds: whoever calls them has.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_PLACE = _I8.as_pointer()


@intrinsic
def move(typing: Any, into: Any, to: Any, given: Any, at: Any, count: Any) -> Any:
    """Copy `count` bytes of `given` from `at` into `into` from `to`; the two must not overlap."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target, source = (
            builder.gep(_first(context, builder, signature.args[i], args[i]), [args[i + 1]])
            for i in (0, 2)
        )
        cgutils.raw_memcpy(builder, target, source, args[4], 1)
        return context.get_dummy_value()

    return types.void(into, types.int64, given, types.int64, types.int64), build


@intrinsic
def word(typing: Any, given: Any, at: Any) -> Any:
    """The eight bytes from `at` on as one number, the low ones first."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = builder.gep(_first(context, builder, signature.args[0], args[0]), [args[1]])
        return builder.load(builder.bitcast(place, _I64.as_pointer()), align=1)

    return types.int64(given, types.int64), build


@intrinsic
def read(typing: Any, descriptor: Any, into: Any, count: Any, at: Any) -> Any:
    """Read `count` bytes of a file from `at` on; how many came, or a negative number."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        form = ir.FunctionType(_I64, [_I32, _PLACE, _I64, _I64])
        pread = cgutils.get_or_insert_function(builder.module, form, "pread")
        place = _first(context, builder, signature.args[1], args[1])
        return builder.call(pread, [builder.trunc(args[0], _I32), place, args[2], args[3]])

    return types.int64(types.int64, into, types.int64, types.int64), build


def _first(context: Any, builder: Any, form: Any, array: Any) -> Any:
    """Where the first byte of an array is."""
    held = context.make_array(form)(context, builder, array)
    return builder.bitcast(held.data, _PLACE)
