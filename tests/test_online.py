"""The monitor: what it counts, when it alerts, and that nothing is lost."""

import datetime
import importlib
import inspect
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from scipy import stats

import tepid
from tepid.online import Monitor, Outputs, Rules, prometheus, read_log
from tepid.online.monitor import sample_rows
from tepid.online.reference import Spread, student
from tests.precision import CONFIDENCE
from tests.strategies import cuts

T = 1.5


def made(n, k=5, seed=0, scale=3.0):
    return (scale * np.random.default_rng(seed).normal(size=(n, k))).astype(np.float32)


def softmax(z):
    e = np.exp(z.astype(np.float64) - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def watching(chunk=100, **rules):
    return Monitor.from_reference(made(1000), T, chunk=chunk, rules=Rules(**rules))


def same(one, two):
    """Compare all that two monitors report, of the open chunk too."""
    np.testing.assert_allclose(one.histogram[1], two.histogram[1], rtol=1e-9, atol=1e-9)
    if one.window.weight:
        np.testing.assert_allclose(one.thresholds, two.thresholds, rtol=1e-9, atol=1e-9)
    same_row(one.reading(), two.reading())
    histories = [m.history + (Monitor(m.reference, m.rules) + m).finish() for m in (one, two)]
    for x, y in zip(*histories, strict=True):
        same_row(x, y)


def same_row(x, y):
    assert x.keys() == y.keys()
    for name in x:
        assert x[name] == pytest.approx(y[name], nan_ok=True), name


def test_a_monitor_cannot_take_labels():
    for method in (Monitor, Monitor.from_reference, Monitor.update):
        assert not [name for name in inspect.signature(method).parameters if "label" in name]


# What a row of the table says


def test_a_row_says_what_an_independent_computation_says():
    monitor = watching(chunk=200)
    z = made(200, seed=1)
    (row,) = monitor.update(z, time=7.0)
    confidence = softmax(z / T).max(axis=1)
    assert row["implied_accuracy"] == pytest.approx(confidence.mean(), abs=CONFIDENCE)
    assert row["mean_confidence"] == pytest.approx(softmax(z).max(axis=1).mean(), abs=CONFIDENCE)
    assert (row["chunk"], row["rows"], row["start"], row["end"]) == (0, 200, 7.0, 7.0)
    assert row["temperature"] == T
    edges, share = monitor.histogram
    expected = np.histogram(-confidence, -edges[::-1])[0][::-1] / 200  # bins closed on the right
    np.testing.assert_allclose(share, expected)
    # The monitor has a kernel of its own: thresholds agree to what UTS takes for a tie.
    theta = tepid.summaries.Tails.of(z).thresholds()
    np.testing.assert_allclose(monitor.thresholds, theta, rtol=tepid.summaries.tails.TOLERANCE)


def test_the_limits_are_those_of_the_prediction_interval():
    z = made(1000)
    monitor = Monitor.from_reference(z, T, chunk=90, rules=Rules(false_alarms=0.02))
    (row,) = monitor.update(made(90, seed=1))
    parts = softmax(z[:990] / T).max(axis=1).reshape(11, 90).mean(axis=1)
    half = stats.t.ppf(0.99, 10) * parts.std(ddof=1) * np.sqrt(1 + 1 / 11)
    assert row["lower"] == pytest.approx(parts.mean() - half, rel=1e-5)
    assert row["upper"] == pytest.approx(parts.mean() + half, rel=1e-5)
    assert row["drift"] == pytest.approx((row["implied_accuracy"] - parts.mean()) / half, rel=1e-3)
    assert row["alert"] == (abs(row["drift"]) > 1)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 10, 57, 400])
@pytest.mark.parametrize("probability", [0.55, 0.9, 0.995, 1 - 1e-9])
def test_students_quantile_is_that_of_scipy(freedom, probability):
    assert student(probability, freedom) == pytest.approx(stats.t.ppf(probability, freedom))


def test_chunks_of_unequal_size_weigh_by_their_rows():
    spread = Spread.of(np.array([0.8, 0.9]), np.array([100.0, 300.0]))
    assert spread.mean == pytest.approx(0.875)
    assert spread.deviation**2 == pytest.approx(100 * 0.075**2 + 300 * 0.025**2)
    assert spread.half_width(50, 0.1) > spread.half_width(51, 0.1)


def test_a_reference_without_any_spread_does_not_alert_on_rounding():
    z = np.tile(np.float32([[3.0, 1.0, 0.0]]), (200, 1))
    monitor = Monitor.from_reference(z, T, chunk=20)
    assert not monitor.update(z[:20] + np.float32(0.125))[0]["alert"]
    assert monitor.update(z[:20] * np.float32(1.01))[0]["alert"]


# How often it is wrong


def _alarms(confident, chunks, rules, served, trials, size=60):
    rng = np.random.default_rng(3)
    alarms = 0
    for _ in range(trials):
        reference = confident[rng.integers(0, len(confident), chunks * size)]
        monitor = Monitor.from_reference(reference, T, chunk=size, rules=rules)
        rows = monitor.update(confident[rng.integers(0, len(confident), served * size)])
        alarms += rows[-1]["alert"]
    return alarms


