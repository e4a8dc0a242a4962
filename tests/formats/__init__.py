"""Files of every saved format, how each is loaded, and the numbers that it gives."""

from pathlib import Path

import numpy as np

import tepid
from tepid import scaling
from tepid.online import Monitor
from tests.made import drifted

FOLDER = Path(__file__).parent


def load(name, path):
    """Load a file by its name in this folder, such as `tails-2.npz`."""
    loaders = {
        "temperature": tepid.load,
        "tails": tepid.summaries.Tails.load,
        "curve": tepid.summaries.Curve.load,
        "reliability": tepid.summaries.Reliability.load,
        "summaries": tepid.Summaries.load,
        "monitor": Monitor.load,
    }
    return loaders.get(name.partition("-")[0], scaling.load)(path)


def numbers(name, path):  # noqa: PLR0911 - one return for each kind
    """Load a file and return what its content comes to."""
    kind = name.partition("-")[0]
    value = load(name, path)
    rows = drifted(5, 3, seed=8)[0]
    if kind == "temperature":
        groups = [float(group) for group in value.groups.values()]
        return [float(value), *value.interval, *groups]
    if kind == "tails":
        return value.thresholds().tolist()
    if kind == "curve":
        return [float(np.sum(value.loss)), float(np.sum(value.confidence))]
    if kind == "reliability":
        return [float(tepid.metrics.ece(value))]
    if kind == "summaries":
        return [tepid.temperature_scaling(value).value]
    if kind == "monitor":
        value.update(rows, time=2.0)
        return [len(value.history), value.estimate().value]
    return np.asarray(value(rows)).ravel().tolist()
