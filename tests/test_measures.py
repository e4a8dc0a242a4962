"""The measures of calibration: other people's numbers, the definitions as written, and laws."""

import importlib.util
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

import tepid
from tepid import metrics
from tests import strategies

ROOT = Path(__file__).parents[1]
SUMS = ("accuracy", "confidence", "nll", "brier", "ece", "mce", "rmsce_debiased",
        "brier_calibration", "brier_refinement")  # fmt: skip
OF_ALL_ROWS = ("ece_equal_mass", "ece_classwise", "smooth_ece", "ks_error", "aurc", "eaurc")
ERRORS = ("ece", "mce", "rmsce_debiased", "brier_calibration", *OF_ALL_ROWS)
BINNED = ("ece", "mce", "rmsce_debiased", "brier_calibration", "brier_refinement",
          "ece_equal_mass", "ece_classwise")  # fmt: skip

# Printed by scripts/record_measures.py, which says how to repeat it.
RECORDED = [
    ("torchmetrics 1.9.0", "ece", 0.0812292993068695),
    ("torchmetrics 1.9.0", "mce", 0.15532249212265015),
    ("torchmetrics 1.9.0", "root of brier_calibration", 0.0964188352227211),
    ("netcal 1.4.0", "ece", 0.081229278061349),
    ("netcal 1.4.0", "mce", 0.1553225702489338),
    ("uncertainty-calibration 0.1.4", "ece", 0.08122927806134897),
    ("uncertainty-calibration 0.1.4", "ece_equal_mass", 0.08089459352742079),
    ("uncertainty-calibration 0.1.4", "ece_classwise", 0.026078017543354228),
    ("uncertainty-calibration 0.1.4", "rmsce_debiased", 0.0912136286052021),
    ("uncertainty-calibration 0.1.4", "aurc of each row once", 0.24531907916998852),
    ("uncertainty-calibration 0.1.4", "aurc of each row 300 times", 0.24525234305615629),
    ("relplot 1.0.3", "smooth_ece", 0.07807513750449185),
    ("MAPIE 1.6.0", "ks_error", 0.05869322587732988),
    ("probmetrics 1.3.0", "nll", 1.1874698038928635),
    ("probmetrics 1.3.0", "brier", 0.560037436047669),
    ("probmetrics 1.3.0", "excess_nll", 0.032442011119495406),
]
# Where a package rounds or reads the definition otherwise; all else agrees to 1e-12.
TOLERANCES = {
    "torchmetrics 1.9.0": 1e-6,  # sums in float32
    "MAPIE 1.6.0": 1e-8,  # breaks ties by noise
    "aurc of each row once": 1e-4,  # the mean of the risk after each row, not the area
    "aurc of each row 300 times": 1e-6,  # which tends to the area as rows are repeated
    "relplot 1.0.3": 1e-3,  # its width is a multiple of 2^-10 and its mesh has 200 points
    "excess_nll": 1e-8,  # as far as its optimizer went
}


