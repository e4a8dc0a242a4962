"""The formulas of the summaries and of the posterior, each against a direct computation."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import trapezoid
from scipy.interpolate import BPoly
from scipy.optimize import brentq
from scipy.special import log_softmax, softmax

import tepid
from tepid.methods.accuracy import estimate, estimate_groups
from tepid.methods.passes import Place, shrink_groups, shrinkage_note
from tepid.methods.search import Question, locate
from tepid.posterior import model
from tepid.posterior.sums import Entropies
from tepid.posterior.verdicts import labels_to_halve
from tepid.sources import Batch
from tepid.summaries import Curve, Lattice, Reliability, Tails, optimum
from tepid.summaries.clusters import (
    BUCKETS,
    ClusterSums,
    buckets_of_names,
    buckets_of_numbers,
    label_scores,
)
from tepid.summaries.optimum import Interpolant, LeastLoss, MatchingConfidence
from tepid.summaries.reliability import wilson_interval

LATTICES = [Lattice.window(), Lattice.window(-2, 3, 1), Lattice.window(-3, 1, 4)]


@pytest.fixture(scope="module")
def rows():
    """Logits with ties, labels and weights of 300 rows."""
    rng = np.random.default_rng(5)
    z = np.round(2 * rng.normal(size=(300, 4)), 1)
    labels = (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)
    return z, labels, rng.integers(1, 4, len(z)).astype(float)


@pytest.fixture(scope="module")
def labeled(rows):
    z, labels, u = rows
    return Curve.of(z, labels=labels, sample_weight=u)


@pytest.fixture(scope="module")
def means(rows):
    """The means over rows of one weight, in which the predicted class is the label."""
    return model.RowMeans.of(Curve.of(rows[0], labels=rows[0].argmax(axis=1)))


# --- summaries


@pytest.mark.parametrize("lattice", LATTICES)
def test_a_curve_is_the_sum_over_rows_at_every_node(rows, lattice):
    z, labels, u = rows
    theta = Tails.of(z, sample_weight=u).thresholds()
    curve = Curve.of(z, lattice=lattice, thresholds=theta, labels=labels, sample_weight=u, bins=7)
    d = z - z.max(axis=1, keepdims=True)
    chosen = softmax(z, axis=1) >= theta
    pairs = u[:, None] * np.stack([chosen, np.eye(4)[labels]])
    own = pairs.sum(axis=2)
    np.testing.assert_allclose(curve.pairs, own.sum(axis=1))
    np.testing.assert_allclose(curve.pull, (pairs * d).sum(axis=(1, 2)))
    np.testing.assert_allclose(curve.flat, (own * d.mean(axis=1)).sum(axis=1), rtol=1e-6)
    np.testing.assert_allclose(curve.spread, (u * d.mean(axis=1)).sum(), rtol=1e-6)
    np.testing.assert_allclose(curve.softest, u.sum() / 4)
    np.testing.assert_allclose(curve.sharpest, (u / (d == 0).sum(axis=1)).sum())
    assert (curve.rows, curve.weight, curve.weight_square) == (300, u.sum(), (u**2).sum())
    for q, beta in enumerate(curve.lattice.nodes):
        p = softmax(beta * d, axis=1)
        mean = (p * d).sum(axis=1)
        variance = (p * d**2).sum(axis=1) - mean**2
        loss = -(pairs * log_softmax(beta * d, axis=1)).sum(axis=(1, 2))
        np.testing.assert_allclose(curve.loss[:, q], loss, rtol=1e-5)
        parts = own * mean - (pairs * d).sum(axis=2)  # per row in L'
        np.testing.assert_allclose(curve.slope[:, q], parts.sum(axis=1), rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(curve.curvature[:, q], own @ variance, rtol=1e-5)
        top = p.max(axis=1)
        np.testing.assert_allclose(curve.confidence[q], u @ top, rtol=1e-6)
        np.testing.assert_allclose(curve.confidence_square[q], u @ top**2, rtol=1e-5)
        np.testing.assert_allclose(curve.confidence_slope[q], u @ -(top * mean), rtol=1e-5)
        bend = u @ (top * (mean**2 - variance))
        np.testing.assert_allclose(curve.confidence_curvature[q], bend, rtol=1e-4, atol=1e-3)
        right = d[np.arange(len(z)), labels] == 0
        right &= d.argmax(axis=1) == labels
        edges = np.linspace(0, 1, 8)
        where = np.searchsorted(edges, top.astype(np.float32), side="left") - 1
        for i, values in enumerate((u, u * top, u * right)):
            binned = np.bincount(where, values, 7)
            np.testing.assert_allclose(curve.histogram[q, i], binned, rtol=1e-5, atol=1e-6)


def test_the_squared_parts_of_a_slope_are_those_of_its_rows(rows):
    z, labels, _ = rows
    curve = Curve.of(z, labels=labels)
    d = z - z.max(axis=1, keepdims=True)
    for q, beta in enumerate(curve.lattice.nodes):
        parts = (softmax(beta * d, axis=1) * d).sum(axis=1) - d[np.arange(len(z)), labels]
        np.testing.assert_allclose(curve.square[0, q], (parts**2).sum(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("low", "high", "per_octave"), [(-5, 5, 2), (-2, 3, 1), (-3, 1, 4)])
def test_nodes_are_powers_of_two_with_equal_ratios(low, high, per_octave):
    lattice = Lattice.window(low, high, per_octave)
    expected = 2.0 ** np.linspace(low, high, (high - low) * per_octave + 1)
    np.testing.assert_allclose(lattice.nodes, expected, rtol=1e-7)
    assert (lattice.per_octave, lattice.unit) == (per_octave, 2.0**low)


@pytest.mark.parametrize("wrong", [(1, 1, 2), (2, 1, 2), (0, 1, 0)])
def test_a_window_spans_an_octave(wrong):
    with pytest.raises(tepid.InputError, match="octave"):
        Lattice.window(*wrong)


def test_the_smallest_window_is_one_octave_with_one_step():
    np.testing.assert_array_equal(Lattice.window(0, 1, 1).nodes, [1.0, 2.0])


def test_the_unit_of_one_node_is_the_power_of_two_at_or_below():
    for temperature, unit in ((1.0, 1.0), (0.9, 1.0), (1.1, 0.5), (4.0, 0.25), (0.2, 4.0)):
        assert Lattice.point(temperature).unit == unit


def test_thresholds_are_one_for_each_class(rows):
    with pytest.raises(tepid.InputError, match="one entry per class, got 3 for 4"):
        Curve.of(rows[0], thresholds=np.zeros(3))


def test_thresholds_are_mean_and_deviation_where_the_class_is_not_predicted(rows):
    z, _, u = rows
    p, others = softmax(z, axis=1), z.argmax(axis=1)[:, None] != np.arange(4)
    for deviations in (0.0, 1.0, 2.5):
        n = (u[:, None] * others).sum(axis=0)
        mean = (u[:, None] * others * p).sum(axis=0) / n
        variance = (u[:, None] * others * (p - mean) ** 2).sum(axis=0) / n
        expected = mean + deviations * np.sqrt(variance)
        found = Tails.of(z, sample_weight=u).thresholds(deviations)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_summary_of_no_rows_changes_nothing(rows, labeled):
    z, labels, _ = rows
    reliability = Reliability.of(softmax(z, axis=1), labels)
    for zero, value in (
        (Tails.zero(4), Tails.of(z)),
        (Curve.zero(4, labeled=True), labeled),
        (Reliability.zero(), reliability),
        (Reliability.zero(4), Reliability.of(softmax(z, axis=1), labels, bins=4)),
    ):
        assert zero + value == value == value + zero
        assert 0.0 * value == zero
        with pytest.raises(tepid.InputError, match="one kind"):
            value + (Tails.of(z) if value is labeled else labeled)
    assert Reliability.zero().bins == 15


def test_equality_of_summaries_is_relative_to_their_sums(rows):
    z, labels, _ = rows
    p = softmax(z, axis=1)
    for one, other in (
        (Tails.of(z), Tails.of(z[:-1])),
        (Curve.of(z), Curve.of(z[:-1])),
        (Reliability.of(p, labels), Reliability.of(p[:-1], labels[:-1])),
    ):
        for factor in (1e-15, 1.0, 1e15):
            assert factor * one == one * factor
            assert factor * one == factor * (1 + 1e-12) * one
            assert factor * one != factor * other
            assert factor * other != factor * one
            assert factor * one != 2 * factor * one


def test_wilson_intervals_are_those_of_scipy():
    for correct, count in ((0, 5), (5, 5), (8, 10), (1, 300), (150, 300)):
        found = wilson_interval(np.array([float(correct)]), np.array([float(count)]))
        expected = stats.binomtest(correct, count).proportion_ci(method="wilson")
        np.testing.assert_allclose(np.ravel(found), expected, atol=1e-12)
    assert np.isnan(wilson_interval(np.zeros(1), np.zeros(1))).all()


@pytest.mark.parametrize("count", [2, 3, 4, 6, 40])
def test_the_variance_of_cluster_sums_has_the_factor_of_student(count):
    """Cornish and Fisher's expansion errs by 4 % with three clusters, by 1 % with four."""
    rng = np.random.default_rng(count)
    cluster = rng.integers(count, size=500)
    cluster[:count] = np.arange(count)
    values, u = rng.normal(size=500), rng.random(500)
    numbers = np.stack([np.bincount(cluster, w, count) for w in (u, u * values)])
    gaps = numbers[1] - numbers[0] * numbers[1].sum() / numbers[0].sum()
    ratio = stats.t.ppf(0.975, count - 1) / stats.norm.ppf(0.975)
    expected = (gaps**2).sum() * count / (count - 1) * ratio**2
    sums = ClusterSums.of(values, u, 17 * cluster)
    error = {2: 0.65, 3: 0.07, 4: 0.016}.get(count, 3e-3)
    assert sums.count == count
    assert sums.variance == pytest.approx(expected, rel=error)
    both = ClusterSums.of(values[:50], u[:50], cluster[:50])
    both += ClusterSums.of(values[50:], u[50:], cluster[50:])
    assert both.variance == pytest.approx(sums.variance)
    assert ClusterSums.of(values, u, np.full(500, 7)).variance is None


