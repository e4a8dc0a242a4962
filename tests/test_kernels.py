"""Both tiers of the kernels against each other, and their exp and log against NumPy's."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tepid
from tepid import kernels
from tepid.kernels import tiers
from tepid.online.sums import Layout
from tepid.report.summaries import Members, predict
from tests import strategies

numba = pytest.importorskip("numba", reason="the tests of the compiled kernels need tepid[fast]")
from tepid.kernels.compiled.elementary import exp32, exp64, log1p32  # noqa: E402  # needs numba

njit = numba.njit


@njit
def _exp32(x):
    return np.array([exp32(v) for v in x])


@njit
def _exp64(x):
    return np.array([exp64(v) for v in x])


@njit
def _log1p32(x):
    return np.array([log1p32(v) for v in x])


def test_exp32_is_within_1e_7_down_to_its_floor():
    x = np.linspace(-86.9, 0, 200_001).astype(np.float32)
    assert np.abs(_exp32(x) / np.exp(x.astype(np.float64)) - 1).max() < 1e-7


def test_exp64_is_within_3e_16_down_to_its_floor():
    x = np.linspace(-707.0, 0, 200_001)
    assert np.abs(_exp64(x) / np.exp(x.astype(np.longdouble)) - 1).max() < 3e-16


@pytest.mark.parametrize("exp", [_exp32, _exp64])
def test_exp_is_one_at_zero_and_never_above_and_zero_for_a_masked_class(exp):
    dtype = np.float32 if exp is _exp32 else np.float64
    x = np.array([0.0, -1e-9, -0.3, -np.inf, -1e30], dtype)
    y = exp(x)
    assert y[0] == 1
    assert y.max() == 1
    assert y[3] == y[4] == 0


def test_log1p32_is_within_3e_7_even_where_one_plus_x_is_one():
    x = np.geomspace(1e-30, 1e4, 200_001).astype(np.float32)
    assert np.abs(_log1p32(x) / np.log1p(x.astype(np.float64)) - 1).max() < 3e-7
    assert _log1p32(np.zeros(1, np.float32))[0] == 0


def test_log1p32_crosses_every_power_of_two():
    x = np.concatenate(
        [2.0**e * np.array([1 - 1e-6, 1.0, 1.414, 1.4143]) - 1 for e in range(1, 14)]
    )
    x = x.astype(np.float32)
    assert np.abs(_log1p32(x) - np.log1p(x.astype(np.float64))).max() < 1e-6


def _weights(n):
    return np.random.default_rng(n).random(n)


def _in_numpy(call, *args, **options):
    return _in_tier("numpy", call, *args, **options)


@given(z=strategies.logits(dtypes=(np.float32,)))
def test_tails_agree_in_both_tiers(z):
    u = _weights(len(z))
    mine = tepid.summaries.Tails.of(z, sample_weight=u)
    other = _in_numpy(tepid.summaries.Tails.of, z, sample_weight=u)
    for name in ("predicted", "total", "squares", "confidence"):
        np.testing.assert_allclose(getattr(mine, name), getattr(other, name), rtol=2e-6, atol=1e-30)


@given(
    z=strategies.logits(dtypes=(np.float32,)),
    lattice=st.sampled_from(
        [
            tepid.summaries.Lattice.window(),
            tepid.summaries.Lattice.window(-2, 9, per_octave=1),
            tepid.summaries.Lattice.window(-3, 3, per_octave=4),
            tepid.summaries.Lattice.point(1.37),
            tepid.summaries.Lattice.point(40.0),
        ]
    ),
)
def test_curves_agree_in_both_tiers(z, lattice):
    u = _weights(len(z))
    y = z.argmin(axis=1) if len(z) else np.zeros(0, np.int64)
    y = np.where(np.isneginf(z[np.arange(len(z)), y]), z.argmax(axis=1), y)
    theta = np.stack([tepid.summaries.Tails.of(z).thresholds(d) for d in (0.5, 1.0, 2.0)])
    assume(not _on_the_edge(z, theta))
    mine = tepid.summaries.Curve.of(z, lattice=lattice, thresholds=theta, labels=y, sample_weight=u)
    other = _in_numpy(
        tepid.summaries.Curve.of, z, lattice=lattice, thresholds=theta, labels=y, sample_weight=u
    )
    for name in ("rows", "weight", "softest", "sharpest", "pairs"):
        np.testing.assert_allclose(getattr(mine, name), getattr(other, name), rtol=1e-6)
    for name in _CURVES:
        a, b = getattr(mine, name), getattr(other, name)
        # The second derivative of confidence is a difference of nearly equal float32 moments.
        tolerance = 1e-3 if name == "confidence_curvature" else 2e-5
        limit = tolerance * np.abs(b).max(initial=1e-30)
        np.testing.assert_allclose(a, b, atol=limit, err_msg=name)
    np.testing.assert_allclose(mine.histogram.sum(axis=2), other.histogram.sum(axis=2), rtol=1e-5)


@given(
    z=strategies.logits(dtypes=(np.float32,)),
    temperature=st.sampled_from([0.3, 1.0, 1.37, 40.0]),
    bins=st.sampled_from([1, 15]),
)
def test_what_is_served_agrees_in_both_tiers(z, temperature, bins):
    k = z.shape[1]
    layout = Layout(temperature, np.zeros((0, k)), bins, threshold=0.62345)
    mine, theirs = layout.of(z), _in_numpy(layout.of, z).vector
    *_, confidence, histogram, tails, accepted = layout.views(mine.vector)
    *_, doubt, binned, plain, exact = layout.views(theirs)
    np.testing.assert_allclose(accepted, exact, rtol=1e-5)
    np.testing.assert_allclose(mine.vector[:6], theirs[:6], rtol=1e-6)
    np.testing.assert_allclose(tails, plain, rtol=3e-6, atol=1e-30)
    np.testing.assert_allclose(histogram.sum(axis=2), binned.sum(axis=2), rtol=1e-5)
    for place, name in enumerate(("doubt", "slope", "curvature", "square")):
        tolerance = 1e-3 if name == "curvature" else 2e-5
        limit = tolerance * np.abs(doubt[:, place]).max(initial=1e-30)
        np.testing.assert_allclose(confidence[:, place], doubt[:, place], atol=limit, err_msg=name)


@pytest.mark.parametrize("k", [3, 20, 21, 500])
def test_what_is_served_puts_each_row_into_its_bin_and_names_a_bad_one(k):
    z = np.zeros((130, k), np.float32)
    z[:, 1] = np.linspace(0.1, 30, 130)  # not on an edge
    layout = Layout(2.0, np.zeros((0, k)), 15)
    p = 1 / (1 + (k - 1) * np.exp(-z[:, 1] / 2.0))
    expected = np.histogram(-p, -np.arange(16)[::-1] / 15)[0][::-1]
    np.testing.assert_array_equal(layout.of(z).histogram, expected)
    for row, value in ((0, np.nan), (7, np.inf), (99, -np.inf), (129, np.nan)):
        bad = z.copy()
        bad[row] = value
        with pytest.raises(tepid.InputError, match=rf"at row {row}$"):
            layout.of(bad)


def _on_the_edge(z, theta):
    """Whether float32 cannot tell on which side of its threshold some softmax lies."""
    z = z.astype(np.float64)
    e = np.exp(z - z.max(axis=1, keepdims=True, initial=-1e300))
    s = e / e.sum(axis=1, keepdims=True)
    limit = theta[:, None, :] * (1 - 2.0**-20)
    return (np.abs(s - limit) < 5e-7 * limit).any()


_CURVES = (
    "spread", "pull", "flat", "loss", "slope", "curvature", "square", "confidence",
    "confidence_slope", "confidence_curvature", "confidence_square",
)  # fmt: skip


def test_the_histogram_of_a_node_counts_rows_by_right_closed_bins(network):
    z, y = network
    curve = tepid.summaries.Curve.of(z, labels=y, bins=10)
    node = int(np.flatnonzero(curve.lattice.nodes == 1.0)[0])
    there = tepid.summaries.Reliability.of_logits(z, y, bins=10)
    for i, name in enumerate(("count", "confidence", "correct")):
        np.testing.assert_allclose(curve.histogram[node, i], getattr(there, name), rtol=1e-6)


@pytest.fixture
def elsewhere(monkeypatch):
    """Tensors count as arrays that NumPy cannot read."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(tepid.validation, "is_foreign", lambda data: isinstance(data, torch.Tensor))
    return torch