@pytest.mark.parametrize(
    ("chunks", "rate", "half_life"),
    [
        (3, 0.05, None),
        pytest.param(12, 0.05, None, marks=pytest.mark.slow),
        pytest.param(12, 0.01, None, marks=pytest.mark.slow),
        (8, 0.05, 2.0),
    ],
)
def test_false_alarms_come_as_often_as_stated(fashion, chunks, rate, half_life):
    """Over references: a normal quantile in place of Student's would give .19 with three chunks."""
    trials = 700
    rules = Rules(false_alarms=rate, half_life=half_life)
    alarms = _alarms(fashion[0], chunks, rules, 1 if half_life is None else 6, trials)
    low, high = stats.binom.interval(0.9999, trials, rate)
    assert low <= alarms <= high


@pytest.mark.parametrize(
    ("chunks", "rate", "threshold"),
    [
        (3, 0.05, 0.9),
        pytest.param(12, 0.05, 0.5, marks=pytest.mark.slow),
        pytest.param(12, 0.05, 0.99, marks=pytest.mark.slow),
        pytest.param(12, 0.05, 0.05, marks=pytest.mark.slow),  # which accepts every row
    ],
)
def test_two_limits_together_give_no_more_false_alarms_than_stated(
    fashion, chunks, rate, threshold
):
    trials = 500
    rules = Rules(false_alarms=rate, threshold=threshold)
    alarms = _alarms(fashion[0], chunks, rules, 1, trials)
    low, high = stats.binom.interval(0.9999, trials, rate)
    assert low / 3 <= alarms <= high


def test_a_change_of_confidence_is_seen():
    monitor = watching(chunk=200)
    rows = [*monitor.update(made(600, seed=5)), *monitor.update(made(400, seed=6, scale=2.0))]
    assert [row["alert"] for row in rows] == [False, False, False, True, True]
    assert rows[-1]["drift"] < -1
    assert monitor.reading()["alerts_total"] == 2


def test_a_change_that_leaves_the_confidences_alone_is_not_seen():
    monitor = watching(chunk=200)
    wrong = np.roll(made(200, seed=5), 1, axis=1)  # every prediction another class
    assert not monitor.update(wrong)[0]["alert"]


def test_fixed_limits_take_the_place_of_the_references():
    monitor = watching(limits=(0.2, 0.3))
    (row,) = monitor.update(made(100, seed=1))
    assert (row["lower"], row["upper"], row["alert"]) == (0.2, 0.3, True)
    assert row["drift"] == pytest.approx((row["implied_accuracy"] - 0.25) / 0.05)


def test_few_reference_chunks_widen_the_limits():
    def width(n):
        monitor = Monitor.from_reference(made(n), T, chunk=100)
        (row,) = monitor.update(made(100, seed=9))
        return (row["upper"] - row["lower"]) / monitor.reference.spread.deviation

    assert width(200) > 5 * width(500) > 5 * width(5000)


# Chunks


@given(where=cuts(350))
def test_batches_of_any_size_make_the_same_chunks(where):
    z = made(350, seed=2)
    whole, parts = watching(), watching()
    whole.update(z, time=1.0)
    for start, end in pairwise([0, *where, 350]):
        parts.update(z[start:end], time=1.0)
    same(whole, parts)
    assert [row["rows"] for row in whole.history] == [100, 100, 100]
    assert whole.reading()["rows_open"] == 50


def test_a_chunk_closes_when_its_last_row_comes():
    monitor = watching()
    assert monitor.update(made(99)) == []
    assert monitor.history == []
    assert len(monitor.update(made(1))) == 1
    assert monitor.reading()["rows_open"] == 0


def test_forgetting_weighs_chunks_by_their_age():
    monitor = watching(half_life=1.0)
    z = made(300, seed=4)
    monitor.update(z)
    means = softmax(z / T).max(axis=1).reshape(3, 100).mean(axis=1)
    weights = np.array([0.25, 0.5, 1.0])
    row = monitor.history[-1]
    assert row["implied_accuracy"] == pytest.approx(means @ weights / 1.75, abs=CONFIDENCE)
    rows = 100 * 1.75**2 / (weights**2).sum()
    half = monitor.reference.spread.half_width(rows, 0.01)
    assert row["upper"] - row["lower"] == pytest.approx(2 * half)
    assert row["rows"] == 100


def test_a_period_closes_when_a_later_batch_comes():
    z, times = made(1000), np.repeat(np.arange(10) * 60.0, 100)
    monitor = Monitor.from_reference(z, T, period=60, times=times)
    assert monitor.update(z[:30], time=600.0) == []
    assert monitor.update(z[30:40], time=659.9) == []
    assert monitor.update(z[:5], time=590.0) == []  # late, and counted where it comes
    (row,) = monitor.update(z[40:50], time=datetime.datetime.fromtimestamp(660, datetime.UTC))
    assert (row["rows"], row["start"], row["end"]) == (45, 600.0, 659.9)
    (row,) = monitor.update(z[:0], time=800.0)  # time passes
    assert (row["rows"], row["start"]) == (10, 660.0)
    assert monitor.update(z[:0], time=900.0) == []
    monitor.update(z[:20], time=970.0)
    assert monitor.finish()[0]["start"] == 970.0


def test_a_reference_in_periods_gives_the_spread_of_its_periods():
    z = made(300)
    times = np.concatenate([np.zeros(100), np.full(150, 60.0), np.full(50, 3600.0)])
    spread = Monitor.from_reference(z, T, period=60, times=times).reference.spread
    c = softmax(z / T).max(axis=1)
    expected = Spread.of(
        np.array([c[:100].mean(), c[100:250].mean(), c[250:].mean()]), np.array([100.0, 150, 50])
    )
    # The mean of each of the three chunks, which weighs as much as the root of its rows.
    close = CONFIDENCE * np.sqrt(300)
    assert spread.deviation == pytest.approx(expected.deviation, abs=close)
    assert (spread.chunks, spread.rows) == (3, 300)