def test_scores_of_labels_are_derivatives_of_their_likelihood(rows):
    z, labels, _ = rows
    masked = np.where((np.arange(4) == 3) & (labels[:, None] != 3), -np.inf, z)
    at = np.arange(len(z))
    for logits in (z, masked):
        for temperature in (0.5, 1.0, 3.0):
            above, below = (
                log_softmax(logits / (temperature * math.exp(h)), axis=1)[at, labels]
                for h in (1e-5, -1e-5)
            )
            found = label_scores(logits, labels, temperature)
            np.testing.assert_allclose(found, (above - below) / 2e-5, atol=1e-5)


def test_far_apart_and_consecutive_clusters_fall_into_different_buckets():
    for step in (1, 2, 3, 32, 1024, 4096, 10**6):
        buckets = buckets_of_numbers(step * np.arange(1024), "rows")
        # 1024 balls in 1024 boxes leave 377 empty on average.
        assert len(np.unique(buckets)) > 550
        assert (buckets.min() >= 0) & (buckets.max() < BUCKETS)
    assert len(np.unique(buckets_of_numbers(np.arange(1024), "rows"))) == 1024
    names = np.array(["b", "a", "b", "c"])
    assert len(np.unique(buckets_of_names(names))) == 3
    assert buckets_of_names(names)[0] == buckets_of_names(names[2:])[0]
    many = buckets_of_names(np.arange(5000).astype(str))
    assert (many.min() >= 0) & (many.max() < BUCKETS)
    assert np.bincount(many, minlength=BUCKETS).max() < 20


