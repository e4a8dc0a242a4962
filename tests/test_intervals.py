"""Intervals: SciPy's bootstrap agrees, pairs are paired, and the draws are the seed's alone."""

import functools
import math

import numpy as np
import pytest
from scipy import stats

import tepid
from tepid import metrics
from tepid.metrics.from_rows import excess_of_counts

EVERY = ("accuracy", "confidence", "nll", "brier", "ece", "mce", "rmsce_debiased",
         "brier_calibration", "brier_refinement", "ece_equal_mass", "ece_classwise", "smooth_ece",
         "ks_error", "aurc", "eaurc")  # fmt: skip


def _softmax(z, temperature=1.0):
    return tepid.Temperature(
        temperature, "", samples=0, classes=z.shape[1], implied_accuracy=0
    )(z.astype(np.float64))  # fmt: skip


@pytest.fixture(scope="module")
def rows(network):
    """Labels, logits that are twice too sharp, and their probabilities."""
    z, y = network[0][:300], network[1][:300]
    return y, z, _softmax(z)


def _nlls(y, p):
    return -np.log(p[np.arange(len(y)), y])


def test_the_interval_of_a_mean_is_scipys(rows):
    y, _, p = rows
    found = metrics.bootstrap(metrics.nll, y, p, draws=4000, level=0.9)
    theirs = stats.bootstrap(
        (_nlls(y, p),), np.mean, confidence_level=0.9, n_resamples=4000, method="basic",
        random_state=np.random.default_rng(5),
    )  # fmt: skip
    assert found.value == pytest.approx(_nlls(y, p).mean())
    tenth = 0.1 * theirs.standard_error  # the draws' own error is a thirtieth
    assert found.low == pytest.approx(theirs.confidence_interval.low, abs=tenth)
    assert found.high == pytest.approx(theirs.confidence_interval.high, abs=tenth)
    assert (found.level, found.draws) == (0.9, 4000)


def test_the_interval_of_a_biased_measure_is_scipys_and_lies_low(rows):
    y, _, p = rows
    conf, right = p.max(axis=1), (p.argmax(axis=1) == y).astype(float)
    where = np.ceil(conf * 15).astype(int) - 1

    def ece(index, axis):
        assert axis == -1
        drawn = index.reshape(-1, len(y)).astype(int)
        flat = where[drawn] + 15 * np.arange(len(drawn))[:, None]
        gaps = np.bincount(flat.ravel(), (right - conf)[drawn].ravel(), 15 * len(drawn))
        return np.abs(gaps.reshape(-1, 15)).sum(axis=1).reshape(index.shape[:-1]) / len(y)

    theirs = stats.bootstrap(
        (np.arange(len(y)),), ece, n_resamples=4000, method="basic", vectorized=True,
        random_state=np.random.default_rng(5),
    )  # fmt: skip
    found = metrics.bootstrap(metrics.ece, y, p, draws=4000)
    fifth = 0.2 * theirs.standard_error
    assert found.low == pytest.approx(theirs.confidence_interval.low, abs=fifth)
    assert found.high == pytest.approx(theirs.confidence_interval.high, abs=fifth)
    # The draws are biased upwards once more, so the basic interval reaches further down than up.
    assert found.value - found.low > 1.1 * (found.high - found.value)


def test_a_difference_is_paired(rows):
    y, z, p = rows
    after = _softmax(z, 2.0)
    found = metrics.difference(metrics.nll, y, p, after, draws=4000)
    theirs = stats.bootstrap(
        (_nlls(y, after) - _nlls(y, p),), np.mean, n_resamples=4000, method="basic",
        random_state=np.random.default_rng(5),
    )  # fmt: skip
    assert found.value == metrics.nll(y, after) - metrics.nll(y, p) < 0
    tenth = 0.1 * theirs.standard_error
    assert found.low == pytest.approx(theirs.confidence_interval.low, abs=tenth)
    assert found.high == pytest.approx(theirs.confidence_interval.high, abs=tenth)
    one, other = (metrics.bootstrap(metrics.nll, y, q) for q in (p, after))
    assert found.high - found.low < other.high - other.low < one.high - one.low


def test_one_drawing_gives_both_intervals_and_their_difference(rows):
    y, z, p = rows
    after = _softmax(z, 2.0)
    each = [metrics.bootstrap(metrics.ece, y, q, draws=30, seed=2) for q in (p, after)]
    change = metrics.difference(metrics.ece, y, p, after, draws=30, seed=2)
    found = metrics.intervals.compared(metrics.ece, y, p, after, draws=30, seed=2)
    assert found == (*each, change)