def test_what_is_open_can_be_closed_early_and_once():
    monitor = watching()
    monitor.update(made(40))
    assert [row["rows"] for row in monitor.finish()] == [40]
    assert monitor.finish() == []


def test_memory_does_not_grow(tmp_path):
    monitor = watching(chunk=10, remember=5)
    monitor.update(made(200))
    monitor.save(tmp_path / "few.npz")
    assert len(monitor.update(made(1000))) == 100  # all are told, though few are remembered
    assert [row["chunk"] for row in monitor.history] == [115, 116, 117, 118, 119]
    assert [row["chunk"] for row in (monitor + monitor).history] == [235, 236, 237, 238, 239]
    monitor.save(tmp_path / "many.npz")
    few, many = ((tmp_path / name).stat().st_size for name in ("few.npz", "many.npz"))
    assert abs(few - many) < 20  # the digits of the counts
    assert monitor.reading()["chunks_total"] == 120


def switching_often(count, work):
    """Run work(0), work(1), … in threads that take turns every microsecond."""
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)


def test_many_threads_lose_no_row_and_fill_every_chunk():
    monitor, alone = watching(chunk=100, remember=100), watching(chunk=100, remember=100)
    batches = [made(37, seed=i) for i in range(96)]
    switching_often(8, lambda i: [monitor.update(z, time=1.0) for z in batches[i::8]])
    for z in batches:
        alone.update(z, time=1.0)
    assert [row["rows"] for row in monitor.history] == [100] * (96 * 37 // 100)
    assert monitor.reading()["rows_kept"] == monitor.reading()["rows_total"] == 96 * 37

    def total(m):
        m.finish()
        return sum(row["implied_accuracy"] * row["rows"] for row in m.history)

    assert total(monitor) == pytest.approx(total(alone), rel=1e-9)


# The temperature, re-estimated where it is asked for


def test_the_estimate_of_the_reference_itself_is_that_of_uts(network):
    z = network[0]
    monitor = Monitor.from_reference(z, 2.0, chunk=2000, rules=Rules(reestimate=True))
    right = tepid.uts(z).value
    assert monitor.reference.estimate == pytest.approx(right, rel=6e-3)
    rows = monitor.update(z)
    assert rows[0]["estimated_temperature"] == pytest.approx(right, rel=0.05)
    found = monitor.estimate()
    assert found.value == rows[1]["estimated_temperature"]
    assert found.implied_accuracy == pytest.approx(
        softmax(z[2000:] / found.value).max(axis=1).mean(), rel=1e-3
    )
    assert found.method == "uts-online"


def test_without_being_asked_no_temperature_is_estimated():
    monitor = watching()
    (row,) = monitor.update(made(100))
    assert row["estimated_temperature"] is None
    with pytest.raises(tepid.InputError, match="reestimate=True"):
        monitor.estimate()


def test_the_sums_at_the_served_temperature_are_the_same_with_and_without_an_estimate():
    one, two = watching(), watching(reestimate=True)
    (a,), (b,) = one.update(made(100, seed=1)), two.update(made(100, seed=1))
    assert a["implied_accuracy"] == pytest.approx(b["implied_accuracy"], abs=2 * CONFIDENCE)
    np.testing.assert_allclose(one.histogram[1], two.histogram[1])


def test_an_estimate_out_of_reach_is_none_and_says_so():
    monitor = watching(reestimate=True)
    (row,) = monitor.update(made(100) * 0)
    assert row["estimated_temperature"] is None
    assert monitor.estimate().status == "not-identified"


def test_an_estimate_needs_rows():
    with pytest.raises(tepid.InputError, match="must have seen a row"):
        watching(reestimate=True).estimate()


# The deployed threshold


@pytest.mark.parametrize("reestimate", [False, True])
def test_accepted_rows_are_counted_exactly(reestimate):
    monitor = watching(chunk=200, threshold=0.8, reestimate=reestimate)
    z = made(400, seed=1)
    first, second = monitor.update(z)
    for row, part in ((first, z[:200]), (second, z[200:])):
        confidence = softmax(part / T).max(axis=1)
        accepted = confidence >= 0.8
        assert 0 < accepted.sum() < 200
        assert row["accepted_share"] == accepted.mean()
        assert row["expected_precision"] == pytest.approx(confidence[accepted].mean(), abs=1e-6)
        assert row["implied_accuracy"] == pytest.approx(confidence.mean(), abs=CONFIDENCE)


def test_the_limits_of_the_accepted_share_are_those_of_the_prediction_interval():
    z = made(1000)
    monitor = Monitor.from_reference(z, T, chunk=90, rules=Rules(threshold=0.8, false_alarms=0.02))
    (row,) = monitor.update(made(90, seed=1))
    shares = (softmax(z[:990] / T).max(axis=1) >= 0.8).reshape(11, 90).mean(axis=1)
    smoothed = (990 * shares.mean() + 2) / 994
    spread = max(np.sqrt(90) * shares.std(ddof=1), np.sqrt(smoothed * (1 - smoothed)))
    half = stats.t.ppf(0.995, 10) * spread * np.sqrt(1 / 90 + 1 / 990)
    assert row["accepted_lower"] == pytest.approx(shares.mean() - half, rel=1e-6)
    assert row["accepted_upper"] == pytest.approx(shares.mean() + half, rel=1e-6)
    drift = (row["accepted_share"] - shares.mean()) / half
    assert row["accepted_drift"] == pytest.approx(drift, abs=1e-6)
    # Both limits share the false alarms.
    confidence = softmax(z[:990] / T).max(axis=1).reshape(11, 90).mean(axis=1)
    wide = stats.t.ppf(0.995, 10) * confidence.std(ddof=1) * np.sqrt(1 + 1 / 11)
    assert row["upper"] - row["lower"] == pytest.approx(2 * wide, rel=1e-5)


def test_a_change_of_the_accepted_share_is_seen():
    rules = {"limits": (0.0, 1.0), "threshold": 0.8}  # the implied accuracy never alerts
    monitor = watching(chunk=200, **rules)
    rows = [*monitor.update(made(400, seed=5)), *monitor.update(made(200, seed=6, scale=2.0))]
    assert [row["alert"] for row in rows] == [False, False, True]
    assert rows[-1]["accepted_drift"] < -1
    assert abs(rows[-1]["drift"]) < 1
    assert monitor.reading()["alerts_total"] == 1


def test_fixed_limits_of_the_accepted_share():
    monitor = watching(limits=(0.0, 1.0), threshold=0.8, accepted_limits=(0.0, 0.1))
    (row,) = monitor.update(made(100, seed=5))
    assert row["accepted_share"] > 0.1
    assert (row["accepted_lower"], row["accepted_upper"], row["alert"]) == (0.0, 0.1, True)


def test_a_chunk_without_an_accepted_row_has_no_precision():
    (row,) = watching(threshold=0.8).update(made(100) * 0)
    assert row["accepted_share"] == 0
    assert row["expected_precision"] is None
    assert row["alert"]


def test_a_reference_that_accepts_every_row_does_not_alert_on_one():
    z = 40 * made(1000, scale=3.0)
    monitor = Monitor.from_reference(z, T, chunk=500, rules=Rules(threshold=0.4))
    served = z[:500].copy()
    assert monitor.update(served)[0]["accepted_share"] == 1
    served[0] = 0
    (row,) = monitor.update(served)
    assert row["accepted_share"] == 1 - 1 / 500
    assert not row["alert"]


def test_without_a_threshold_nothing_is_said_of_accepted_rows():
    (row,) = watching().update(made(100))
    for name in ("share", "lower", "upper", "drift"):
        assert row[f"accepted_{name}"] is None
    assert row["expected_precision"] is None


# The temperature of recent rows with other evidence


@pytest.fixture(scope="module")
def recent(network):
    """A monitor whose window holds the last 2000 of 4000 rows, and those rows with labels."""
    z, y = network
    monitor = Monitor.from_reference(z, 2.0, chunk=2000, rules=Rules(reestimate=True))
    monitor.update(z)
    return monitor, z[2000:], y[2000:]


@pytest.mark.parametrize("kinds", [(), ("accuracy",), ("labeled",), ("accuracy", "labeled")])
def test_recent_rows_are_calibrated_as_by_the_library(recent, kinds):
    monitor, z, y = recent
    given = {"accuracy": (0.78, 0.1), "labeled": (z[:200], y[:200])}
    evidence = {kind: given[kind] for kind in kinds}
    found, rows = monitor.calibrate(**evidence), tepid.calibrate(z, **evidence)
    assert (found.verdict, found.status, found.samples) == (rows.verdict, rows.status, 2000)
    assert found.evidence.keys() == rows.evidence.keys()
    # The thresholds of UTS are those of the reference, and its lattice is coarser.
    assert found.value == pytest.approx(rows.value, rel=0.02)
    assert found.interval == pytest.approx(rows.interval, rel=0.05)


def test_unreliable_evidence_on_recent_rows_is_warned_of(recent):
    monitor, z, y = recent
    with pytest.warns(tepid.CalibrationWarning, match="contradicts"):
        t = monitor.calibrate(accuracy=(0.999, 0.0001), labeled=(z[:500], y[:500]))
    assert t.tension


def test_recent_rows_without_evidence_of_a_temperature_keep_one():
    monitor = watching(reestimate=True)
    monitor.update(0.1 * made(100))
    t = monitor.calibrate()
    assert (t.value, t.verdict) == (1.0, "keep")


@pytest.mark.parametrize(
    ("evidence", "sentence"),
    [
        ({"accuracy": 2}, "accuracy must be in"),
        ({"accuracy": {"a": 0.9}}, "accuracy must be one for all rows, got a mapping"),
        ({"labeled": made(3)}, "labeled must be a pair"),
        ({"labeled": (made(3), [-1] * 3)}, "at least one row"),
        ({"labeled": (made(3, k=4), [0] * 3)}, "labeled must have the 5 classes of logits, got 4"),
    ],
)
def test_evidence_on_recent_rows_that_does_not_fit_is_refused(evidence, sentence):
    monitor = watching(reestimate=True)
    with pytest.raises(tepid.InputError, match="must have seen a row"):
        monitor.calibrate(**evidence)
    monitor.update(made(100))
    with pytest.raises(tepid.InputError, match=sentence):
        monitor.calibrate(**evidence)
    with pytest.raises(tepid.InputError, match="reestimate=True"):
        watching().calibrate(**evidence)


# Sampling


def test_which_rows_are_kept_does_not_depend_on_the_batches():
    rules = Rules(sample=0.3, seed=4)
    whole = sample_rows(0, 40_000, rules)
    parts = [start + sample_rows(start, 1600, rules) for start in range(0, 40_000, 1600)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    assert not np.array_equal(whole, sample_rows(0, 1000, Rules(sample=0.3, seed=5)))


@pytest.mark.parametrize("sample", [0.01, 0.1, 0.5])
def test_rows_are_kept_with_the_probability_asked_for_and_by_themselves(sample):
    n = 200_000
    rows = sample_rows(12345, n, Rules(sample=sample, seed=1))
    assert stats.binomtest(len(rows), n, sample).pvalue > 1e-4
    together = np.count_nonzero(np.diff(rows) == 1)
    assert stats.binomtest(together, n - 1, sample**2).pvalue > 1e-4
    thirds = np.bincount(rows * 3 // n, minlength=3)
    assert stats.chisquare(thirds).pvalue > 1e-4


def test_a_sample_means_the_same_as_all_rows():
    z = made(40_000, seed=3)
    monitor = watching(chunk=200, sample=0.1, seed=2)
    for start in range(0, len(z), 64):
        monitor.update(z[start : start + 64])
    reading = monitor.reading()
    assert reading["rows_total"] == 40_000
    assert abs(reading["rows_kept"] - 4000) < 5 * np.sqrt(3600)
    assert [row["rows"] for row in monitor.history] == [200] * (reading["rows_kept"] // 200)
    mean = np.mean([row["implied_accuracy"] for row in monitor.history])
    confidence = softmax(z / T).max(axis=1)
    assert abs(mean - confidence.mean()) < 4 * confidence.std() / np.sqrt(4000)


def test_a_bad_row_is_named_by_its_place_in_the_batch_even_in_a_sample():
    monitor = watching(sample=0.2)
    place = int(sample_rows(0, 50, monitor.rules)[3])
    z = made(50)
    z[place, 2] = np.nan
    with pytest.raises(tepid.InputError, match=f"nan for class 2 at row {place}$"):
        monitor.update(z)


# Hostile input


@pytest.mark.parametrize("rows", [50, 250])
def test_a_batch_with_a_bad_row_is_refused_whole(rows):
    monitor, untouched = watching(), watching()
    z = made(rows)
    z[rows - 3, 1] = np.inf
    with pytest.raises(tepid.InputError, match=f"inf for class 1 at row {rows - 3}$"):
        monitor.update(z)
    same(monitor, untouched)
    monitor.update(made(99))
    assert monitor.reading()["rows_kept"] == 99


@pytest.mark.parametrize(
    "change",
    [
        np.asfortranarray,
        lambda z: z.astype(np.float64),
        lambda z: z.astype(np.float16).astype(np.float32),
        lambda z: np.repeat(z, 2, axis=0)[::2],
        lambda z: z.tolist(),
        lambda z: pytest.importorskip("torch").from_numpy(z),
    ],
)
def test_logits_come_in_any_form(change):
    z = made(100, seed=1).astype(np.float16).astype(np.float32)
    one, two = watching(), watching()
    (a,), (b,) = one.update(z), two.update(change(z))
    assert a["implied_accuracy"] == pytest.approx(b["implied_accuracy"], rel=1e-6)


def test_binary_logits_and_masked_classes_are_watched():
    z = made(400, 1)[:, 0]
    monitor = Monitor.from_reference(z, T, chunk=100)
    (row,) = monitor.update(z[:100])
    both = np.stack([np.zeros(100), z[:100]], axis=1)
    mean = softmax(both / T).max(axis=1).mean()
    assert row["implied_accuracy"] == pytest.approx(mean, abs=CONFIDENCE)
    masked = made(400)
    masked[::2, 3] = -np.inf
    assert not Monitor.from_reference(masked, T, chunk=100).update(masked[:100])[0]["alert"]


@pytest.fixture
def foreign(monkeypatch):
    """Make tepid treat every tensor as one that NumPy cannot read, such as one on a GPU."""
    torch = pytest.importorskip("torch")
    found = tepid.validation.is_foreign
    monkeypatch.setattr(
        tepid.validation, "is_foreign", lambda z: isinstance(z, torch.Tensor) or found(z)
    )
    return torch.from_numpy


@pytest.mark.parametrize(
    "rules",
    [{}, {"reestimate": True}, {"sample": 0.7}, {"threshold": 0.8},
     {"threshold": 0.8, "reestimate": True}],
)  # fmt: skip
@pytest.mark.parametrize("shape", ["(n, 5)", "(n,)", "(n, 1)", "(n, 2)"])
def test_an_array_that_numpy_cannot_read_is_summed_where_it_lives(foreign, shape, rules):
    z = {"(n, 5)": made(400), "(n,)": made(400, 1)[:, 0], "(n, 1)": made(400, 1)}.get(
        shape, made(400, 2)
    )
    here, there = (
        Monitor.from_reference(rows, T, chunk=100, rules=Rules(**rules)) for rows in (z, foreign(z))
    )
    assert there.reference.confidence == pytest.approx(here.reference.confidence, abs=CONFIDENCE)
    for monitor, rows in ((here, z), (there, foreign(z))):
        monitor.update(rows[:30], time=1.0)
        monitor.update(rows[30:], time=1.0)
    assert len(here.history) == len(there.history) > 1
    for a, b in zip(here.history, there.history, strict=True):
        # float32 here, float64 there
        assert 0 < b["mean_confidence"] <= 1
        assert a["implied_accuracy"] == pytest.approx(b["implied_accuracy"], abs=CONFIDENCE)
        assert a["mean_confidence"] == pytest.approx(b["mean_confidence"], abs=CONFIDENCE)
        assert a["alert"] == b["alert"]
        assert a["accepted_share"] == b["accepted_share"]
        assert a["expected_precision"] == pytest.approx(b["expected_precision"], abs=1e-6)
    np.testing.assert_allclose(here.thresholds, there.thresholds, rtol=1e-5)


def test_one_row_is_a_batch():
    monitor = watching(chunk=1)
    assert len(monitor.update(made(1))) == 1


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda m: m.update(made(5, 4)), "the 5 classes of the reference, got 4"),
        (lambda m: m.update(made(1)[0]), r"be \(n, 5\), or logits\[None\] for one row"),
        (lambda m: m.update(made(5), time=float("nan")), "time must be a finite number"),
        (lambda m: m.update([["a"]]), "logits must be numbers"),
        (lambda _: Monitor.from_reference(made(10), T), "chunk or period must be given"),
        (lambda _: Monitor.from_reference(made(10), T, chunk=5, period=1), "and not both"),
        (lambda _: Monitor.from_reference(made(19), T, chunk=10), "at least 2 chunks.* got 1 from"),
        (lambda _: Monitor.from_reference(made(19), T, chunk=0), "chunk must be at least 1, got 0"),
        (lambda _: Monitor.from_reference(made(9), -1, chunk=2), "temperature must be a number"),
        (lambda _: Monitor.from_reference(made(9), T, period=2), "times must be given with period"),
        (lambda _: Monitor.from_reference(made(9), T, period=0), "period must be a number of sec"),
        (lambda _: Monitor.from_reference(made(9), T, chunk=2, times=[0]), "got them with a chunk"),
        (
            lambda _: Monitor.from_reference(made(9), T, period=2, times=[0.0]),
            "one finite number of seconds for each of the 9 rows",
        ),
        (lambda _: Rules(false_alarms=0), "false_alarms must be in"),
        (lambda _: Rules(sample=1.5), "sample must be in"),
        (lambda _: Rules(half_life=0), "half_life must be"),
        (lambda _: Rules(half_life=10**400), "half_life must be a number"),
        (lambda _: Rules(seed=-1), "seed must be at least 0, got -1"),
        (lambda m: Monitor(m.reference, Rules(bins=7)), "bins must be that of the reference, 15"),
        (lambda m: Monitor(m.reference, Rules(reestimate=True)), "reestimate must be that of the"),
        (lambda m: Monitor(m.reference, Rules(threshold=0.9)), "threshold must be that of the"),
        (lambda _: Rules(limits=(0.9, 0.1)), "limits must be"),
        (lambda _: Rules(threshold=0), r"threshold must be in \(0, 1\], got 0"),
        (lambda _: Rules(threshold=90), r"threshold must be in \(0, 1\], got 90"),
        (lambda _: Rules(threshold=1, accepted_limits=(1, 0)), "accepted_limits must be"),
        (lambda _: Rules(accepted_limits=(0, 1)), "accepted_limits must go with a threshold"),
        (lambda _: Rules(remember=0), "remember must be"),
        (lambda _: Rules(bins=0), "bins must be"),
        (lambda _: Outputs(every=0), "every must be at least 1"),
    ],
)
def test_what_cannot_be_used_is_said(act, says):
    with pytest.raises(tepid.InputError, match=says):
        act(watching())


def test_a_bad_row_of_the_reference_is_named():
    z = made(1000)
    z[765, 0] = np.nan
    with pytest.raises(tepid.InputError, match=r"reference_logits must .* at row 765"):
        Monitor.from_reference(z, T, chunk=100)


def test_a_temperature_of_other_classes_is_refused():
    t = tepid.Temperature(2.0, "uts", samples=1, classes=3, implied_accuracy=0.5)
    with pytest.raises(tepid.InputError, match="the 3 classes of the calibration, got 5"):
        Monitor.from_reference(made(100), t, chunk=10)


# Files


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"half_life": 3.0, "reestimate": True, "limits": (0.1, 1)},
        {"half_life": 3.0, "threshold": 0.8},
        {"threshold": 0.8, "accepted_limits": (0.5, 1)},
    ],
)
def test_a_saved_monitor_goes_on_where_it_was(tmp_path, rules):
    monitor = watching(sample=0.9, **rules)
    for seed in range(5):
        monitor.update(made(77, seed=seed), time=float(seed))
    monitor.save(tmp_path / "monitor.npz")
    again = Monitor.load(tmp_path / "monitor.npz")
    assert again.rules == monitor.rules
    assert again.reference.fingerprint == monitor.reference.fingerprint
    for seed in range(5, 9):
        monitor.update(made(77, seed=seed), time=float(seed))
        again.update(made(77, seed=seed), time=float(seed))
    same(monitor, again)