# --- interpolation


def test_a_hermite_quintic_is_that_of_scipy():
    rng = np.random.default_rng(0)
    nodes = np.cumsum(0.3 + rng.random(6))
    values = rng.normal(size=(6, 3))
    exact = BPoly.from_derivatives(nodes, values)
    found = Interpolant.of(nodes, *values.T)
    x = np.linspace(nodes[0], nodes[-1], 101)
    for order in range(4):
        np.testing.assert_allclose(found(x, order), exact(x, order), rtol=1e-8, atol=1e-8)


def test_the_root_of_a_rising_polynomial_is_found_to_rounding():
    nodes = np.array([2.0, 3.0, 3.5])
    for polynomial in (
        (-0.5, 1.0), (-0.001, 0.0, 0.0, 1.0), (-1.0, 0.5, 0.5, 1e-3), (-0.2, 0.0, 5.0, -3.0),
        (-1e-9, 1.0), (-0.9999, 1.0), (-0.3, 0.01, 0.0, 0.0, 0.0, 20.0),
    ):  # fmt: skip
        root = brentq(np.polynomial.Polynomial(polynomial), 0, 1, xtol=1e-15)
        for q in (0, 1):
            f = np.polynomial.Polynomial(polynomial, domain=nodes[q : q + 2], window=[0, 1])
            along = Interpolant.of(nodes, f(nodes), f.deriv()(nodes), f.deriv(2)(nodes))
            expected = nodes[q] + root * (nodes[q + 1] - nodes[q])
            assert along.rises_through_zero(q) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("lattice", LATTICES)
def test_a_temperature_is_read_in_every_interval_of_the_lattice(rows, lattice):
    z, labels, _ = rows
    best = optimum.least_loss(Curve.of(z, labels=labels)).temperature
    nodes = lattice.nodes
    least = optimum.INTERPOLATION[lattice.per_octave]
    for low, high in itertools.pairwise(nodes):
        for share in (0.02, 0.5, 0.98):
            temperature = 1 / (low ** (1 - share) * high**share)
            curve = Curve.of(z * (temperature / best), labels=labels, lattice=lattice)
            found = optimum.least_loss(curve)
            assert found.where == "inside"
            assert found.temperature == pytest.approx(temperature, rel=least)
            accuracy = softmax(z / best, axis=1).max(axis=1).mean()
            found = optimum.matching_confidence(curve, accuracy)
            assert found.where == "inside"
            assert found.temperature == pytest.approx(temperature, rel=least)
    for factor, where, edge in ((1e3, "above", nodes[0]), (1e-3, "below", nodes[-1])):
        curve = Curve.of(factor * z, labels=labels, lattice=lattice)
        for found in (optimum.least_loss(curve), optimum.matching_confidence(curve, accuracy)):
            assert (found.where, found.temperature) == (where, 1 / edge)


def test_where_no_temperature_is_best_the_side_is_named(rows):
    z = rows[0]
    ends = Curve.of(z).lattice.nodes[[0, -1]]
    best = Curve.of(z, labels=z.argmax(axis=1), sample_weight=np.full(len(z), 0.37))
    assert optimum.least_loss(best) == optimum.Reading("beyond-zero", 1 / ends[1])
    worst = Curve.of(z, labels=z.argmin(axis=1))
    assert optimum.least_loss(worst) == optimum.Reading("beyond-infinity", 1 / ends[0])
    equal = Curve.of(0 * z, labels=z.argmax(axis=1))
    assert optimum.least_loss(equal).where == "nowhere"
    assert optimum.matching_confidence(equal, 0.5).where == "nowhere"
    nothing = Curve.of(z, labels=z.argmax(axis=1), sample_weight=np.zeros(len(z)))
    assert optimum.least_loss(nothing).where == "no-pairs"
    sharpest = best.sharpest / best.weight
    for accuracy, where in (
        (sharpest, "beyond-zero"), (sharpest - 1e-9, "below"), (sharpest + 1e-3, "beyond-zero"),
        (0.25, "beyond-infinity"), (0.2, "beyond-infinity"), (0.25 + 1e-5, "above"),
    ):  # fmt: skip
        assert optimum.matching_confidence(best, accuracy).where == where


