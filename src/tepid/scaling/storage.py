"""Load saved calibrators; every field is checked, so that a loaded calibrator can be applied."""

import os
from typing import TypeAlias

import numpy as np

from tepid import store
from tepid.errors import InputError
from tepid.scaling.beta_calibration import Betas
from tepid.scaling.binning import Steps
from tepid.scaling.ensemble_scaling import Mixture
from tepid.scaling.isotonic_regression import Lines
from tepid.scaling.linear import Affine
from tepid.validation import Float64, Int64

Calibrator: TypeAlias = Affine | Mixture | Steps | Lines | Betas


def load(path: str | os.PathLike[str]) -> Calibrator:
    """Return the calibrator that `save` wrote, which gives the same probabilities to the last bit.

    Raises `InputError` if the file is damaged.
    """
    kinds: tuple[type[Calibrator], ...] = (Affine, Mixture, Steps, Lines, Betas)
    return store.load(path, dict.fromkeys(kinds, _check))


def _check(calibrator: Calibrator) -> None:
    store.check_count("samples", calibrator.samples)
    store.check_count("classes", calibrator.classes, 2)
    if isinstance(calibrator, Affine):
        _check_affine(calibrator)
    elif isinstance(calibrator, Mixture):
        _check_mixture(calibrator)
    elif isinstance(calibrator, Betas):
        _check_betas(calibrator)
    else:
        _check_maps(calibrator)


def _check_affine(calibrator: Affine) -> None:
    k, weight = calibrator.classes, calibrator.weight
    store.check_numbers("off_diagonal", calibrator.off_diagonal, (), 0.0)
    store.check_numbers("intercepts", calibrator.intercepts, (), 0.0)
    store.check_numbers("weight", weight, (k,) if weight.ndim == 1 else (k, k))
    store.check_numbers("bias", calibrator.bias, (k,))


def _check_mixture(calibrator: Mixture) -> None:
    store.check_numbers("temperature", calibrator.temperature, (), np.finfo(np.float64).tiny)
    store.check_numbers("weights", calibrator.weights, (3,), 0.0, 1.0)
    if abs(calibrator.weights.sum() - 1) > 1e-9:
        raise InputError(f"weights must sum to one, got {calibrator.weights.sum():g}")


def _check_betas(calibrator: Betas) -> None:
    shape = (calibrator.classes,)
    store.check_numbers("a", calibrator.a, shape, 0.0)
    store.check_numbers("b", calibrator.b, shape, 0.0)
    store.check_numbers("c", calibrator.c, shape)


def _check_maps(calibrator: Steps | Lines) -> None:
    """Steps have one value more than edges in every class, Lines have one value for each knot."""
    k, starts = calibrator.classes, calibrator.starts
    store.check_numbers("starts", starts, (k + 1,), 0)
    least = 0 if isinstance(calibrator, Steps) else 1
    if starts[0] != 0 or (np.diff(starts) < least).any():
        raise InputError("starts must rise from 0, got others")
    n = int(starts[-1])
    if isinstance(calibrator, Steps):
        _check_rising("edges", calibrator.edges, starts)
        store.check_numbers("values", calibrator.values, (n + k,), 0.0, 1.0)
    else:
        _check_rising("knots", calibrator.knots, starts)
        store.check_numbers("values", calibrator.values, (n,), 0.0, 1.0)


def _check_rising(name: str, values: Float64, starts: Int64) -> None:
    """Refuse probabilities that do not rise strictly within each class."""
    store.check_numbers(name, values, (int(starts[-1]),), 0.0, 1.0)
    inside = np.ones(max(len(values) - 1, 0), bool)
    borders = starts[(starts > 0) & (starts < len(values))]
    inside[borders - 1] = False
    if (np.diff(values)[inside] <= 0).any():
        raise InputError(f"{name} must rise within each class, got others")
