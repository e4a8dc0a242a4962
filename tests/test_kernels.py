"""The kernels against plain array code, and their exp and log against NumPy's."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numba import njit

import tepid
from tepid.kernels import curves, reference, scores
from tepid.kernels.elementary import exp32, exp64, log1p32
from tepid.online.sums import Layout
from tests import strategies


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


@given(z=strategies.logits(dtypes=(np.float32,)))
def test_tails_agree_with_the_reference(z):
    u = _weights(len(z))
    mine = tepid.summaries.Tails.of(z, sample_weight=u)
    other = tepid.summaries.Tails(z.shape[1], *reference.tail_sums(z, u))
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
def test_curves_agree_with_the_reference(z, lattice):
    u = _weights(len(z))
    y = z.argmin(axis=1) if len(z) else np.zeros(0, np.int64)
    y = np.where(np.isneginf(z[np.arange(len(z)), y]), z.argmax(axis=1), y)
    theta = np.stack([tepid.summaries.Tails.of(z).thresholds(d) for d in (0.5, 1.0, 2.0)])
    assume(not _on_the_edge(z, theta))
    mine = tepid.summaries.Curve.of(z, lattice=lattice, thresholds=theta, labels=y, sample_weight=u)
    other = _reference_curve(z, lattice, theta, y, u)
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
def test_what_is_served_agrees_with_the_reference(z, temperature, bins):
    k = z.shape[1]
    layout = Layout(temperature, np.zeros((0, k)), bins, threshold=0.62345)
    mine, theirs = layout.of(z), np.zeros(layout.size)
    if len(z):
        layout._add_foreign(z, theirs)
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
    z[:, 1] = np.linspace(0, 30, 130)
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


def _reference_curve(z, lattice, theta, y, u):
    """`Curve.of` with the reference in the place of the kernel."""
    kernel = curves.curve_sums
    try:
        curves.curve_sums = reference.curve_sums
        return tepid.summaries.Curve.of(
            z, lattice=lattice, thresholds=theta, labels=y, sample_weight=u
        )
    finally:
        curves.curve_sums = kernel


def test_the_histogram_of_a_node_counts_rows_by_right_closed_bins(network):
    z, y = network
    curve = tepid.summaries.Curve.of(z, labels=y, bins=10)
    node = int(np.flatnonzero(curve.lattice.nodes == 1.0)[0])
    there = tepid.summaries.Reliability.of_logits(z, y, bins=10)
    for i, name in enumerate(("count", "confidence", "correct")):
        np.testing.assert_allclose(curve.histogram[node, i], getattr(there, name), rtol=1e-6)


def test_torch_tensors_sum_to_the_same(network):
    torch = pytest.importorskip("torch")
    z = network[0][:500]
    u = _weights(500)
    np.testing.assert_allclose(
        reference.tail_sums(torch.from_numpy(z), u), reference.tail_sums(z, u), rtol=1e-12
    )
    theta = tepid.summaries.Tails.of(z).thresholds()
    mine = tepid.summaries.Curve.of(z, thresholds=theta, labels=network[1][:500])
    other = _reference_curve_of_tensor(torch.from_numpy(z), theta, network[1][:500])
    # A slope is a difference of sums, and near zero where they are equal: their error counts.
    limit = 1e-5 * np.abs(other.pull).max()
    np.testing.assert_allclose(mine.slope, other.slope, atol=limit, rtol=0)
    # What is known to 1e-5 at every node of a window is the doubt, 1 - max p.
    np.testing.assert_allclose(500 - mine.confidence, 500 - other.confidence, rtol=1e-5)


def _reference_curve_of_tensor(tensor, theta, y):
    foreign = tepid.validation.is_foreign
    try:
        tepid.validation.is_foreign = lambda data: data is tensor
        assert tepid.summaries.Tails.of(tensor) == tepid.summaries.Tails(
            12, *reference.tail_sums(tensor, np.ones(500))
        )
        return tepid.summaries.Curve.of(tensor, thresholds=theta, labels=y)
    finally:
        tepid.validation.is_foreign = foreign


def test_the_reference_names_the_row_too():
    torch = pytest.importorskip("torch")
    z = torch.zeros((4, 3))
    z[2, 1] = float("nan")
    with pytest.raises(tepid.InputError, match=r"got nan for class 1 at row 2"):
        reference.tail_sums(z, np.ones(4))


@pytest.mark.parametrize("k", [3, 112, 113, 300])
def test_a_row_does_not_feel_its_neighbours(k, rng):
    z = (4 * rng.normal(size=(260, k))).astype(np.float32)
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
        assert [scores.bin_of(v, bins) for v in p] == want.tolist()
        assert scores.bins_of(p, bins).tolist() == want.tolist()


@pytest.mark.parametrize("k", [2, 111, 112, 113, 128, 129, 300, 700])
@pytest.mark.parametrize("value", [np.nan, -np.nan, np.inf])
def test_a_bad_value_in_any_place_is_found(k, value):
    z = np.random.default_rng(k).normal(size=(3, k)).astype(np.float32)
    for row, place in enumerate((0, 1, k // 2, k - 2, k - 1)):
        bad = z.copy()
        bad[row % 3, place] = value
        name = "inf" if value == np.inf else "nan"
        match = f"got {name} for class {place} at row {row % 3}"
        for of in (tepid.summaries.Tails.of, tepid.summaries.Curve.of, _score, _probabilities):
            with pytest.raises(tepid.InputError, match=match):
                of(bad)


def _score(z):
    return tepid.summaries.Reliability.of_logits(z, [0, 0, 0])


def _probabilities(z):
    return tepid.Temperature(1.0, "", samples=0, classes=z.shape[1], implied_accuracy=0)(z)
