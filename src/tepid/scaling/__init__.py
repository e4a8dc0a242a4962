"""Calibrators with labels, beyond one temperature.

Each function fits one to logits and labels and returns a value that is called on logits, gives
probabilities, and saves itself to one `.npz`; `load` reads it back. Fitting needs SciPy and
scikit-learn (`pip install 'tepid[scaling]'`), applying does not.
"""

from tepid.scaling.affine import Affine
from tepid.scaling.betas import Betas, beta
from tepid.scaling.binning import histogram
from tepid.scaling.linear import dirichlet, matrix, vector
from tepid.scaling.lines import Lines, isotonic
from tepid.scaling.loading import load
from tepid.scaling.mixture import Mixture, ensemble
from tepid.scaling.quantiles import bbq
from tepid.scaling.steps import Steps

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
