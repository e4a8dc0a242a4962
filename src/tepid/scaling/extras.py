"""SciPy and scikit-learn, which fitting needs and applying does not."""

from typing import Any

from tepid.errors import InputError

_MISSING = (
    "SciPy and scikit-learn must be there to fit (pip install 'tepid[scaling]'), got one or neither"
)


def minimize() -> Any:
    """`scipy.optimize.minimize`."""
    try:
        from scipy.optimize import minimize as found  # noqa: PLC0415  # optional
    except ImportError:
        raise InputError(_MISSING) from None
    return found


def gammaln() -> Any:
    """`scipy.special.gammaln`."""
    try:
        from scipy.special import gammaln as found  # noqa: PLC0415  # optional
    except ImportError:
        raise InputError(_MISSING) from None
    return found


def isotonic_regression() -> Any:
    """`sklearn.isotonic.IsotonicRegression`."""
    try:
        from sklearn.isotonic import IsotonicRegression as found  # noqa: PLC0415, N813  # optional
    except ImportError:
        raise InputError(_MISSING) from None
    return found
