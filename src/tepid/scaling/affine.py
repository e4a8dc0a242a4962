"""Affine: scores that are an affine map of the logits or of their log-probabilities."""

import dataclasses
import os
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tepid.arrays import Float64
from tepid.scaling import saving
from tepid.scaling.calling import applied
from tepid.scaling.rows import softmax, unmasked

Features = Literal["logits", "log-probabilities"]


@dataclass(frozen=True, eq=False)
class Affine:
    """The softmax of $W x + b$; call it on logits.

    `weight` is W, or its diagonal (k,). A class whose logit is `-inf` keeps probability 0 and adds
    nothing to the scores of the others. `off_diagonal` and `intercepts` are the strengths of the
    regularisation, ODIR's λ and μ, that were used.
    """

    method: str
    _: dataclasses.KW_ONLY
    samples: int
    classes: int
    features: Features
    weight: Float64
    bias: Float64
    off_diagonal: float
    intercepts: float
    warnings: tuple[str, ...] = ()

    @property
    def keeps_argmax(self) -> bool:
        """Whether a row's largest logit always has its largest probability."""
        w, b = self.weight, self.bias
        return bool(w.ndim == 1 and w[0] > 0 and (w == w[0]).all() and (b == b[0]).all())

    def __call__(
        self, logits: Any, *, class_axis: int | None = None, probabilities: bool = False
    ) -> Any:
        """Probabilities, in the shape of the logits."""
        return applied(self, logits, class_axis, probabilities=probabilities)

    def of_rows(self, z: Float64) -> Float64:
        """Probabilities of checked logits (n, k)."""
        x = features_of(z, self.features)
        s = x * self.weight if self.weight.ndim == 1 else x @ self.weight.T
        s += self.bias
        s[np.isneginf(z)] = -np.inf
        return softmax(s)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to `.npz`; a crash leaves the old file whole."""
        saving.save(self, path)


def features_of(z: Float64, features: Features) -> Float64:
    """What the map is applied to, 0 where a class is masked."""
    if features == "logits":
        return unmasked(z)
    return unmasked(log_probabilities(z))


def log_probabilities(z: Float64) -> Float64:
    """The logarithm of the softmax, also where the softmax underflows."""
    d: Float64 = z - z.max(axis=1, keepdims=True)
    d -= np.log(np.exp(d).sum(axis=1, keepdims=True))
    return d
