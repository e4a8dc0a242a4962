"""exp and log1p as polynomials that LLVM turns into vector code.

Numba widens integers to 64 bits, which would halve the vector width, so the exponent bits go
through intrinsics that stay at 32. None of these may be compiled with `nnan` or `ninf`: a masked
class arrives as `-inf`.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

f32 = np.float32

# Sums may be reordered into vector lanes; NaN and infinity keep their meaning.
LANES = {"reassoc", "contract", "nsz", "arcp"}


# A step inside a kernel: never called from Python, so no wrapper is compiled for it. Division
# follows IEEE: a branch for a zero divisor would keep a loop from becoming vector code.
step = njit(
    nogil=True,
    fastmath=LANES,
    error_model="numpy",
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
)


# LLVM may inline it into a step but not reorder its sums: each polynomial depends on their order.
# (numba's own inlining would give it the flags of the step.)
exact = njit(
    nogil=True,
    fastmath={"contract", "nsz"},
    error_model="numpy",
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
)


def kernel(function: Any) -> Any:
    """Compile a whole kernel, called with the arrays of one batch; cached where that works."""
    try:
        return njit(nogil=True, cache=True, error_model="numpy")(function)
    except RuntimeError:  # no folder for the cache can be written
        return njit(nogil=True, error_model="numpy")(function)


_I32, _F32, _F64, _I64 = ir.IntType(32), ir.FloatType(), ir.DoubleType(), ir.IntType(64)


@intrinsic
def _nearest32(typing: Any, x: Any) -> Any:
    """The integer nearest to a float32, as a float32."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.call(builder.module.declare_intrinsic("llvm.rint", [_F32]), args)

    return types.float32(types.float32), build


@intrinsic
def maximum(typing: Any, a: Any, b: Any) -> Any:
    """The larger of two floats, NaN if either is: a maximum that vectorises and loses no NaN."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        form = ir.FunctionType(args[0].type, [args[0].type, args[1].type])
        name = builder.module.declare_intrinsic("llvm.maximum", [args[0].type], form)
        return builder.call(name, args)

    return a(a, b), build


@intrinsic
def _nearest64(typing: Any, x: Any) -> Any:
    """The integer nearest to a float64, as a float64."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.call(builder.module.declare_intrinsic("llvm.rint", [_F64]), args)

    return types.float64(types.float64), build


@intrinsic
def _power32(typing: Any, n: Any) -> Any:
    """2**n for an integral float32 in [-126, 127]."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        whole = builder.fptosi(args[0], _I32)
        biased = builder.add(whole, ir.Constant(_I32, 127))
        return builder.bitcast(builder.shl(biased, ir.Constant(_I32, 23)), _F32)

    return types.float32(types.float32), build


@intrinsic
def _power64(typing: Any, n: Any) -> Any:
    """2**n for an integral float64 in [-1022, 1023]."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        whole = builder.sext(builder.fptosi(args[0], _I32), _I64)
        biased = builder.add(whole, ir.Constant(_I64, 1023))
        return builder.bitcast(builder.shl(biased, ir.Constant(_I64, 52)), _F64)

    return types.float64(types.float64), build


@intrinsic
def _exponent32(typing: Any, x: Any) -> Any:
    """Floor of log2 of a positive normal float32, as a float32."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.lshr(builder.bitcast(args[0], _I32), ir.Constant(_I32, 23))
        return builder.sitofp(builder.sub(bits, ir.Constant(_I32, 127)), _F32)

    return types.float32(types.float32), build


_ZERO, _ONE, _FLOOR = f32(0.0), f32(1.0), f32(-87.0)
_LOG2_E, _LN2_HIGH, _LN2_LOW = f32(1.4426950408889634), f32(0.693359375), f32(-2.12194440e-4)
# Cephes' minimax polynomial for exp on [-ln2/2, ln2/2].
_E6, _E5, _E4 = f32(1.9875691500e-4), f32(1.3981999507e-3), f32(8.3334519073e-3)
_E3, _E2, _E1 = f32(4.1665795894e-2), f32(1.6666665459e-1), f32(5.0000001201e-1)


@exact
def exp32(x: Any) -> Any:
    """exp(x) for x <= 0 within 1e-7; zero below -87, `-inf` included."""
    y = max(x, _FLOOR)
    n = _nearest32(y * _LOG2_E)
    r = y - n * _LN2_HIGH
    r = r - n * _LN2_LOW
    p = _E6
    p = p * r + _E5
    p = p * r + _E4
    p = p * r + _E3
    p = p * r + _E2
    p = p * r + _E1
    p = p * (r * r) + r + _ONE
    return p * _power32(n) if x > _FLOOR else _ZERO


_SQRT2, _HALF = f32(1.4142135623730951), f32(0.5)
# log(1+f) = 2 atanh(f/(2+f)); the odd series in s = f/(2+f), |s| <= 0.172.
_A3, _A5, _A7, _A9 = f32(0.66666667), f32(0.4), f32(0.28571430), f32(0.22222222)


@exact
def log1p32(x: Any) -> Any:
    """log(1+x) for 0 <= x < 1e30 within 3e-7 relative, also where 1+x rounds to 1."""
    u = _ONE + x
    n = _exponent32(u)
    m = u * _power32(-n)
    high = m > _SQRT2
    m = m * _HALF if high else m
    n = n + _ONE if high else n
    f = m - _ONE
    s = f / (f + f32(2.0))
    q = s * s
    odd = s * (f32(2.0) + q * (_A3 + q * (_A5 + q * (_A7 + q * _A9))))
    lost = (x - (u - _ONE)) / u
    return n * _LN2_HIGH + (n * _LN2_LOW + (odd + lost))


_FLOOR64 = -708.0
_LN2_HIGH64, _LN2_LOW64 = 0.6931471803691238, 1.9082149292705877e-10


@exact
def exp64(x: Any) -> Any:
    """exp(x) for x <= 0 within 3e-16; zero below -708, `-inf` included."""
    y = max(x, _FLOOR64)
    n = _nearest64(y * 1.4426950408889634)
    r = y - n * _LN2_HIGH64
    r = r - n * _LN2_LOW64
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * (r * r) + r + 1.0
    return p * _power64(n) if x > _FLOOR64 else 0.0
