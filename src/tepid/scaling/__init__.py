"""Calibrators with labels, beyond one temperature.

Each function fits a calibrator to logits and labels. A calibrator is called on logits, returns
probabilities, and saves to one `.npz`; `load` reads it back. Its `method` is the function that
fitted it, `samples` the number of rows of the fit, and `warnings` say what may be wrong with it.
Fitting needs SciPy and scikit-learn (`pip install 'tepid[scaling]'`), applying does not.
"""

import os

from tepid import store
from tepid.scaling.beta_calibration import Betas, beta
from tepid.scaling.calibrator import Calibrator
from tepid.scaling.class_maps import ClassMaps, bbq, histogram, isotonic
from tepid.scaling.ensemble_scaling import Mixture, ensemble
from tepid.scaling.linear import Affine, dirichlet, matrix, vector

__all__ = [
    "Affine",
    "Betas",
    "ClassMaps",
    "Mixture",
    "bbq",
    "beta",
    "dirichlet",
    "ensemble",
    "histogram",
    "isotonic",
    "load",
    "matrix",
    "vector",
]


def load(path: str | os.PathLike[str]) -> Calibrator:
    """Return the calibrator that `save` wrote, which gives the same probabilities to the last bit.

    Raises `InputError` if the file is damaged.
    """
    kinds: tuple[type[Calibrator], ...] = (Affine, Betas, ClassMaps, Mixture)
    return store.load(path, {kind: kind.check for kind in kinds})