def test_a_monitor_without_a_row_can_be_saved(tmp_path):
    watching().save(tmp_path / "monitor.npz")
    same(Monitor.load(tmp_path / "monitor.npz"), watching())


def test_autosave_writes_after_so_many_batches(tmp_path):
    path = tmp_path / "monitor.npz"
    monitor = Monitor.from_reference(
        made(1000), T, chunk=100, outputs=Outputs(autosave=path, every=3)
    )
    seen = []
    for _ in range(7):
        monitor.update(made(10))
        seen.append(Monitor.load(path).reading()["rows_total"] if path.exists() else 0)
    assert seen == [0, 0, 30, 30, 30, 60, 60]


def test_threads_that_save_leave_the_newest_state(tmp_path):
    path = tmp_path / "monitor.npz"
    monitor = Monitor.from_reference(made(1000), T, chunk=100, outputs=Outputs(autosave=path))
    switching_often(4, lambda _: [monitor.update(made(10)) for _ in range(10)])
    same(Monitor.load(path), monitor)


SERVING = """
import sys, numpy as np
from tepid.online import Monitor, Outputs
state, log = sys.argv[1:]
monitor = Monitor.load(state, outputs=Outputs(autosave=state, log=log))
rng = np.random.default_rng(0)
while True:
    monitor.update(3 * rng.normal(size=(7, 5)))
    print(monitor.reading()["rows_total"], flush=True)
"""