@pytest.mark.parametrize("k", [12, 130])
def test_tensors_elsewhere_sum_to_the_same(elsewhere, k, rng):
    z = (4 * rng.normal(size=(500, k))).astype(np.float32)
    z[:3, 1:5] = -np.inf
    y = z.argmax(axis=1)
    mine, other = (_in_numpy(tepid.summaries.Tails.of, x) for x in (z, elsewhere.from_numpy(z)))
    np.testing.assert_allclose(mine.total, other.total, rtol=1e-12)
    theta = mine.thresholds()
    mine, other = (
        _in_numpy(tepid.summaries.Curve.of, x, thresholds=theta, labels=y)
        for x in (z, elsewhere.from_numpy(z))
    )
    for name in (*_CURVES, "histogram"):
        a, b = getattr(mine, name), getattr(other, name)
        np.testing.assert_allclose(a, b, atol=1e-12 * np.abs(b).max(), err_msg=name)


def test_a_bad_row_of_a_tensor_elsewhere_is_named(elsewhere):
    z = elsewhere.zeros((4, 3))
    z[2, 1] = float("nan")
    for of in (tepid.summaries.Tails.of, tepid.summaries.Curve.of):
        with pytest.raises(tepid.InputError, match=r"got nan for class 1 at row 2"):
            of(z)


