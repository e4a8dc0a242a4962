"""Calibrators against independent implementations, and the failure of matrix scaling."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import betaln, log_softmax, softmax
from sklearn.isotonic import IsotonicRegression

import tepid
from tepid import scaling
from tests.made import crowded, drifted


def _nll(y, p):
    return float(-np.log(p[np.arange(len(y)), y]).mean())


# --- affine maps


def _odir(x, y, strength, *, full):
    """The least NLL + ODIR by SciPy's BFGS with numerical ease: W and b as they are written."""
    n, k = x.shape
    hot = np.eye(k)[y]

    def value(v):
        w = np.diag(v[:k]) if not full else v[: k * k].reshape(k, k)
        b = v[-k:]
        log_p = log_softmax(x @ w.T + b, axis=1)
        off = w - np.diag(np.diag(w))
        r = (np.exp(log_p) - hot) / n
        by_w = r.T @ x + 2 * strength * off / (k * (k - 1))
        by_b = r.sum(axis=0) + 2 * strength * b / k
        penalty = strength * ((off**2).sum() / (k * (k - 1)) + (b**2).sum() / k)
        flat = by_w.ravel() if full else np.diag(by_w)
        return -(hot * log_p).sum() / n + penalty, np.concatenate([flat, by_b])

    first = np.concatenate([np.eye(k).ravel() if full else np.ones(k), np.zeros(k)])
    found = minimize(value, first, jac=True, method="BFGS", options={"gtol": 1e-7}).x
    w = found[: k * k].reshape(k, k) if full else np.diag(found[:k])
    return softmax(x @ w.T + found[-k:], axis=1)


@pytest.mark.parametrize("strength", [0.0, 0.05, 2.0])
@pytest.mark.parametrize("method", ["vector", "matrix", "dirichlet"])
def test_affine_maps_are_the_minimum_of_nll_and_odir(method, strength):
    z, y = drifted(800)
    t = float(tepid.temperature_scaling(z, y))
    x = log_softmax(z, axis=1) if method == "dirichlet" else z / t
    truth = _odir(x, y, strength, full=method != "vector")
    c = getattr(scaling, method)(z, y, regularization=strength)
    np.testing.assert_allclose(c(z), truth, atol=2e-4)
    assert _nll(y, c(z)) == pytest.approx(_nll(y, truth), abs=1e-6)
    assert c.intercepts == strength
    assert c.off_diagonal == (0 if method == "vector" else strength)


def test_each_strength_of_a_pair_holds_what_it_names():
    z, y = drifted(800)
    only_intercepts = scaling.matrix(z, y, regularization=(0.0, 1e6))
    assert np.abs(only_intercepts.bias).max() < 1e-4
    only_matrix = scaling.matrix(z, y, regularization=(1e6, 0.0))
    off = only_matrix.weight - np.diag(np.diag(only_matrix.weight))
    assert np.abs(off).max() < 1e-4
    free = scaling.vector(z, y, regularization=0)
    np.testing.assert_allclose(only_matrix(z), free(z), atol=1e-3)


@pytest.mark.parametrize("method", ["vector", "matrix"])
def test_vector_and_matrix_scaling_agree_with_probmetrics(method):
    torch = pytest.importorskip("torch")
    calibrators = pytest.importorskip("probmetrics.calibrators")
    distributions = pytest.importorskip("probmetrics.distributions")
    z, y = drifted()
    peer = getattr(calibrators, f"{method.capitalize()}ScalingCalibrator")()
    logits = distributions.CategoricalLogits(torch.from_numpy(z))
    peer.fit_torch(logits, torch.from_numpy(y))
    theirs = peer.predict_proba_torch(logits).get_probs().numpy()
    ours = getattr(scaling, method)(z, y, regularization=0)(z)
    assert _nll(y, ours) == pytest.approx(_nll(y, theirs), abs=1e-4)
    assert _nll(y, ours) <= _nll(y, theirs) + 1e-7


# dirichletcal 0.5.3, FullDirichletCalibrator(s, s, reg_norm=True, ref_row=False): its NLL and
# first row. With its default ref_row=True the penalty falls on differences to the last class.
DIRICHLETCAL = {
    0.0: (0.8995853261112845, [0.10413865, 0.04028984, 0.22287142, 0.63270009]),
    0.3: (0.9000542609492316, [0.10179713, 0.03997006, 0.21970597, 0.63852685]),
    30.0: (0.9022957192893372, [0.08984411, 0.04483534, 0.22092124, 0.64439931]),
}