@pytest.mark.slow
def test_a_killed_process_loses_at_most_the_batch_that_was_not_saved(tmp_path):
    state, log = tmp_path / "monitor.npz", tmp_path / "log.jsonl"
    watching(chunk=10).save(state)
    total = 0
    for served in (40, 25):
        process = subprocess.Popen(
            [sys.executable, "-c", SERVING, state, log], stdout=subprocess.PIPE, text=True
        )
        for _ in range(served):
            said = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        said = int(([str(said), *process.stdout.read().split("\n")[:-1]])[-1])
        process.stdout.close()
        assert process.wait() == -signal.SIGKILL
        monitor = Monitor.load(state)
        assert said >= total + 7 * served
        assert said <= monitor.reading()["rows_total"] <= said + 7
        total = monitor.reading()["rows_total"]
        rows = read_log(log)
        assert [row["chunk"] for row in rows] == list(range(len(rows)))
        assert 0 <= len(rows) - total // 10 <= 1
        others = {path.name for path in tmp_path.iterdir()} - {state.name, log.name}
        assert all(name.startswith(".") and name.endswith(".tmp") for name in others)


def test_the_log_and_merged_replicas_have_the_accepted_share(tmp_path):
    outputs = Outputs(log=tmp_path / "log.jsonl")
    rules = Rules(threshold=0.8)
    monitor = Monitor.from_reference(made(1000), T, chunk=100, rules=rules, outputs=outputs)
    monitor.update(made(250, seed=1), time=1.0)
    assert read_log(outputs.log) == monitor.history
    other = watching(threshold=0.8)
    other.update(made(50, seed=2), time=2.0)
    rows = (monitor + other).history
    z = np.concatenate([made(250, seed=1)[200:], made(50, seed=2)])
    assert rows[-1]["accepted_share"] == (softmax(z / T).max(axis=1) >= 0.8).mean()
    with pytest.raises(tepid.InputError, match="must share their reference"):
        monitor + watching(threshold=0.7)


