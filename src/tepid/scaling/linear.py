"""Vector scaling, matrix scaling and Dirichlet calibration: affine maps fitted to the NLL.

All three are convex and minimized by SciPy's L-BFGS-B, starting from temperature scaling.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tepid import store
from tepid.errors import InputError
from tepid.methods import temperature_scaling
from tepid.scaling.calibrator import calibrate, check_counts
from tepid.scaling.linear_fit import (
    INTERCEPTS,
    OFF_DIAGONAL,
    Problem,
    Strength,
    choose_strength,
    descend,
    folds_of,
    one_slope,
)
from tepid.scaling.rows import Rows, data_warnings, labeled, log_softmax, softmax, unmasked
from tepid.validation import Float64, number

Features = Literal["logits", "log-probabilities"]
# One number for both of ODIR's strengths, the pair (λ, μ), or None to choose by cross-validation.
Regularization = float | tuple[float, float] | None
_TOLERANCE, _STEPS = 1e-10, 500
# Squares of smaller and of larger strengths than its inverse overflow.
_WEAKEST = 1e-100


@dataclass(frozen=True, eq=False)
class Affine:
    """The softmax of $W x + b$; call it on logits.

    `weight` is W, or its diagonal (k,). A class whose logit is `-inf` keeps probability 0 and adds
    nothing to the scores of the others. `off_diagonal` and `intercepts` are the strengths of ODIR,
    λ and μ, that were used.
    """

    method: str
    samples: int
    classes: int
    features: Features
    weight: Float64
    bias: Float64
    off_diagonal: float
    intercepts: float
    warnings: tuple[str, ...] = ()

    __call__ = calibrate
    save = store.save

    @property
    def keeps_argmax(self) -> bool:
        """Whether a row's largest logit always has its largest probability."""
        w, b = self.weight, self.bias
        return bool(w.ndim == 1 and w[0] > 0 and (w == w[0]).all() and (b == b[0]).all())

    def apply(self, z: Float64) -> Float64:
        """Probabilities of checked logits (n, k)."""
        x = features_of(z, self.features)
        s = x * self.weight if self.weight.ndim == 1 else x @ self.weight.T
        s += self.bias
        s[np.isneginf(z)] = -np.inf
        return softmax(s)

    def check(self) -> None:
        """Raise unless it can be applied."""
        check_counts(self.samples, self.classes)
        k = self.classes
        store.check_numbers("off_diagonal", self.off_diagonal, (), 0.0)
        store.check_numbers("intercepts", self.intercepts, (), 0.0)
        store.check_numbers("weight", self.weight, (k,) if self.weight.ndim == 1 else (k, k))
        store.check_numbers("bias", self.bias, (k,))


def vector(
    logits: Any,
    labels: Any = None,
    *,
    sample_weight: Any = None,
    class_axis: int | None = None,
    columns: Any = None,
    probabilities: bool = False,
    regularization: Regularization = None,
) -> Affine:
    r"""Vector scaling, softmax of $w_k z_k + b_k$, Guo et al. (2017) section 4.2.

    Minimizes the NLL $+ \mu \|b\|^2 / K$, the part of ODIR that concerns intercepts; 0 is the
    paper's own fit, None chooses by cross-validation. The logits are taken as they are: a constant
    added to a row, which softmax does not see, changes the answer, so fit and call on one kind.
    A weight may come out negative: classes may change places.

    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(20000, 3))
    >>> labels = (logits + rng.gumbel(size=logits.shape) + [0, 0, 1]).argmax(axis=1)
    >>> fitted = vector(2 * logits, labels, regularization=0)
    >>> 2 * fitted.weight
    array([1.0, 1.0, 1.0])
    >>> float(fitted.bias[2] - fitted.bias[0])
    1.0
    """
    rows = labeled(logits, labels, sample_weight, class_axis, columns, probabilities=probabilities)
    return _fit("vector", rows, "logits", regularization)


def matrix(
    logits: Any,
    labels: Any = None,
    *,
    sample_weight: Any = None,
    class_axis: int | None = None,
    columns: Any = None,
    probabilities: bool = False,
    regularization: Regularization = None,
) -> Affine:
    r"""Matrix scaling, softmax of $W z + b$, with ODIR, Kull et al. (2019) section 3.

    Minimizes the NLL $+ \lambda \sum_{i \ne j} w_{ij}^2 / (K(K-1)) + \mu \|b\|^2 / K$, with W
    acting on $z / T$, so that the penalty does not know the scale of the logits. A number is both
    $\lambda$ and $\mu$, a pair one each; None chooses them by cross-validation; 0 is Guo et al.
    (2017), which with K² weights fits anything: at 100 classes and 5000 rows its NLL on other rows
    is far worse than without calibration. The logits are taken as they are, as in `vector`.
    """
    rows = labeled(logits, labels, sample_weight, class_axis, columns, probabilities=probabilities)
    return _fit("matrix", rows, "logits", regularization)