@pytest.mark.parametrize("tier", ["numpy", "numba"])
@pytest.mark.parametrize("k", [3, 112, 113, 300])
def test_a_row_does_not_feel_its_neighbours(k, tier, rng):
    z = (4 * rng.normal(size=(260, k))).astype(np.float32)
    with tiers.using(tier):
        whole = tepid.summaries.Curve.of(z, labels=np.zeros(260, int))
        rows = [tepid.summaries.Curve.of(z[i : i + 1], labels=[0]) for i in range(260)]
    # Only the order of a float64 sum of 260 terms may differ, which are of either sign.
    parts = np.stack([r.slope for r in rows])
    limit = 260 * np.finfo(np.float64).eps * np.abs(parts).sum(axis=0).max()
    np.testing.assert_allclose(parts.sum(axis=0), whole.slope, atol=limit, rtol=0)


@pytest.mark.parametrize("k", [5, 130])
def test_bins_agree_with_a_search_among_the_edges(k):
    p = np.concatenate([np.arange(101) / 100, np.arange(16) / 15, [1e-12, 0.999999, 1 - 1e-16]])
    for bins in (1, 7, 10, 15, 100, k):
        edges = np.arange(bins + 1) / bins
        want = np.clip(np.searchsorted(edges, p, side="left") - 1, 0, bins - 1)
        assert kernels.bins_of(p, bins).tolist() == want.tolist()


