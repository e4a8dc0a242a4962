"""`precision` bounds the error of T, or the status is not-identified: labels close to chance."""

import numpy as np
import pytest
from scipy.optimize import brentq

import tepid
from tepid.summaries.optimum import LeastLoss
from tests import truth

pytestmark = pytest.mark.filterwarnings("ignore::tepid.CalibrationWarning")


def _near_chance(number):
    """Logits of any scale, with labels that hardly depend on them."""
    rng = np.random.default_rng([0, number])
    kind = rng.integers(4)
    k = int(rng.choice([2, 3, 10, 50]))
    n = min(int(10 ** rng.uniform(0.5, 3.5)), 50_000 // k)
    scale = 10 ** rng.uniform(-4, 4)
    z = scale * rng.normal(size=(n, k))
    if kind == 1:  # rows whose logits are far from zero
        z += 1e3 * scale * rng.normal(size=(n, 1))
    y = (10 ** rng.uniform(-4, -1) * z / scale + rng.gumbel(size=z.shape)).argmax(axis=1)
    if kind == 2:  # as often best as worst, so that the slope nearly vanishes at every T
        half = n // 2
        z = np.round(z / scale) * scale
        z[half : 2 * half] = z[:half]
        y[:half] = z[:half].argmax(axis=1)
        y[half : 2 * half] = z[:half].argmin(axis=1)
        z[0, 0] *= 1 + 10 ** rng.uniform(-6, -1)
    return z.astype(np.float32), y


def _exact(z, y):
    try:
        return truth.least_loss(z, truth.label_pairs(z, y), 1e-25, 1e25)
    except ValueError:  # no temperature is best
        return None


def _confident(z, accuracy):
    d = z.astype(np.float64) - z.max(axis=1, keepdims=True)
    return np.exp(
        brentq(lambda u: (1 / np.exp(d * np.exp(-u)).sum(axis=1)).mean() - accuracy, -60, 60)
    )


FITS = {
    "passes": tepid.temperature_scaling,
    "one pass": lambda z, y: tepid.temperature_scaling(tepid.open_source(iter([z]), labels=y)),
    "sums": lambda z, y: tepid.temperature_scaling(tepid.summarize(z, y)),
}


@pytest.mark.parametrize("way", FITS)
def test_precision_is_a_bound_or_the_temperature_is_not_identified(way):
    found = {"ok": 0, "at-bound": 0, "not-identified": 0}
    for number in range(250):
        z, y = _near_chance(number)
        t = FITS[way](z, y)
        found[t.status] += 1
        if t.status == "ok":
            exact = _exact(z, y)
            assert exact is not None, number
            assert abs(t.value / exact - 1) <= t.precision, (number, t)
            assert t.precision <= 0.01
    assert found["ok"] > 25
    assert found["not-identified"] > 5


def test_an_accuracy_close_to_chance_is_matched_to_the_stated_precision():
    identified = 0
    for number in range(150):
        z, _ = _near_chance(number)
        rng = np.random.default_rng([1, number])
        accuracy = 1 / z.shape[1] + (1 - 1 / z.shape[1]) * 10 ** rng.uniform(-5, -0.1)
        t = tepid.match_accuracy(z, accuracy)
        if t.status == "ok":
            identified += 1
            assert abs(t.value / _confident(z, accuracy) - 1) <= t.precision, (number, t)
    assert identified > 100


def test_a_flat_loss_is_called_so():
    """The sandwich standard error of log T is 17: from 1e-11 to 1e19 all would do."""
    rng = np.random.default_rng(3)
    z = np.round(rng.normal(size=(444, 2))) * 60
    z = np.concatenate([z, z]).astype(np.float32)
    y = np.concatenate([z[:444].argmax(axis=1), z[:444].argmin(axis=1)])
    z[0, 0] += 40
    t = tepid.temperature_scaling(z, y)
    assert (t.status, t.interval) == ("not-identified", None)
    assert "nearly flat" in " ".join(t.warnings)
    groups = np.where(np.arange(len(z)) % 2, "a", "b")
    assert tepid.temperature_scaling(z, y, groups=groups).status == "not-identified"


@pytest.mark.parametrize("rows", [98, 102])
def test_a_standard_error_of_log_t_above_five_is_no_information(rows):
    """One label more than half is right, so the standard error is that of a share near 1/2."""
    z, y = np.tile([2.0, 0.0], (rows, 1)), np.arange(rows) > rows // 2
    share = 1 - y.mean()
    odds = share / (1 - share)
    error = 1 / np.sqrt(rows * share * (1 - share)) / np.log(odds)
    t = tepid.temperature_scaling(z, y.astype(int))
    assert t.value == pytest.approx(2 / np.log(odds), rel=t.precision)
    if error < 5:
        wide = 1.96 * error
        assert t.status == "ok"
        assert np.log(t.interval) - np.log(t.value) == pytest.approx([-wide, wide], rel=1e-3)
    else:
        assert (t.status, t.interval) == ("not-identified", None)


@pytest.mark.parametrize("way", FITS)
def test_a_precision_of_one_percent_is_the_last_that_identifies(way, monkeypatch):
    z = np.random.default_rng(0).normal(size=(60, 3))
    y = (z + np.random.default_rng(1).gumbel(size=z.shape)).argmax(axis=1)
    for precision, status in ((0.01, "ok"), (np.nextafter(0.01, 1), "not-identified")):
        for bound in ("precision", "interpolation"):
            monkeypatch.setattr(LeastLoss, bound, lambda *_, stated=precision: stated)
        t = FITS[way](z, y)
        assert (t.status, t.precision) == (status, precision)


def test_one_cluster_has_no_interval_but_a_temperature():
    z = np.random.default_rng(4).normal(size=(50, 3))
    t = tepid.match_accuracy(z, 0.6, clusters=np.zeros(50))
    assert (t.status, t.interval) == ("ok", None)