def test_other_pairs_replace_those_of_a_curve_by_their_sum(rows):
    z, labels, u = rows
    predicted = Curve.of(z, labels=z.argmax(axis=1), sample_weight=u)
    exact = Curve.of(z, labels=labels, sample_weight=u)
    found = optimum.with_pull(predicted, float(exact.pull[0]))
    np.testing.assert_allclose(found.pull, exact.pull)
    np.testing.assert_allclose(found.loss, exact.loss, rtol=1e-9)
    np.testing.assert_allclose(found.slope, exact.slope, rtol=1e-6, atol=1e-6)


def test_losses_and_confidences_between_nodes_are_those_of_the_rows(rows, labeled):
    z, labels, u = rows
    loss, confidence = optimum.loss_along(labeled), optimum.confidence_along(labeled)
    for temperature in (0.05, 0.3, 0.99, 1.7, 5.0, 29.0):
        log_p = log_softmax(z / temperature, axis=1)
        exact = -(u * log_p[np.arange(len(z)), labels]).sum()
        top = u @ np.exp(log_p).max(axis=1)
        at = np.array([-math.log(temperature)])
        assert optimum.loss_at(labeled, temperature) == pytest.approx(exact, rel=1e-4)
        assert loss(at)[0] == pytest.approx(exact, rel=1e-4)
        assert optimum.confidence_at(labeled, temperature) == pytest.approx(top / u.sum(), rel=1e-4)
        assert confidence(at)[0] == pytest.approx(top, rel=1e-4)
    for outside, edge in ((1e-3, 2.0**-5), (1e3, 2.0**5)):
        assert optimum.loss_at(labeled, outside) == optimum.loss_at(labeled, edge)
        assert optimum.confidence_at(labeled, outside) == optimum.confidence_at(labeled, edge)


def test_a_step_from_a_near_temperature_finds_the_optimum_to_third_order(rows, labeled):
    z, labels, u = rows

    def slope(log_t):
        p = softmax(z * math.exp(-log_t), axis=1)
        return (u * ((p * z).sum(axis=1) - z[np.arange(len(z)), labels])).sum()

    def gap(log_t):
        return u @ softmax(z * math.exp(-log_t), axis=1).max(axis=1) / u.sum() - 0.7

    best, matched = brentq(slope, -3, 3, xtol=1e-14), brentq(gap, -3, 3, xtol=1e-14)
    for away in (-0.08, -0.04, 0.04, 0.08):
        temperature = math.exp(best + away)
        point = Curve.of(
            z, lattice=Lattice.point(temperature), labels=labels, sample_weight=u, bins=0
        )
        step = LeastLoss().step(point, labeled)
        assert abs(away + step) < abs(away) ** 3 + 2e-6
        point = Curve.of(
            z, lattice=Lattice.point(math.exp(matched + away)), sample_weight=u, bins=0
        )
        step = MatchingConfidence(0.7).step(point, labeled)
        assert abs(away + step) < abs(away) ** 3 + 2e-6


def test_stated_precisions_do_not_depend_on_how_often_the_rows_count():
    rng = np.random.default_rng(0)
    z = (1e-3 * rng.normal(size=(200, 3))).astype(np.float32)
    labels = (20 * z + rng.gumbel(size=z.shape)).argmax(axis=1)
    curve = Curve.of(z, labels=labels)
    point = Curve.of(z, labels=labels, lattice=Lattice.point(0.05), bins=0)
    for bound in (
        lambda c, _: LeastLoss().interpolation(c, 0.05),
        lambda c, _: MatchingConfidence(0.7).interpolation(c, 0.05),
        lambda _, p: LeastLoss().precision(p),
        lambda _, p: MatchingConfidence(0.7).precision(p),
    ):
        once = bound(curve, point)
        assert bound(1e-4 * curve, 1e-4 * point) == pytest.approx(once, rel=1e-9)
        assert bound(1e4 * curve, 1e4 * point) == pytest.approx(once, rel=1e-9)


def test_stated_precisions_are_rounding_over_steepness_at_the_temperature():
    rng = np.random.default_rng(0)
    z = (1e-2 * rng.normal(size=(200, 3))).astype(np.float32)
    labels = (20 * z + rng.gumbel(size=z.shape)).argmax(axis=1)
    curve = Curve.of(z, labels=labels)
    nodes, least = curve.lattice.nodes, optimum.INTERPOLATION[2]
    step = math.log(2) / 2
    for temperature in (0.04, 0.3, 1.7, 20.0):
        q = np.searchsorted(nodes, 1 / temperature) - 1
        two = slice(q, q + 2)
        bend = (nodes[two] ** 2 * curve.curvature[0, two]).min()
        bound = min(max(least, 1e-6 * 2 * curve.loss[0, two].max() / step / bend), 1.0)
        assert LeastLoss().interpolation(curve, temperature) == pytest.approx(bound, rel=1e-6)
        slope = (nodes[two] * curve.confidence_slope[two]).min()
        doubt = (curve.weight - curve.confidence[two]).max()
        bound = min(max(least, 1e-6 * doubt / slope), 1.0)
        assert MatchingConfidence(0.7).interpolation(curve, temperature) == pytest.approx(
            bound, rel=1e-6
        )
        point = Curve.of(z, labels=labels, lattice=Lattice.point(temperature), bins=0)
        beta = point.lattice.nodes[0]
        bound = 1e-6 * -point.pull[0] / (beta * point.curvature[0, 0])
        expected = min(max(optimum.EXACT, bound), 1.0)
        assert LeastLoss().precision(point) == pytest.approx(expected, rel=1e-6)
        bound = 1e-6 * (200 - point.confidence[0]) / (beta * point.confidence_slope[0])
        expected = min(max(optimum.EXACT, bound), 1.0)
        assert MatchingConfidence(0.7).precision(point) == pytest.approx(expected, rel=1e-6)


