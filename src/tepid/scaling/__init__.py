"""Calibrators with labels, beyond one temperature.

Each function fits a calibrator to logits and labels. A calibrator is called on logits, returns
probabilities, and saves to one `.npz`; `load` reads it back. Fitting needs SciPy and scikit-learn
(`pip install 'tepid[scaling]'`), applying does not.
"""

from tepid.scaling.beta_calibration import Betas, beta
from tepid.scaling.binning import Steps, bbq, histogram
from tepid.scaling.ensemble_scaling import Mixture, ensemble
from tepid.scaling.isotonic_regression import Lines, isotonic
from tepid.scaling.linear import Affine, dirichlet, matrix, vector
from tepid.scaling.storage import load

__all__ = [
    "Affine",
    "Betas",
    "Lines",
    "Mixture",
    "Steps",
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