def test_the_log_has_a_line_for_each_chunk(tmp_path):
    path = tmp_path / "log.jsonl"
    monitor = Monitor.from_reference(made(1000), T, chunk=100, outputs=Outputs(log=path))
    monitor.update(made(350))
    assert read_log(path) == monitor.history
    monitor.finish()
    assert read_log(path) == monitor.history
    assert len(path.read_text().splitlines()) == 4


def test_a_torn_last_line_is_ignored_and_then_mended(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"chunk": 0, "rows": 5}\n{"chunk": 1, "ro')
    assert read_log(path) == [{"chunk": 0, "rows": 5}]
    monitor = Monitor.from_reference(made(1000), T, chunk=100, outputs=Outputs(log=path))
    monitor.update(made(100))
    assert [row["rows"] for row in read_log(path)] == [100]  # chunk 0 again: the later counts
    assert len(path.read_bytes().splitlines()) == 2


@pytest.mark.parametrize("line", [b"no json", b"[1]", b'{"rows": 3}', b""])
def test_a_broken_line_of_a_log_is_named(tmp_path, line):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"chunk": 0}\n' + line + b"\n")
    with pytest.raises(tepid.InputError, match="in line 2"):
        read_log(path)


# Replicas


def test_replicas_add_to_one_that_has_seen_all():
    z = made(90, seed=1)
    one, two, all_of_it = watching(), watching(), watching()
    one.update(z[:50], time=1.0)
    two.update(z[50:], time=2.0)
    all_of_it.update(z[:50], time=1.0)
    all_of_it.update(z[50:], time=2.0)
    same(one + two, all_of_it)
    same(two + one, all_of_it)
    same(Monitor.merged([one, watching(), two]), all_of_it)