# --- the exact methods


def test_the_interval_of_temperature_scaling_is_the_sandwich(rows):
    z, labels, u = rows
    t = tepid.temperature_scaling(z, labels, sample_weight=u)
    d = z / t.value
    p = softmax(d, axis=1)
    mean = (p * d).sum(axis=1)
    scores = mean - d[np.arange(len(z)), labels]
    information = u @ ((p * d**2).sum(axis=1) - mean**2)
    error = math.sqrt(((u * scores) ** 2).sum()) / information
    np.testing.assert_allclose(
        np.log(t.interval) - math.log(t.value), [-1.96 * error, 1.96 * error], rtol=1e-4
    )
    one_pass = tepid.temperature_scaling(tepid.summarize(z, labels, sample_weight=u))
    np.testing.assert_allclose(one_pass.interval, t.interval, rtol=0.05)


def test_the_interval_of_clustered_labels_is_the_sandwich_of_their_clusters(rows):
    z, labels, u = rows
    t = tepid.temperature_scaling(z, labels, sample_weight=u)
    assert t.value > 1.5  # so that the scale of the scores matters
    scores = label_scores(z, labels, t.value)
    cluster = np.empty(300, np.int64)
    cluster[np.argsort(scores)] = np.arange(300) // 10  # rows that are alike lie together
    clustered = tepid.temperature_scaling(z, labels, sample_weight=u, clusters=cluster)
    x = z / t.value
    p = softmax(x, axis=1)
    information = u @ ((p * x**2).sum(axis=1) - (p * x).sum(axis=1) ** 2)
    error = math.sqrt(ClusterSums.of(scores, u, cluster).variance) / information
    np.testing.assert_allclose(
        np.log(clustered.interval) - math.log(t.value), [-1.96 * error, 1.96 * error], rtol=1e-4
    )
    assert clustered.interval[0] < t.interval[0]


def test_the_interval_of_a_matched_accuracy_has_both_errors(rows):
    z, _, u = rows
    plain, known = (tepid.match_accuracy(z, a, sample_weight=u) for a in (0.7, (0.7, 0.03)))

    def confidence(log_t):
        return softmax(z * math.exp(-log_t), axis=1).max(axis=1)

    at = math.log(plain.value)
    steepness = u @ (confidence(at - 1e-4) - confidence(at + 1e-4)) / 2e-4 / u.sum()
    spread = np.average((confidence(at) - 0.7) ** 2, weights=u) * (u**2).sum() / u.sum() ** 2
    for t, error in ((plain, 0.0), (known, 0.03)):
        wide = 1.96 * math.sqrt(spread + error**2) / steepness
        np.testing.assert_allclose(np.log(t.interval) - at, [-wide, wide], rtol=1e-3)
    ends = tepid.match_accuracy(z, tepid.Range(0.65, 0.75), sample_weight=u).interval
    exact = [tepid.match_accuracy(z, a, sample_weight=u).value for a in (0.75, 0.65)]
    np.testing.assert_allclose(ends, exact, rtol=1e-3)


@pytest.mark.parametrize("factor", [1e-6, 1e-3, 1.0, 300.0, 1e6])
def test_the_ends_of_the_search_follow_the_scale_of_the_logits(rows, factor):
    """Eight octaves from the mean distance to the largest logit, and five from T = 1 at least."""
    z = factor * rows[0]
    octave = -math.log2((z.max(axis=1, keepdims=True) - z).mean())
    lowest = tepid.temperature_scaling(z, z.argmax(axis=1))
    assert lowest.value == 2.0 ** -max(5, math.ceil(octave) + 8)
    highest = tepid.temperature_scaling(z, z.argmin(axis=1))
    assert highest.value == 2.0 ** -min(-5, math.floor(octave) - 8)
    assert (lowest.status, highest.status) == ("at-bound", "at-bound")


def _windows(passes, batch):
    """The octaves of 1/T of each pass, and what is found at last."""
    windows, total = [], None
    while True:
        try:
            total = passes.send(total).of(batch)
        except StopIteration as done:
            return windows, done.value
        windows.append(tuple(np.log2(total.lattice.nodes[[0, -1]])))