def dirichlet(
    logits: Any,
    labels: Any = None,
    *,
    sample_weight: Any = None,
    class_axis: int | None = None,
    columns: Any = None,
    probabilities: bool = False,
    regularization: Regularization = None,
) -> Affine:
    r"""Dirichlet calibration with ODIR, softmax of $W \log p + b$, Kull et al. (2019) eq. 2.

    The same minimum as `matrix`, on the log-probabilities, which are not divided by anything; so a
    constant added to a row changes nothing. A probability that underflows keeps its logarithm.
    """
    rows = labeled(logits, labels, sample_weight, class_axis, columns, probabilities=probabilities)
    return _fit("dirichlet", rows, "log-probabilities", regularization)


def features_of(z: Float64, features: Features) -> Float64:
    """The features of the affine map, 0 where a class is masked."""
    if features == "logits":
        return unmasked(z)
    return unmasked(log_softmax(z))


def _fit(method: str, rows: Rows, features: Features, regularization: Regularization) -> Affine:
    k, full = rows.z.shape[1], method != "vector"
    given = _check_strength(regularization)
    temperature = temperature_scaling(rows.z, rows.y, sample_weight=rows.u).value
    scale = temperature if features == "logits" else 1.0
    inputs = np.column_stack([features_of(rows.z, features) / scale, np.ones(len(rows.y))])
    masked = np.isneginf(rows.z)
    u = rows.u / rows.u.sum()
    problem = Problem(inputs, masked if masked.any() else None, rows.y, u)
    first = one_slope(scale / temperature, k, full=full)
    used, warnings = _find_strength(problem, rows.z, given, first)
    table, ended = descend(problem, used, first, _TOLERANCE, _STEPS)
    if not ended:
        warnings += (f"The optimizer stopped after {_STEPS} steps, before it converged.",)
    return Affine(
        method,
        samples=len(rows.y),
        classes=k,
        features=features,
        weight=(table[:, :-1] if full else table[:, 0]) / scale,
        bias=np.ascontiguousarray(table[:, -1]),
        off_diagonal=used.off_diagonal if full else 0.0,
        intercepts=used.intercepts,
        warnings=data_warnings(rows) + _size_warnings(len(rows.y), first.size, used) + warnings,
    )


def _check_strength(regularization: Regularization) -> Strength | None:
    if regularization is None:
        return None
    pair = regularization if isinstance(regularization, tuple) else (regularization,) * 2
    found = [_strength(value) for value in pair]
    if len(found) != 2 or any(math.isnan(strength) for strength in found):
        raise InputError(
            "regularization must be a number from zero up, a pair of them, or None, "
            f"got {store.shorten(regularization)}"
        )
    return Strength(*found)


def _strength(value: Any) -> float:
    """A number that is a strength, otherwise NaN."""
    try:
        strength = number(value, "regularization")
    except InputError:
        return math.nan
    return strength if strength == 0 or _WEAKEST <= strength <= 1 / _WEAKEST else math.nan


def _find_strength(
    problem: Problem, z: Float64, given: Strength | None, first: Float64
) -> tuple[Strength, tuple[str, ...]]:
    """The regularization to use, and warnings about its choice."""
    if given is not None:
        return given, ()
    folds = folds_of(z)
    if not folds.any():
        return Strength(OFF_DIAGONAL[0], INTERCEPTS[0]), (
            "All rows are equal, so cross-validation could not choose a regularization.",
        )
    choice = choose_strength(problem, folds, first)
    if choice.held_out < choice.temperature:
        return choice.strength, ()
    sentence = (
        f"On held-out rows the NLL is {choice.held_out:.4f}, and {choice.temperature:.4f} with one "
        "temperature, which is the better choice."
    )
    return choice.strength, (sentence,)


def _size_warnings(rows: int, parameters: int, used: Strength) -> tuple[str, ...]:
    if parameters <= rows:
        return ()
    held = "only the regularization holds them" if max(used) else "nothing holds them"
    return (f"There are more parameters ({parameters}) than rows ({rows}), and {held}.",)