def test_merged_replicas_keep_their_chunks_in_the_order_of_time():
    one, two = watching(), watching()
    one.update(made(150, seed=1), time=2.0)
    two.update(made(160, seed=2), time=1.0)
    both = one + two
    assert [row["end"] for row in both.history] == [1.0, 2.0, 2.0]
    assert [row["chunk"] for row in both.history] == [0, 1, 2]
    assert both.history[-1]["rows"] == 110  # the two open ones, together more than a chunk
    assert both.reading()["rows_open"] == 0
    assert both.reading()["chunks_total"] == 3
    assert both.reading()["rows_total"] == 310
    assert one.reading()["rows_total"] == 150


def test_open_chunks_that_together_are_one_are_closed():
    one, two = watching(), watching()
    one.update(made(60))
    two.update(made(40))
    assert [row["rows"] for row in (one + two).history] == [100]


def minutes():
    times = np.repeat(np.arange(10) * 60.0, 100)
    return Monitor.from_reference(made(1000), T, period=60, times=times)


def test_periods_that_replicas_share_become_one():
    one, two, all_of_it = minutes(), minutes(), minutes()
    z = made(300, seed=1)
    for i, time in enumerate([0.0, 60, 120]):
        part = z[100 * i : 100 * i + 100]
        one.update(part[:30], time=time)
        two.update(part[30:] * (3 if i == 0 else 1), time=time + 1)
        all_of_it.update(part[:30], time=time)
        all_of_it.update(part[30:] * (3 if i == 0 else 1), time=time + 1)
    same(one + two, all_of_it)
    assert (one + two).reading()["alerts_total"] == 1