@pytest.mark.parametrize("octave", [-30, 30])
def test_each_window_of_a_search_adds_twelve_octaves_and_shares_one(rows, octave):
    """So a T that lies at the end of a window is found, at the same cost however far it is."""
    z, labels, _ = rows
    batch = Batch(2.0**octave * z, labels=labels)
    windows, (_, (reading,)) = _windows(locate(Question(labeled=True)), batch)
    far = [(-15, -2), (-27, -14), (-39, -26)] if octave > 0 else [(1, 14), (13, 26), (25, 38)]
    assert windows == [(-3, 2), *far]
    exact = tepid.temperature_scaling(z, labels).value
    assert reading.temperature / 2.0**octave == pytest.approx(exact, rel=optimum.INTERPOLATION[2])


def test_a_counted_accuracy_is_the_posterior_under_a_uniform_prior():
    for correct, checked in ((0, 1), (1, 1), (186, 200), (5, 9)):
        found = estimate(tepid.Counted(correct, checked))
        exact = stats.beta(correct + 1, checked - correct + 1)
        assert (found.value, found.error) == pytest.approx((exact.mean(), exact.std()))
    found = estimate(tepid.Range(0.9, 0.96))
    assert (found.value, found.error) == pytest.approx((0.93, 0.015))


def test_the_accuracy_of_all_rows_is_the_weighted_mean_of_the_groups():
    found = estimate_groups({"a": (0.9, 0.03), "b": (0.5, 0.04)}, {"a": 3.0, "b": 1.0})[None]
    assert (found.value, found.error) == pytest.approx((0.8, math.hypot(0.75 * 0.03, 0.25 * 0.04)))
    for groups in ({}, {"a": 3.0}, {"a": 3.0, "b": 1.0, "c": 1.0}):
        with pytest.raises(tepid.InputError, match="one entry for each group"):
            estimate_groups({"a": (0.9, 0.03), "b": (0.5, 0.04)}, groups)


def test_groups_are_shrunk_by_the_moments_of_dersimonian_and_laird():
    rng = np.random.default_rng(4)
    for count, apart in ((2, 0.5), (5, 0.3), (8, 0.0), (1, 0.7)):
        errors = 0.05 + 0.2 * rng.random(count)
        places = apart * rng.normal(size=count) + errors * rng.normal(size=count)
        groups = {str(i): Place(*each) for i, each in enumerate(zip(places, errors, strict=True))}
        pool = Place(0.1, 0.02)
        found = shrink_groups(pool, groups)
        w = errors**-2.0
        q = w @ (places - np.average(places, weights=w)) ** 2
        spare = w.sum() - (w**2).sum() / w.sum()
        variance = max(0.0, (q - count + 1) / spare) if count > 1 else 0.0
        kept = variance / (variance + errors**2)
        away = (1 - kept) * (places - pool.log_t)
        error = np.sqrt(
            kept * errors**2 + ((1 - kept) * pool.error) ** 2 + 2 / max(count - 1, 1) * away**2
        )
        np.testing.assert_allclose([f.kept for f in found.values()], kept)
        np.testing.assert_allclose([f.log_t for f in found.values()], places - away)
        np.testing.assert_allclose([f.error for f in found.values()], error)


def test_the_note_on_a_group_has_both_temperatures_and_the_share_that_it_keeps():
    note = shrinkage_note(2.345, 1.5, 1.0)
    assert "T = 2.345." in note
    assert "all rows, 1.5," in note
    assert "keeps 100 % of" in note
    assert "keeps 12 % of" in shrinkage_note(2.0, 1.0, 0.12)


def test_the_conditions_under_which_uts_fails_are_named_from_their_limits_on():
    rng = np.random.default_rng(0)
    z = 30 * rng.normal(size=(1000, 3))
    assert softmax(z, axis=1).max(axis=1).mean() > 0.95
    assert tepid.uts(z).warnings == ()
    assert "fewer than 1000 rows; there are 999" in tepid.uts(z[1:]).warnings[0]
    assert "mean confidence at T = 1 is" in tepid.uts(z / 30).warnings[0]
    one = np.column_stack([z.max(axis=1) + 0.1, z[:, 1:]])
    assert any("predicted as class 0" in each for each in tepid.uts(one).warnings)


# --- the posterior


def test_a_density_is_linear_between_its_points():
    rng = np.random.default_rng(1)
    grid = np.cumsum(0.1 + rng.random(9))
    density = model.Density.of([lambda u: np.log(1.2 + np.sin(3 * u))], grid)
    fine = np.union1d(grid, np.linspace(grid[0], grid[-1], 20_001))
    height = np.interp(fine, grid, density.height)
    assert trapezoid(height, fine) == pytest.approx(1, abs=1e-12)
    for at in (*fine[100:-1:997], *grid):
        below = trapezoid(height[fine <= at], fine[fine <= at])
        assert density.share_below(at) == pytest.approx(below, abs=1e-9)
        assert density.quantile(below) == pytest.approx(at, abs=1e-7)
    assert (density.share_below(grid[0] - 1), density.share_below(grid[-1] + 1)) == (0.0, 1.0)
    assert np.log(density.interval) == pytest.approx(
        [density.quantile(0.025), density.quantile(0.975)]
    )