@pytest.mark.parametrize("strength", DIRICHLETCAL)
def test_dirichlet_calibration_agrees_with_dirichletcal(strength):
    z, y = drifted()
    p = scaling.dirichlet(z, y, regularization=strength)(z)
    nll, first = DIRICHLETCAL[strength]
    assert _nll(y, p) == pytest.approx(nll, abs=1e-6)
    np.testing.assert_allclose(p[0], first, atol=1e-5)


def test_dirichlet_calibration_does_not_see_a_constant_per_row(rng):
    z, y = drifted(500)
    moved = z + rng.normal(size=(500, 1))
    one, two = (scaling.dirichlet(x, y, regularization=0.1) for x in (z, moved))
    np.testing.assert_allclose(one(moved), one(z), rtol=1e-9)
    np.testing.assert_allclose(two(z), one(z), atol=1e-5)


def test_the_strength_chosen_is_the_best_on_rows_left_out():
    z, y = crowded(2000, 12)
    z, y, other, labels = z[:1000], y[:1000], z[1000:], y[1000:]
    chosen = _nll(labels, scaling.matrix(z, y)(other))
    fixed = [
        _nll(labels, scaling.matrix(z, y, regularization=s)(other)) for s in (1e-3, 1.0, 1e3, 1e6)
    ]
    assert chosen < min(fixed) * 1.01
    assert chosen < fixed[0] - 0.02


def _assert_mended(z, y, other, labels):
    """Without ODIR the matrix learns the rows by heart; with it, it is as good as a temperature."""
    plain = _nll(labels, softmax(other, axis=1))
    temperature = _nll(labels, tepid.temperature_scaling(z, y)(other))
    free, held = scaling.matrix(z, y, regularization=0), scaling.matrix(z, y)
    assert tepid.metrics.nll(y, free(z)) < 0.01
    assert tepid.metrics.nll(labels, free(other)) > 1.2 * plain
    assert _nll(labels, held(other)) < plain
    assert _nll(labels, held(other)) < 1.1 * temperature
    assert any("nothing holds them" in sentence for sentence in free.warnings)


@pytest.mark.slow
def test_matrix_scaling_fails_on_a_hundred_classes_and_odir_mends_it():
    z, y = crowded(1600)
    _assert_mended(z[:600], y[:600], z[600:], y[600:])


@pytest.mark.slow
def test_matrix_scaling_fails_on_a_real_hundred_classes_and_odir_mends_it(shared):
    data = np.load(shared / "densenet40_cifar100.npz")
    z, y = data["logits"].astype(np.float64), data["labels"].astype(np.int64)
    _assert_mended(z[:5000], y[:5000], z[5000:], y[5000:])