@pytest.fixture(scope="module")
def recorded():
    path = Path(__file__).parents[1] / "scripts" / "record_measures.py"
    spec = importlib.util.spec_from_file_location("record_measures", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.rows()


@pytest.mark.parametrize(("package", "name", "value"), RECORDED)
def test_other_packages_measure_the_same(recorded, package, name, value):
    z, y, p = recorded
    measure = name.removeprefix("root of ").partition(" of ")[0]
    mine = getattr(metrics, measure)(y, z if measure == "excess_nll" else p)
    mine = math.sqrt(mine) if name.startswith("root of ") else mine
    tolerance = TOLERANCES.get(name, TOLERANCES.get(package, 1e-12))
    assert mine == pytest.approx(value, rel=0, abs=tolerance)


def _confidence(y, p):
    return p.max(axis=1), (p.argmax(axis=1) == y).astype(float)


@pytest.mark.parametrize("name", ["ece", "smooth_ece"])
def test_what_a_calibrated_model_scores_is_what_was_measured(name):
    result = json.loads((ROOT / "benchmarks" / "results" / "intervals.json").read_text())
    found = [f"{row[name]:.3f}".lstrip("0") for row in result["calibrated"]]
    assert [row["rows"] for row in result["calibrated"]] == [200, 1000, 10_000]
    said = " ".join(getattr(metrics, name).__doc__.split())
    assert "scored {}, {} and {} at n = 200, 1000 and 10,000".format(*found) in said


def test_smooth_ece_is_the_integral_of_its_definition_at_its_own_width(recorded):
    _, y, p = recorded
    conf, right = _confidence(y[:400], p[:400])
    width = metrics.smooth_ece(y[:400], p[:400])
    t = np.linspace(0, 1, 4001)
    density = np.zeros_like(t)
    for mirror in range(-2, 3):  # the images of each row in the walls at 0 and 1
        for image in (2 * mirror + conf, 2 * mirror - conf):
            density += (right - conf) @ np.exp(-((t - image[:, None]) ** 2) / (2 * width**2))
    density /= len(conf) * width * math.sqrt(2 * math.pi)
    assert trapezoid(np.abs(density), t) == pytest.approx(width, abs=2e-6)


def test_smooth_ece_is_right_where_its_width_is_below_the_grid():
    p = np.tile([[1.0, 0.0]], (100_000, 1))
    y = np.zeros(100_000, int)
    y[0] = 1
    assert metrics.smooth_ece(y, p) == pytest.approx(1e-5, rel=1e-6)


def test_excess_nll_is_what_another_optimiser_saves(network):
    z, y = network[0][:800].astype(np.float64), network[1][:800]
    w = np.random.default_rng(0).integers(0, 3, 800)

    def loss(log_t):
        return -(w * log_softmax(z / np.exp(log_t), axis=1)[np.arange(800), y]).sum() / w.sum()

    least = minimize_scalar(loss, bounds=(-3, 3), method="bounded", options={"xatol": 1e-9}).fun
    for t in (1.0, 4.0):
        found = metrics.excess_nll(y, z, temperature=t, sample_weight=w)
        assert found == pytest.approx(loss(math.log(t)) - least, rel=1e-6)


def test_the_best_temperature_has_no_excess(network):
    z, y = network
    best = tepid.temperature_scaling(z, y).value
    assert metrics.excess_nll(y, z, temperature=best) == pytest.approx(0, abs=1e-12)
    assert metrics.excess_nll(y, z / best) == pytest.approx(0, abs=1e-9)
    assert metrics.excess_nll([0, 1], [[1.0, 1.0], [2.0, 2.0]]) == 0  # no temperature matters


def test_excess_nll_of_right_answers_is_all_their_nll():
    z = [[3.0, 0.0], [2.0, 0.0]]
    expected = (math.log1p(math.exp(-3)) + math.log1p(math.exp(-2))) / 2
    assert metrics.excess_nll([0, 0], z) == pytest.approx(expected)


def test_excess_nll_refuses_what_it_cannot_use():
    with pytest.raises(tepid.InputError, match="not masked, got class 1, whose logit is -inf"):
        metrics.excess_nll([1], [[0.0, -np.inf]])
    with pytest.raises(tepid.InputError, match="with the logits beside them"):
        metrics.excess_nll(tepid.summaries.Reliability.zero())
    with pytest.raises(tepid.InputError, match="temperature must be a number above zero, got 0"):
        metrics.excess_nll([0], [[1.0, 0.0]], temperature=0)


# Confidences .9 .8 .8 .6, right 1 0 1 0.
P = [[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.6, 0.4]]
Y = [0, 1, 1, 1]


def test_hand_computed_errors_over_bins():
    gaps = np.array([0.1, (1.6 - 1) / 2, 0.6])  # of (.8, .9], (.7, .8] and (.5, .6]
    assert metrics.mce(Y, P, bins=10) == pytest.approx(0.6)
    assert metrics.brier_calibration(Y, P, bins=10) == pytest.approx(gaps**2 @ [1, 2, 1] / 4)
    # Only the bin of two rows can be debiased: half of it is right.
    square = 2 / 4 * (0.3**2 - 0.5 * 0.5 / (2 - 1))
    assert square < 0
    assert metrics.rmsce_debiased(Y, P, bins=10) == 0
    assert metrics.rmsce_debiased([1, 1, 0, 1], P, bins=10) == pytest.approx(
        math.sqrt(2 / 4 * 0.8**2)
    )
    # One bin: half are right, at a mean confidence of .775.
    whole = 0.275**2 - 0.25 / 3
    assert metrics.rmsce_debiased(Y, P, bins=1) == math.sqrt(max(whole, 0))
    assert metrics.rmsce_debiased(Y * 10, P * 10, bins=1) == pytest.approx(
        math.sqrt(0.275**2 - 0.25 / 39)
    )


def test_hand_computed_errors_in_order_of_confidence():
    assert metrics.ks_error(Y, P) == pytest.approx((0.6 + 0.6) / 4)
    # After the first row no error; then the tie brings errors at half its rows' rate.
    tie = 1 + (0 - 0.5) * math.log(3)
    last = 1 + (1 - 3) * math.log(4 / 3)
    assert metrics.aurc(Y, P) == pytest.approx((tie + last) / 4)
    assert metrics.eaurc(Y, P) == pytest.approx((tie + last) / 4 - 0.5 - 0.5 * math.log(0.5))
    tie = 1 + (0 - 0.5 * 3) * math.log(5 / 3)
    last = 1 + (1 - 5) * math.log(6 / 5)
    assert metrics.aurc(Y, P, sample_weight=[3, 1, 1, 1]) == pytest.approx((tie + last) / 6)


def test_a_heavy_row_after_a_light_one_keeps_the_area_finite():
    p = [[0.9, 0.1], [0.8, 0.2]]
    assert metrics.aurc([0, 1], p, sample_weight=[1e-100, 1e100]) == pytest.approx(1)
    assert metrics.aurc([1, 0], p, sample_weight=[1e-100, 1e100]) == pytest.approx(0)


def test_every_measure_is_tested_here():
    others = {"Interval", "bootstrap", "difference", "excess_nll"}
    assert {*SUMS, *OF_ALL_ROWS, *others} == set(metrics.__all__)


def test_ties_go_to_the_bin_where_the_middle_of_their_weight_lies():
    # Two bins of two rows; the tie spans the cut, and its middle is the cut.
    assert metrics.ece_equal_mass(Y, P, bins=2) == pytest.approx((0.6 + abs(0.1 - 0.6)) / 4)
    # The more weight below it, the later its middle; weight above it draws it down.
    assert metrics.ece_equal_mass(Y, P, bins=2, sample_weight=[3, 1, 1, 1]) == pytest.approx(
        (abs(0.6 + 0.6) + 0.3) / 6
    )


def test_a_class_has_bins_of_its_own():
    p = [[0.7, 0.3, 0.0], [0.1, 0.6, 0.3]]
    first = abs(0.7 - 1) + 0.1
    second = 0.3 + abs(0.6 - 1)
    assert metrics.ece_classwise([0, 1], p, bins=10) == pytest.approx(
        (first + second + 0.0 + 0.3) / (2 * 3)
    )
    # Two bins: .7 and .1 of class 0 still part at .5; all of class 2 is in one.
    assert metrics.ece_classwise([0, 2], p, bins=2) == pytest.approx(
        (first + 0.3 + 0.6 + abs(0.3 - 1)) / (2 * 3)
    )


def test_brier_refinement_is_what_its_formula_says(recorded):
    _, y, p = recorded
    conf, right = _confidence(y, p)
    where = np.ceil(conf * 15).astype(int)
    within = sum(
        (where == b).mean() * (r.mean() * (1 - r.mean()) + c.var() - 2 * np.cov(c, r, ddof=0)[0, 1])
        for b in np.unique(where)
        for c, r in [(conf[where == b], right[where == b])]
    )
    others = ((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1) - (conf - right) ** 2
    assert metrics.brier_refinement(y, p) == pytest.approx(within + others.mean(), rel=1e-12)


def test_moving_each_bin_to_its_accuracy_takes_the_calibration_away(recorded):
    _, y, p = recorded
    r = tepid.summaries.Reliability.of(p, y)
    conf, right = _confidence(y, p)
    shift = (r.correct - r.confidence) / np.maximum(r.count, 1)
    moved = conf + shift[np.ceil(conf * 15).astype(int) - 1]
    saved = ((conf - right) ** 2 - (moved - right) ** 2).mean()
    assert metrics.brier_calibration(y, p) == pytest.approx(saved, rel=1e-9)


def _all(y, p, names=SUMS + OF_ALL_ROWS, **options):
    return np.array([getattr(metrics, name)(y, p, **options) for name in names])


def _same(one, other):
    # A width that is halved to may fall on either side by rounding.
    np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-9)


@given(strategies.scored(), st.integers(0, 99))
def test_the_order_of_rows_and_of_classes_does_not_matter(scored, seed):
    y, p = scored
    rng = np.random.default_rng(seed)
    rows, classes = rng.permutation(len(y)), rng.permutation(p.shape[1])
    _same(_all(y, p), _all(y[rows], p[rows]))
    _same(_all(y, p), _all(np.argsort(classes)[y], p[:, classes]))


@given(strategies.scored(), st.integers(0, 99))
def test_a_whole_weight_is_that_many_rows(scored, seed):
    y, p = scored
    w = np.random.default_rng(seed).integers(0, 4, len(y))
    w[0] = 1
    _same(_all(y, p, sample_weight=w), _all(np.repeat(y, w), np.repeat(p, w, axis=0)))


@given(strategies.scored())
def test_rows_of_no_weight_are_absent_whatever_their_label(scored):
    y, p = scored
    w = np.concatenate([np.ones(len(y)), np.zeros(2)])
    more = np.concatenate([p, [[0.0] * (p.shape[1] - 1) + [1.0]] * 2])
    _same(_all(np.concatenate([y, [-1, 99]]), more, sample_weight=w), _all(y, p))


@given(strategies.scored())
def test_counting_every_row_twice_changes_only_what_is_debiased(scored):
    y, p = scored
    names = [name for name in SUMS + OF_ALL_ROWS if name != "rmsce_debiased"]
    _same(_all(y, p, names), _all(y, p, names, sample_weight=np.full(len(y), 2.5)))


@given(strategies.scored(), st.integers(0, 60))
def test_measures_of_a_sum_are_those_of_the_whole(scored, cut):
    y, p = scored
    whole = tepid.summaries.Reliability.of(p[:cut], y[:cut]) + tepid.summaries.Reliability.of(
        p[cut:], y[cut:]
    )
    _same([getattr(metrics, name)(whole) for name in SUMS], _all(y, p, SUMS))


@given(strategies.scored(), st.sampled_from([1, 4, 15]))
def test_inequalities_between_the_measures(scored, bins):
    y, p = scored
    conf, right = _confidence(y, p)
    gap, furthest = abs(conf.mean() - right.mean()), np.abs(conf - right).mean()
    small = 1e-9
    r = tepid.summaries.Reliability.of(p, y, bins=bins)
    root = math.sqrt(metrics.brier_calibration(r))
    assert gap <= metrics.ece(r) + small
    assert metrics.ece(r) <= root + small
    assert root <= metrics.mce(r) + small
    assert metrics.rmsce_debiased(r) <= root + small
    for name in ("ece_equal_mass", "smooth_ece", "ks_error"):
        assert gap - small <= getattr(metrics, name)(y, p) <= furthest + small, name
    assert metrics.brier_refinement(r) >= -small
    assert metrics.brier(r) == pytest.approx(
        metrics.brier_calibration(r) + metrics.brier_refinement(r)
    )
    assert 0 <= metrics.eaurc(y, p) <= metrics.aurc(y, p) <= 1
    for name in ERRORS:
        assert 0 <= getattr(metrics, name)(y, p) <= 1 + small, name


def test_one_bin_is_the_gap_of_the_means(recorded):
    _, y, p = recorded
    gap = abs(metrics.accuracy(y, p) - metrics.confidence(y, p))
    for name in ("ece", "mce", "ece_equal_mass"):
        assert getattr(metrics, name)(y, p, bins=1) == pytest.approx(gap)


@pytest.mark.parametrize("name", [*ERRORS, "brier_refinement"])
def test_sure_and_right_is_zero_and_sure_and_wrong_is_not(name):
    measure = getattr(metrics, name)
    assert measure([0, 1, 1], np.eye(2)[[0, 1, 1]]) == 0
    if name not in ("brier_refinement", "eaurc"):
        assert measure([1, 0, 0], np.eye(2)[[0, 1, 1]]) == pytest.approx(1)


def test_a_perfect_order_has_no_excess_area():
    p = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]]
    assert metrics.eaurc([0, 0, 1], p) == pytest.approx(0, abs=1e-15)
    assert metrics.aurc([0, 0, 1], p) == pytest.approx((1 - 2 * math.log(1.5)) / 3)
    assert metrics.eaurc([1, 1, 1], p) == 0  # no order helps where all are wrong
    assert metrics.eaurc([1, 0, 0], p) > 0.3