def test_quantiles_are_exact_where_the_density_begins_or_vanishes():
    triangle = model.Density(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 0.0]))
    for share in (0.0, 0.02, 0.3, 0.5):
        assert triangle.quantile(share) == pytest.approx(math.sqrt(2 * share))
        assert triangle.quantile(1 - share) == pytest.approx(2 - math.sqrt(2 * share))
    gap = model.Density(np.arange(6.0), np.array([0.0, 0.5, 0.0, 0.0, 0.5, 0.0]))
    assert gap.quantile(0.25) == pytest.approx(1)
    assert gap.quantile(0.75) == pytest.approx(4)
    assert gap.share_below(2.5) == pytest.approx(0.5)


def test_moments_of_a_density_are_those_of_its_points_by_the_trapezoidal_rule():
    grid = np.unique(np.r_[np.linspace(-4, 4, 300), np.linspace(0, 0.4, 50)])
    density = model.Density.of([lambda u: -0.5 * ((u - 0.3) / 0.4) ** 2], grid)
    assert density.mean == pytest.approx(trapezoid(density.height * grid, grid), abs=1e-12)
    assert density.mean == pytest.approx(0.3, abs=1e-3)
    assert math.sqrt(density.variance) == pytest.approx(0.4, abs=1e-3)
    np.testing.assert_allclose(density.below, stats.norm.cdf(grid, 0.3, 0.4), atol=1e-3)
    assert not density.at_bound


@pytest.mark.parametrize(("center", "cut"), [(-1.0, True), (0.5, False), (2.0, True)])
def test_a_density_that_the_grid_cuts_off_is_at_its_bound(center, cut):
    grid = np.linspace(-1, 2, 400)
    assert model.Density.of([lambda u: -0.5 * ((u - center) / 0.2) ** 2], grid).at_bound is cut


@pytest.mark.parametrize("sd", [1.0, 0.05, 1e-3, 1e-6, 1e-9])
def test_a_grid_resolves_a_peak_of_any_width(sd):
    def peak(u):
        return -0.5 * ((u - 0.1234567) / sd) ** 2

    grid = model.make_grid(-3.0, 2.0, [(peak,)])
    assert (grid[0], grid[-1]) == (-3.0, 2.0)
    assert np.diff(grid).max() <= 0.01 + 1e-12
    density = model.Density.of((peak,), grid)
    if sd < 0.5:
        assert density.mean == pytest.approx(0.1234567, abs=1e-3 * sd)
        assert math.sqrt(density.variance) == pytest.approx(sd, rel=1e-2)
        assert len(grid) < 1000


def test_the_terms_are_the_logarithms_of_their_densities(means):
    u = np.linspace(-2, 2, 41)

    def equal(term, log_density):
        difference = term(u) - log_density
        np.testing.assert_allclose(difference, difference[0], atol=1e-9)

    equal(model.prior_term(None, 0.3), stats.norm.logpdf(u, 0.3, model.ALONE))
    sd = np.where(u < 0.3, model.LEFT, model.RIGHT)
    equal(model.prior_term(0.3), -0.5 * ((u - 0.3) / sd) ** 2)
    error = math.hypot(0.02, model.MISFIT * 0.3)
    equal(model.accuracy_term(means, 0.7, 0.02), stats.norm.logpdf(means.top(u), 0.7, error))
    error = math.hypot(0.02, model.MISFIT * model.LEAST_ERROR)
    equal(model.accuracy_term(means, 0.999, 0.02), stats.norm.logpdf(means.top(u), 0.999, error))
    readings = [(0.2, 0.3), (-1.0, 0.1)]
    mixture = 0.9 * np.mean([stats.norm.pdf(u, *reading) for reading in readings], axis=0)
    equal(model.reading_term(readings, 0.1), np.log(mixture + 0.1 / 6))


def test_labels_are_worth_their_likelihood(rows, labeled):
    z, labels, weight = rows
    u = np.linspace(-2, 2, 21)
    exact = [
        (weight * log_softmax(z * math.exp(-x), axis=1)[np.arange(len(z)), labels]).sum() for x in u
    ]
    np.testing.assert_allclose(model.label_term(labeled)(u), exact, rtol=1e-4)
    twice = model.label_term(labeled + labeled)
    np.testing.assert_allclose(twice(u), 2 * np.array(exact), rtol=1e-4)
    half = model.label_term(labeled, design_effect=2.0)
    np.testing.assert_allclose(half(u), np.array(exact) / 2, rtol=1e-4)


def test_the_means_over_rows_are_those_of_the_softmax(rows, means):
    z = rows[0]
    d = z - z.max(axis=1, keepdims=True)
    grid = np.linspace(-3, 3, 601)
    for u in (-1.5, -0.2, 0.0, 0.7, 2.0):
        x, at = d * math.exp(-u), np.array([u])
        p = softmax(x, axis=1)
        distance = (p * d).sum(axis=1)
        assert means.log_sum_exp(at)[0] == pytest.approx(
            np.log(np.exp(x).sum(axis=1)).mean(), rel=1e-4
        )
        assert means.distance(at)[0] == pytest.approx(distance.mean(), rel=1e-3)
        assert means.top(at)[0] == pytest.approx(p.max(axis=1).mean(), rel=1e-4)
        variance = (p * x**2).sum(axis=1) - (p * x).sum(axis=1) ** 2
        assert means.information(u) == pytest.approx(variance.mean(), rel=1e-3)
        found = means.solve_distance(float(means.distance(at)[0]), grid)
        assert found == pytest.approx(u, abs=1e-9)