def test_infinite_measures_have_no_interval_and_raise_no_warning():
    y, sure, known = [1, 0, 0], [[1.0, 0.0]] * 3, [[0.5, 0.5]] * 3
    for before, after in ((sure, sure), (sure, known), (known, sure)):
        one, other, change = metrics.intervals.compared(metrics.nll, y, before, after, draws=5)
        assert math.isinf(one.value) == (before is sure)
        assert math.isinf(other.value) == (after is sure)
        assert not math.isfinite(change.value)
        assert math.isnan(change.low)
        assert math.isnan(change.high)


@pytest.mark.parametrize("name", EVERY)
def test_a_measure_does_not_differ_from_itself(name, rows):
    y, _, p = rows
    found = metrics.difference(getattr(metrics, name), y, p, p, draws=5)
    assert (found.value, found.low, found.high) == (0, 0, 0)


@pytest.mark.parametrize("name", EVERY)
def test_rows_checked_once_give_what_rows_checked_at_each_draw_do(name, rows):
    y, _, p = rows
    measure = getattr(metrics, name)

    def own(labels, probabilities, *, sample_weight):
        return measure(labels, probabilities, sample_weight=sample_weight)

    found, slow = (metrics.bootstrap(m, y, p, draws=20, level=0.5) for m in (measure, own))
    assert found.value == pytest.approx(measure(y, p))
    assert found.low == pytest.approx(max(slow.low, 0), rel=1e-5)
    assert found.high == pytest.approx(slow.high, rel=1e-5)
    assert found.low <= found.high


def test_the_seed_is_the_only_chance(rows):
    y, _, p = rows
    first = metrics.bootstrap(metrics.ece, y, p, draws=50, seed=3)
    assert first == metrics.bootstrap(metrics.ece, y, p, draws=50, seed=3)
    assert first != metrics.bootstrap(metrics.ece, y, p, draws=50, seed=4)
    assert first.value == metrics.ece(y, p)


def test_one_draw_is_an_interval_of_no_width(rows):
    y, _, p = rows
    found = metrics.bootstrap(metrics.nll, y, p, draws=1)
    assert found.low == found.high != found.value


