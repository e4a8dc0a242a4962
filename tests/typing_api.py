"""Ordinary uses of the public names; checked by mypy, never run."""

import numpy as np

import tepid

logits = np.zeros((10, 3))
temperature: tepid.Temperature = tepid.from_logits(logits, deviations=1.0, debias=True)
labelled: tepid.Temperature = tepid.from_labels("logits.npz", "labels.npy")
matched: tepid.Temperature = tepid.from_accuracy(lambda: iter([logits]), (0.9, 0.95))
number: float = float(temperature)
interval: tuple[float, float] | None = matched.interval
tails: tepid.Tails = tepid.Tails.of(logits) + 0.5 * tepid.Tails.zero(3)
curve: tepid.Curve = tepid.Curve.of(
    logits, thresholds=tails.thresholds(), lattice=tepid.Lattice.window()
)
score: float = tepid.metrics.ece([0, 1], [[0.8, 0.2], [0.4, 0.6]])
engine = tepid.Threads(2, lambda stage, done, total: None)
calibrator: tepid.sklearn.TemperatureCalibrator = tepid.sklearn.TemperatureCalibrator(
    accuracy=0.9
).fit(logits)
calibrated = tepid.sklearn.CalibratedClassifier(object(), use_labels=True)