@pytest.mark.parametrize("k", [2, 111, 112, 113, 128, 129, 300, 700])
@pytest.mark.parametrize("value", [np.nan, -np.nan, np.inf])
@pytest.mark.parametrize("tier", ["numpy", "numba"])
def test_a_bad_value_in_any_place_is_found(k, value, tier):
    z = np.random.default_rng(k).normal(size=(3, k)).astype(np.float32)
    for row, place in enumerate((0, 1, k // 2, k - 2, k - 1)):
        bad = z.copy()
        bad[row % 3, place] = value
        name = "inf" if value == np.inf else "nan"
        match = f"got {name} for class {place} at row {row % 3}"
        for of in (tepid.summaries.Tails.of, tepid.summaries.Curve.of, _score, _probabilities):
            with tiers.using(tier), pytest.raises(tepid.InputError, match=match):
                of(bad)


def _score(z):
    return tepid.summaries.Reliability.of_logits(z, [0, 0, 0])


def _probabilities(z):
    return tepid.Temperature(1.0, "", samples=0, classes=z.shape[1], implied_accuracy=0)(z)


@given(z=strategies.logits(dtypes=(np.float32,)), temperature=st.sampled_from([0.02, 1.0, 30.0]))
def test_scores_agree_in_both_tiers(z, temperature):
    u, y = _weights(len(z)), z.argmax(axis=1)
    mine, other = (
        _in_tier(tier, tepid.summaries.Reliability.of_logits, z, y, temperature=temperature,
                 sample_weight=u)
        for tier in ("numba", "numpy")
    )  # fmt: skip
    for name in ("rows", "weight", "nll", "brier"):
        assert getattr(mine, name) == pytest.approx(getattr(other, name), rel=1e-10, abs=1e-12)
    np.testing.assert_allclose(mine.confidence.sum(), other.confidence.sum(), rtol=1e-12)


@given(z=strategies.logits(), temperature=st.sampled_from([0.02, 1.0, 30.0]))
def test_probabilities_agree_in_both_tiers(z, temperature):
    about = {"samples": 1, "classes": z.shape[1], "implied_accuracy": 0.5}
    t = tepid.Temperature(temperature, "manual", **about)
    mine, other = (_in_tier(tier, t, z) for tier in ("numba", "numpy"))
    assert mine.dtype == other.dtype
    # The classes are added in another order.
    close = 4 * np.finfo(mine.dtype).eps + z.shape[1] * np.finfo(np.float64).eps
    np.testing.assert_allclose(mine, other, rtol=close, atol=1e-300)


def test_sums_of_a_report_agree_in_both_tiers(network):
    z, y = network
    theta = tepid.summaries.Tails.of(z).thresholds()
    mine, other = (
        (
            _in_tier(tier, Members.of, z, thresholds=theta),
            _in_tier(tier, predict, z, labels=y, temperature=1.7),
        )
        for tier in ("numba", "numpy")
    )
    np.testing.assert_allclose(mine[0].members, other[0].members, atol=1)
    np.testing.assert_allclose(
        mine[0].histogram.sum(axis=2), other[0].histogram.sum(axis=2), atol=1
    )
    np.testing.assert_array_equal(mine[1].best, other[1].best)
    np.testing.assert_allclose(mine[1].confidence, other[1].confidence, rtol=1e-12)
    for name in ("predicted", "confidence", "labeled", "correct", "mass", "gap"):
        a, b = (getattr(each[1].classes, name) for each in (mine, other))
        np.testing.assert_allclose(a, b, atol=1e-9, err_msg=name)


def test_class_wise_errors_and_gradients_agree_in_both_tiers(network):
    z, y = network
    p = np.exp(z - z.max(axis=1, keepdims=True)).astype(np.float64)
    p /= p.sum(axis=1, keepdims=True)
    u = _weights(len(z))
    found = []
    for tier in ("numba", "numpy"):
        gaps, s = np.zeros((z.shape[1], 15)), z.astype(np.float64)
        with tiers.using(tier):
            kernels.class_gaps(p, y, u, gaps)
            found.append((gaps, kernels.residuals(s, y, u), s))
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-9)
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-12)
    np.testing.assert_allclose(found[0][2], found[1][2], atol=1e-14)


@pytest.mark.parametrize("tier", ["numpy", "numba"])
@pytest.mark.parametrize("distance", [1.0, 17.0, 40.0])
def test_the_loss_of_a_sure_row_keeps_its_digits(tier, distance):
    z = np.array([[0.0, -distance]], np.float32)
    with tiers.using(tier):
        curve = tepid.summaries.Curve.of(z, labels=[0], lattice=tepid.summaries.Lattice.point(1.0))
    assert curve.loss[0, 0] == pytest.approx(np.log1p(np.exp(-distance)), rel=1e-5)


def _in_tier(tier, call, *args, **options):
    with tiers.using(tier):
        return call(*args, **options)