@pytest.mark.parametrize("name", SUMS + OF_ALL_ROWS)
def test_no_rows_have_no_measure(name):
    measure = getattr(metrics, name)
    assert math.isnan(measure([], np.zeros((0, 3))))
    assert math.isnan(measure([0], [[0.5, 0.5]], sample_weight=[0]))
    assert math.isnan(metrics.excess_nll([], np.zeros((0, 3))))
    assert math.isnan(metrics.excess_nll([0], [[0.5, 0.5]], sample_weight=[0]))


@pytest.mark.parametrize("name", OF_ALL_ROWS)
def test_what_needs_all_rows_says_so_and_refuses_a_reliability(name):
    measure = getattr(metrics, name)
    assert "needs all rows" in measure.__doc__.splitlines()[0]
    with pytest.raises(tepid.InputError, match=f"{name} is no sum over bins, got a Reliability"):
        measure(tepid.summaries.Reliability.zero())


@pytest.mark.parametrize("name", SUMS + OF_ALL_ROWS)
def test_a_row_that_cannot_be_used_is_named(name):
    measure = getattr(metrics, name)
    with pytest.raises(tepid.InputError, match=r"be in \[0, 1\], got nan for class 1 at row 2"):
        measure([0, 1, 0], [[0.5, 0.5], [0.5, 0.5], [0.5, np.nan]])
    with pytest.raises(tepid.InputError, match=r"labels must be in 0..1, got 2 at row 1"):
        measure([0, 2], [[0.5, 0.5]] * 2)
    with pytest.raises(tepid.InputError, match=r"labels must be known, .* unknown .* at row 0"):
        measure([-1, 1], [[0.5, 0.5]] * 2)