def test_a_higher_level_is_wider(rows):
    y, _, p = rows
    narrow, wide = (metrics.bootstrap(metrics.brier, y, p, level=v) for v in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high
    # A normal one would be 2.576 / 0.674 times as wide.
    assert (wide.high - wide.low) / (narrow.high - narrow.low) == pytest.approx(3.8, rel=0.15)


def test_bins_are_set_by_a_partial(rows):
    y, _, p = rows
    three = functools.partial(metrics.ece, bins=3)
    found = metrics.bootstrap(three, y, p, draws=50)
    assert found.value == metrics.ece(y, p, bins=3) != metrics.ece(y, p)
    other = metrics.bootstrap(
        lambda y, p, sample_weight: metrics.ece(y, p, bins=3, sample_weight=sample_weight),
        y, p, draws=50,
    )  # fmt: skip
    assert found.high == pytest.approx(other.high)


@pytest.mark.parametrize(("temperature", "scale"), [(1.0, 1.0), (3.0, 1.0), (3.0, 0.5)])
def test_tabulated_losses_give_the_excess_of_every_draw(rows, temperature, scale):
    y, z = rows[0], scale * rows[1]
    quick = excess_of_counts(y, z, temperature)
    rng = np.random.default_rng(0)
    for counts in (np.ones(len(y)), *(rng.poisson(1.0, len(y)).astype(float) for _ in range(5))):
        exact = metrics.excess_nll(y, z, temperature=temperature, sample_weight=counts)
        assert quick(counts) == pytest.approx(exact, abs=2e-6)
    # Few rows, whose own best temperature lies far from that of all.
    lonely = np.zeros(len(y))
    lonely[np.flatnonzero(z.argmax(axis=1) != y)[:4]] = 1.0
    exact = metrics.excess_nll(y, z, temperature=temperature, sample_weight=lonely)
    assert quick(lonely) == pytest.approx(exact, abs=2e-6)


def test_an_interval_is_of_a_thousand_draws_unless_told(rows):
    y, _, p = rows
    assert metrics.bootstrap(metrics.ece, y, p) == metrics.bootstrap(metrics.ece, y, p, draws=1000)
    assert metrics.bootstrap(metrics.ece, y, p) != metrics.bootstrap(metrics.ece, y, p, draws=999)
    default = metrics.difference(metrics.nll, y, p, p[:, ::-1])
    assert default == metrics.difference(metrics.nll, y, p, p[:, ::-1], draws=1000)


def test_excess_nll_has_an_interval_from_logits(rows):
    y, z, _ = rows
    found = metrics.bootstrap(metrics.excess_nll, y, z, draws=60)
    assert found.value == pytest.approx(metrics.excess_nll(y, z), abs=1e-6)
    assert 0 < found.low < found.value < found.high
    better = metrics.difference(metrics.excess_nll, y, z, z / 2, draws=60)
    assert better.low < better.value < better.high < 0
    hot = functools.partial(metrics.excess_nll, temperature=2.0)
    assert metrics.bootstrap(hot, y, z, draws=3).value == pytest.approx(
        metrics.excess_nll(y, z, temperature=2.0), abs=1e-6
    )


@pytest.mark.parametrize("better", [True, False])
def test_excess_nll_of_any_counts_is_that_of_the_weighted_rows(better):
    """The best temperature of the draws runs through the table and out of it, at both ends."""
    rng = np.random.default_rng(1)
    z = 3 * rng.normal(size=(300, 3))
    y = (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)
    excess = excess_of_counts(y, z)
    for often in np.geomspace(1, 60, 25):
        counts = np.where((z.argmax(axis=1) == y) == better, often, 1.0)
        exact = metrics.excess_nll(y, z, sample_weight=counts)
        assert excess(counts) == pytest.approx(exact, abs=2e-5)


def test_an_interval_ends_where_the_measure_does():
    y, p = [0] * 19 + [1], [[0.97, 0.03]] * 20
    assert metrics.bootstrap(metrics.accuracy, y, p).high == 1
    assert metrics.bootstrap(metrics.ece, y, p).low == 0

    def below(labels, probabilities, *, sample_weight):
        return metrics.accuracy(labels, probabilities, sample_weight=sample_weight) - 0.95

    assert metrics.bootstrap(below, y, p).high > 0.05
    assert metrics.bootstrap(below, y, p).low < 0
    assert metrics.difference(metrics.nll, y, p, [[0.96, 0.04]] * 20).low < 0


@pytest.mark.parametrize(
    "name",
    ["accuracy", "ece", "mce", "ece_equal_mass", "ece_classwise", "ks_error", "aurc", "smooth_ece"],
)
def test_no_interval_ends_above_the_greatest_value(name):
    """Confident and wrong in 18 of 20 rows, or the other way round."""
    right, wrong = [0] * 18 + [1] * 2, [1] * 18 + [0] * 2
    labels = right if name == "accuracy" else wrong
    found = metrics.bootstrap(getattr(metrics, name), labels, [[1.0, 0.0]] * 20, draws=200)
    assert found.value < 1
    assert found.high == 1


def test_what_is_not_finite_has_no_interval():
    found = metrics.bootstrap(metrics.nll, [1, 0], [[1.0, 0.0], [0.5, 0.5]], draws=10)
    assert found.value == math.inf
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    none = metrics.bootstrap(metrics.ece, [], np.zeros((0, 3)), draws=10)
    assert all(math.isnan(v) for v in (none.value, none.low, none.high))

    def sometimes(*_, sample_weight):
        return 1.0 if sample_weight[0] == 1 else math.nan

    odd = metrics.bootstrap(sometimes, [0, 1], [[0.5, 0.5]] * 2, draws=10)
    assert odd.value == 1
    assert math.isnan(odd.low)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 0.0}, "level must be between 0 and 1, got 0.0"),
        ({"level": 1.0}, "level must be between 0 and 1, got 1.0"),
        ({"level": 95}, "level must be between 0 and 1, got 95"),
        ({"level": math.nan}, "level must be between 0 and 1, got nan"),
        ({"draws": 0}, "draws must be at least 1, got 0"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
    ],
)
def test_options_that_are_none_are_refused(options, message):
    for use in (
        lambda: metrics.bootstrap(metrics.ece, [0], [[0.5, 0.5]], **options),
        lambda: metrics.difference(metrics.ece, [0], [[0.5, 0.5]], [[0.5, 0.5]], **options),
    ):
        with pytest.raises(tepid.InputError, match=message):
            use()


def test_input_is_refused_by_row_before_anything_is_drawn(rows):
    y, _, p = rows
    with pytest.raises(tepid.InputError, match=r"labels must be in 0..11, got 12 at row 4"):
        metrics.bootstrap(metrics.ece, np.where(np.arange(300) == 4, 12, y), p)
    with pytest.raises(tepid.InputError, match=r"one entry for each of the 299 rows"):
        metrics.difference(metrics.ece, y, p, p[1:])
    weighted = functools.partial(metrics.nll, sample_weight=np.ones(300))
    with pytest.raises(tepid.InputError, match="measure must leave sample_weight to the draws"):
        metrics.bootstrap(weighted, y, p)
    with pytest.raises(tepid.InputError, match="since rows are drawn, got a Reliability"):
        metrics.bootstrap(metrics.ece, tepid.summaries.Reliability.zero(), None)


@pytest.mark.slow
def test_the_interval_of_nll_holds_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(11)
    z = 3 * rng.normal(size=(200_000, 10))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    p = _softmax(z)
    truth = metrics.nll(y, p)
    parts = np.split(np.arange(100_000), 500)
    held = [
        found.low <= truth <= found.high
        for part in parts
        for found in [metrics.bootstrap(metrics.nll, y[part], p[part], draws=300)]
    ]
    assert 0.91 < np.mean(held) < 0.98