@pytest.mark.slow
def test_a_thousand_classes_are_fitted_in_little_memory():
    import resource  # noqa: PLC0415  # not on every system

    z, y = crowded(2000, 1000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    c = scaling.matrix(z.astype(np.float32), y, regularization=1e7)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 800, f"{grown:.0f} MiB"
    assert any("more parameters (1001000) than rows (2000)" in s for s in c.warnings)
    assert _nll(y, c(z)) < _nll(y, tepid.temperature_scaling(z, y)(z))


# --- one class against the rest

# netcal 1.4.0, HistogramBinning(15), the first three rows.
NETCAL_HISTOGRAM = [
    [0.06349194762306185, 0.08807692120430965, 0.24119987270244303, 0.6072312584701854],
    [0.8150758701021082, 0.07073796975202654, 0.055604842063992355, 0.05858131808187291],
    [0.21226761856026266, 0.6775571764425143, 0.053651641016850556, 0.05652356398037254],
]
# netcal 1.4.0, BBQ(score_function="BIC"). It departs from the paper: bins of equal width, scores
# by BIC and not by the Beta prior, shares and not posterior means, and only the best few binnings.
NETCAL_BBQ = [
    [0.054794434879566735, 0.08219447209232461, 0.17690127523694207, 0.6861098177911666],
    [0.7725542184412189, 0.0890976904338419, 0.0652426353059238, 0.07310545581901538],
    [0.22003301743070464, 0.6450312034703483, 0.06363344628675062, 0.07130233281219643],
]
NETCAL_BBQ_NLL = 0.9497536702919386


def test_histogram_binning_agrees_with_netcal():
    z, y = drifted()
    np.testing.assert_allclose(scaling.histogram(z, y)(z[:3]), NETCAL_HISTOGRAM, rtol=1e-12)


def test_bins_are_closed_on_the_right():
    p = np.array([[0.25, 0.75], [0.25, 0.75], [0.3, 0.7]])
    c = scaling.histogram(tepid.validation.logits_of(p), [0, 1, 1], bins=4)
    np.testing.assert_allclose(c.values[:4], [0.5, 0.0, 0.625, 0.875])
    assert c.knots[:4].tolist() == [0.25, 0.5, 0.75, 1.0]


def test_bins_of_equal_mass_hold_equal_weight_and_part_no_ties():
    z, y = drifted(1000, 3)
    c = scaling.histogram(z, y, bins=10, spacing="mass")
    p = tepid.Temperature(1.0, "", samples=0, classes=3, implied_accuracy=0)(z)[:, 0]
    own = c.knots[c.starts[0] : c.starts[1] - 1]
    count = np.bincount(np.searchsorted(own, p), minlength=10)
    assert count.tolist() == [100] * 10
    assert set(own) <= set(p)
    np.testing.assert_allclose(c.values[0], (y == 0)[p <= own[0]].mean())
    tied = scaling.histogram(np.repeat([[2.0, 1.0], [1.0, 2.0]], [30, 70], axis=0), [0] * 100)
    assert len(tied.values) == 30
    tied = scaling.histogram(
        np.repeat([[2.0, 1.0], [1.0, 2.0]], [30, 70], axis=0), [0] * 100, spacing="mass"
    )
    assert tied.starts.tolist() == [0, 2, 4]


def test_isotonic_regression_agrees_with_scikit_learn():
    z, y = drifted()
    p, u = softmax(z, axis=1), np.arange(len(y)) % 4
    other = softmax(drifted(seed=9)[0], axis=1)
    columns = [
        IsotonicRegression(out_of_bounds="clip")
        .fit(p[:, k], y == k, sample_weight=u)
        .predict(other[:, k])
        for k in range(4)
    ]
    theirs = np.stack(columns, axis=1)
    total = theirs.sum(axis=1, keepdims=True)
    theirs = np.where(total > 0, theirs / np.where(total > 0, total, 1), other)
    c = scaling.isotonic(z, y, sample_weight=u)
    np.testing.assert_allclose(c(np.log(other)), theirs, atol=1e-9)


def _bbq(p, hit):
    """Naeini et al. (2015) as written, one binning after the other, without ties in p."""
    order = np.argsort(p)
    p, hit, n = p[order], hit[order], len(p)
    root = n ** (1 / 3)
    scores, curves = [], []
    for bins in range(
        max(1, int(root / 10)), min(int(np.ceil(n / 5)), int(np.ceil(10 * root))) + 1
    ):
        stop = np.ceil(np.arange(1, bins + 1) * n / bins - 1e-9).astype(int)
        start = np.concatenate([[0], stop[:-1]])
        low = np.concatenate([[0.0], (p[stop[:-1] - 1] + p[stop[:-1]]) / 2])
        middle = np.clip((low + np.concatenate([low[1:], [1.0]])) / 2, 0.005, 0.995)
        m = np.array([hit[a:b].sum() for a, b in zip(start, stop, strict=True)])
        alpha, beta = 2 / bins * middle, 2 / bins * (1 - middle)
        scores.append((betaln(m + alpha, stop - start - m + beta) - betaln(alpha, beta)).sum())
        value = (m + alpha) / (stop - start + 2 / bins)
        curves.append(lambda q, low=low, value=value: value[np.searchsorted(low[1:], q)])
    shares = softmax(scores)
    return lambda q: sum(s * curve(q) for s, curve in zip(shares, curves, strict=True))


def test_bbq_is_the_papers_average_of_binnings():
    z, y = drifted(700, 3)
    p, other = softmax(z, axis=1), softmax(drifted(300, 3, seed=9)[0], axis=1)
    columns = np.stack([_bbq(p[:, k], y == k)(other[:, k]) for k in range(3)], axis=1)
    truth = columns / columns.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(scaling.bbq(z, y)(np.log(other)), truth, atol=1e-9)


def test_bbq_is_near_netcals_other_bbq_and_not_worse():
    z, y = drifted()
    p = scaling.bbq(z, y)(z)
    np.testing.assert_allclose(p[:3], NETCAL_BBQ, atol=0.06)
    assert _nll(y, p) < NETCAL_BBQ_NLL


def _ensemble(z, y, t):
    """Weights by SciPy's SLSQP from many corners."""
    k = z.shape[1]
    parts = np.stack([softmax(z / t, axis=1), softmax(z, axis=1), np.full(z.shape, 1 / k)], axis=2)
    chosen = parts[np.arange(len(y)), y]
    runs = [
        minimize(
            lambda w: -np.log(np.maximum(chosen @ w, 1e-300)).mean(),
            first,
            method="SLSQP",
            bounds=[(0, 1)] * 3,
            constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
            options={"ftol": 1e-12},
        )
        for first in ([0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4])
    ]
    return min(run.fun for run in runs)


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_the_ensemble_is_the_best_mixture_and_never_worse_than_its_temperature(scale, noise, rng):
    z, y = drifted(800, 5)
    y = np.where(rng.random(800) < noise, rng.integers(0, 5, 800), y)
    c = scaling.ensemble(scale * z, y)
    t = tepid.temperature_scaling(scale * z, y)
    assert c.temperature == t.value
    assert c.weights.min() >= 0
    assert c.weights.sum() == pytest.approx(1, abs=1e-12)
    nll = _nll(y, c(scale * z))
    assert nll <= _nll(y, t(scale * z)) + 1e-15
    assert nll == pytest.approx(_ensemble(scale * z, y, t.value), abs=1e-7)


# betacal 1.1.0, BetaCalibration("abm"), class 1 of the first five rows; its logistic regression
# stops at scikit-learn's default tolerance.
BETACAL = [0.0453178, 0.12380005, 0.73139505, 0.89203005, 0.09803183]


def _class_map(c, p, k):
    odds = c.a[k] * np.log(p) - c.b[k] * np.log1p(-p) + c.c[k]
    return 1 / (1 + np.exp(-odds))


def test_beta_calibration_agrees_with_betacal():
    z, y = drifted()
    p = softmax(z, axis=1)[:5, 1]
    np.testing.assert_allclose(_class_map(scaling.beta(z, y), p, 1), BETACAL, rtol=5e-4)


@pytest.mark.parametrize("flip", [False, True])
def test_beta_calibration_is_the_minimum_with_parts_that_do_not_fall(flip, rng):
    z, y = drifted(600, 3)
    if flip:  # labels against the logits: the free optimum would fall
        y = z.argmin(axis=1)
        y = np.where(rng.random(600) < 0.3, rng.integers(0, 3, 600), y)
    p = softmax(z, axis=1)
    c = scaling.beta(z, y)
    columns = []
    for k in range(3):
        x = np.stack([np.log(p[:, k]), -np.log1p(-p[:, k]), np.ones(600)])
        sign = np.where(y == k, 1.0, -1.0)
        run = minimize(
            lambda v, x=x, sign=sign: np.logaddexp(0, -sign * (v @ x)).mean(),
            [0.5, 0.5, 0.0],
            method="SLSQP",
            bounds=[(0, None), (0, None), (None, None)],
            options={"ftol": 1e-14, "maxiter": 500},
        )
        ours = np.logaddexp(0, -sign * (np.array([c.a[k], c.b[k], c.c[k]]) @ x)).mean()
        assert ours == pytest.approx(run.fun, abs=1e-8)
        columns.append(_class_map(c, p[:, k], k))
    assert c.a.min() >= 0
    assert c.b.min() >= 0
    assert (c.a + c.b == 0).any() == flip
    truth = np.stack(columns, axis=1)
    np.testing.assert_allclose(c(z), truth / truth.sum(axis=1, keepdims=True), rtol=1e-9)


def test_beta_calibration_knows_probabilities_that_underflow():
    """a log p - b log(1 - p) with a = b = 1 is the log-odds: the call is the identity."""
    z = np.array([[0.0, 900.0], [0.0, 40.0], [2000.0, 0.0], [1.0, 0.0]])
    same = scaling.Betas("beta", samples=4, classes=2, a=np.ones(2), b=np.ones(2), c=np.zeros(2))
    p = same(z)
    np.testing.assert_allclose(p, softmax(z, axis=1), rtol=1e-12)
    # Half the slope halves log-odds that are beyond what 1 - p could tell.
    half = dataclasses.replace(same, a=np.full(2, 0.5), b=np.full(2, 0.5))
    np.testing.assert_allclose(half(z[:2])[:, 0], np.exp([-450.0, -20.0]), rtol=1e-8)