@pytest.mark.parametrize("name", BINNED)
def test_bins_must_be_some(name):
    with pytest.raises(tepid.InputError, match="bins must be at least 1, got 0"):
        getattr(metrics, name)([0], [[0.5, 0.5]], bins=0)


@pytest.mark.parametrize("name", SUMS + OF_ALL_ROWS)
def test_any_kind_of_array_will_do(name, recorded):
    _, y, p = recorded
    p = p[:64].astype(np.float32).astype(np.float64)
    measure, y = getattr(metrics, name), y[:64]
    expected = measure(y, p)
    assert measure(y.tolist(), p.astype(np.float32)) == pytest.approx(expected, rel=1e-12)
    assert measure(y.astype(np.int8), np.asfortranarray(p)) == pytest.approx(expected, rel=1e-12)
    wide = np.repeat(np.repeat(p, 2, axis=0), 2, axis=1)[::2, ::2]
    assert measure(y[:, None], wide) == pytest.approx(expected, rel=1e-12)
    assert measure(y, p.astype(np.float16)) == pytest.approx(expected, abs=0.03)
    torch = pytest.importorskip("torch")
    assert measure(torch.tensor(y), torch.tensor(p)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", SUMS + OF_ALL_ROWS)
def test_binary_probabilities_are_of_class_one(name):
    measure, p = getattr(metrics, name), np.array([0.8, 0.3, 0.6])
    pairs = np.stack([1 - p, p], axis=1)
    assert measure([1, 0, 0], p) == measure([1, 0, 0], pairs) == measure([1, 0, 0], p[:, None])


def test_a_class_that_no_row_has_counts_among_the_classes():
    p = [[0.7, 0.3, 0.0], [0.4, 0.6, 0.0]]
    assert metrics.ece_classwise([0, 1], p) == pytest.approx((0.3 + 0.4 + 0.3 + 0.4) / (2 * 3))