def test_a_distance_is_solved_between_the_points_of_a_grid(means):
    grid = np.linspace(-3, 3, 601)
    for u in (-1.5037, -0.2049, 0.0051, 0.7013, 2.0068):
        found = means.solve_distance(float(means.distance(u)), grid)
        assert found == pytest.approx(u, abs=1e-9)
    for end in (-3.0, 3.0):
        beyond = float(means.distance(1.1 * end))
        assert means.solve_distance(beyond, grid) == pytest.approx(end, abs=1e-9)


def test_help_is_the_probability_that_the_truth_is_nearer_than_one(means):
    """If u0 is the truth, T helps where L(u) - M(u0) / T < L(0) - M(u0)."""
    grid = np.linspace(-2, 2, 4001)
    density = model.Density.of([lambda u: -0.5 * ((u - 0.2) / 0.3) ** 2], grid)
    for log_t in (-0.5, -0.1, 0.1, 0.4, 1.0):
        loss, one = means.log_sum_exp(np.array([log_t, 0.0]))
        distance = means.distance(grid)
        better = loss - distance * math.exp(-log_t) < one - distance
        expected = density.mass[better].sum()
        found = model.probability_of_help(means, density, log_t)
        assert found == pytest.approx(expected, abs=2e-3)
    assert model.probability_of_help(means, density, 0.0) == 0.0


def _normal(place, sd):
    return lambda u: stats.norm.logpdf(u, place, sd)


def test_a_temperature_that_is_kept_has_no_probability_of_help(means):
    prior, weak = _normal(0.3, 0.5), {"models": _normal(0.5, 0.2)}
    for alone, kept in ((0.0, True), (0.4, False)):
        for terms, models_are_weak in (({}, False), (weak, True)):
            found = model.combine(
                means, prior, terms, (-3.0, 3.0), alone=alone, weak_models=models_are_weak
            )
            assert (found.log_t, found.kept, found.identified) == (alone, kept, False)
            helps = None if kept else model.probability_of_help(means, found.density, alone)
            assert found.helps == helps
    believed = model.combine(means, prior, weak, (-3.0, 3.0), alone=0.0)
    assert (believed.identified, believed.kept) == (True, False)
    assert believed.log_t == believed.density.quantile(0.5)


def test_each_kind_is_in_tension_with_all_others_and_the_prior(means):
    prior, near, far = _normal(1.0, 0.8), _normal(1.0, 0.1), _normal(-0.5, 0.1)

    def tension(**terms):
        return model.combine(means, prior, terms, (-3.0, 3.0), alone=0.0).tension

    assert tension(labels=near, accuracy=far) == ("labels", "accuracy")
    assert tension(labels=far, accuracy=near) == ("labels", "accuracy")
    assert tension(labels=near, accuracy=near) == tension(labels=far) == ()


def test_entropies_give_the_share_of_rows_below_a_quantile_of_others(rows):
    """Average thresholded confidence, within the rows of one bin."""
    z, labels, u = rows
    older, rng = np.concatenate([z, 2 * z]), np.random.default_rng(2)
    target = 1.5 * rng.normal(size=(4000, 4))
    known = np.where(np.arange(600) % 3, np.r_[labels, labels], -1)
    weight = np.where(known >= 0, np.r_[u, u], 0.0)
    for temperature in (0.7, 2.0):
        one = Entropies.of(
            Batch(older, labels=known, weight=np.r_[u, u]), temperature, labeled=True
        )
        other = Entropies.of(Batch(target[:900]), temperature)
        other += Entropies.of(Batch(target[900:]), temperature)
        assert (one.weight, other.weight) == (weight.sum(), 4000)
        assert one.correct == weight @ (older.argmax(axis=1) == known)
        of_older, of_target = (
            stats.entropy(softmax(x / temperature, axis=1), axis=1) for x in (older, target)
        )
        order = np.argsort(of_older)
        below = np.cumsum(weight[order]) / weight.sum()
        for share in (0.05, 0.3, 0.6, 0.95):
            threshold = of_older[order][np.searchsorted(below, share)]
            place = one.quantile(share)
            assert other.share_below(place) == pytest.approx(
                (of_target < threshold).mean(), abs=0.02
            )
        assert one.quantile(1.0) >= one.quantile(0.5) >= one.quantile(0.0) >= 0
        assert (other.share_below(0.0), other.share_below(1e9)) == (0.0, 1.0)


def test_further_labels_halve_the_interval_or_none_can():
    for variance, information in ((0.04, 0.5), (1e-4, 0.3), (2.0, 1.0), (1.0, 3.0), (1e-6, 0.01)):
        more = labels_to_halve(variance, information)
        needed = 3 / (variance * information)
        assert needed <= more <= 1.1 * math.ceil(needed) + 1e-6
    assert labels_to_halve(0.1, 0.3) == 100
    assert labels_to_halve(0.0099, 0.3) == 1100
    for nothing in (
        (0.0, 1.0), (1.0, 0.0), (math.inf, 1.0), (1.0, math.inf), (1e200, 1e200), (math.nan, 1.0),
        (-1.0, 1.0),
    ):  # fmt: skip
        assert labels_to_halve(*nothing) is None