def test_a_replica_that_has_fallen_behind_does_not_hold_a_period_open():
    one, two = minutes(), minutes()
    one.update(made(30), time=0.0)
    two.update(made(40), time=1.0)
    two.update(made(50), time=61.0)
    for both in (one + two, two + one):
        assert [row["rows"] for row in both.history] == [70]
        assert both.reading()["rows_open"] == 50
        assert both.window.weight == 70
    two.update(made(1), time=121.0)
    for both in (one + two, two + one):
        assert [row["rows"] for row in both.history] == [70, 50]
        assert both.window.weight == 50


def test_monitors_of_different_references_or_rules_do_not_add():
    other = Monitor.from_reference(made(1000, seed=1), T, chunk=100)
    names = f"{watching().reference.fingerprint} and {other.reference.fingerprint}"
    with pytest.raises(tepid.InputError, match=f"must share their reference, got {names}"):
        watching() + other
    with pytest.raises(tepid.InputError, match=r"share their false_alarms, got 0.01 and 0.05"):
        watching() + watching(false_alarms=0.05)
    watching(seed=1) + watching(seed=2)
    with pytest.raises(tepid.InputError, match="must be one or more, got none"):
        Monitor.merged([])


# Prometheus


@pytest.fixture
def client():
    try:
        return importlib.import_module("prometheus_client.parser")
    except ImportError:
        if "CI" in os.environ:
            raise
        pytest.skip("prometheus-client, of the extra `online`, is not installed")


def _metrics(client, text):
    families = list(client.text_string_to_metric_families(text.decode()))
    return families, {s.name: s.value for f in families for s in f.samples}


def test_prometheus_reads_the_numbers_of_the_monitor(client):
    monitor = watching(reestimate=True, threshold=0.5)
    families, values = _metrics(client, prometheus.exposition(monitor))
    assert values == {
        "tepid_temperature": T,
        "tepid_open_rows": 0,
        "tepid_rows_total": 0,
        "tepid_chunks_total": 0,
        "tepid_alerts_total": 0,
    }
    monitor.update(made(130, seed=1, scale=1.0))
    families, values = _metrics(client, prometheus.exposition(monitor))
    reading = monitor.reading()
    assert values["tepid_implied_accuracy_ratio"] == reading["implied_accuracy"]
    assert values["tepid_mean_confidence_ratio"] == reading["mean_confidence"]
    assert values["tepid_implied_accuracy_lower_ratio"] == reading["lower"]
    assert values["tepid_implied_accuracy_upper_ratio"] == reading["upper"]
    assert values["tepid_drift_score"] == reading["drift"] < -1
    assert values["tepid_accepted_share_ratio"] == reading["accepted_share"]
    assert values["tepid_accepted_share_lower_ratio"] == reading["accepted_lower"]
    assert values["tepid_accepted_share_upper_ratio"] == reading["accepted_upper"]
    assert values["tepid_accepted_drift_score"] == reading["accepted_drift"] < -1
    assert values["tepid_expected_precision_ratio"] == reading["expected_precision"]
    assert values["tepid_alert"] == values["tepid_alerts_total"] == 1
    assert values["tepid_estimated_temperature"] == reading["estimated_temperature"]
    assert (values["tepid_rows_total"], values["tepid_open_rows"]) == (130, 30)
    assert all(family.documentation.endswith(".") for family in families)
    kinds = {family.name: family.type for family in families}
    assert kinds["tepid_rows"] == "counter"
    assert kinds["tepid_alert"] == "gauge"


@pytest.mark.usefixtures("client")
def test_models_are_told_apart_by_a_label_and_served_over_http():
    monitor = watching()
    monitor.update(made(120))
    registry = prometheus.registered({"first": monitor, "second": watching()})
    assert registry.get_sample_value("tepid_rows_total", {"model": "first"}) == 120
    assert registry.get_sample_value("tepid_rows_total", {"model": "second"}) == 0
    server, thread = prometheus.serve({"first": monitor}, 0)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics") as answer:
            assert b'tepid_rows_total{model="first"} 120.0' in answer.read()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_without_the_extra_the_message_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(tepid.InputError, match=r"pip install 'tepid\[online\]'"):
        prometheus.exposition(watching())


SOME = 3 * np.random.default_rng(0).normal(size=(600, 4))


def test_a_log_that_is_none_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "doc.txt"
    for content in ("one line, no newline", "a line\nand another"):
        path.write_text(content)
        with pytest.raises(tepid.InputError):
            Monitor.from_reference(SOME, 1.5, chunk=100, outputs=Outputs(log=path))
        assert path.read_text() == content
    with pytest.raises(tepid.InputError, match="log must be in a folder that exists"):
        Monitor.from_reference(SOME, 1.5, chunk=100, outputs=Outputs(log=tmp_path / "no" / "x.log"))
