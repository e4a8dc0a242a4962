"""Calibrators with labels: what all of them keep, refuse and say of themselves."""

import dataclasses
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

import tepid
from tepid import scaling
from tests import strategies
from tests.made import crowded, drifted

FITS = {
    "vector": scaling.vector,
    "matrix": scaling.matrix,
    "dirichlet": scaling.dirichlet,
    "histogram": scaling.histogram,
    "isotonic": scaling.isotonic,
    "bbq": scaling.bbq,
    "ensemble": scaling.ensemble,
    "beta": scaling.beta,
}
every_method = pytest.mark.parametrize("method", FITS)
AFFINE = ("vector", "matrix", "dirichlet")


@pytest.fixture(scope="module")
def fitted():
    """Each calibrator on the same rows."""
    z, y = drifted(600, 3)
    return {method: fit(z, y) for method, fit in FITS.items()}


def _assert_probabilities(p, z):
    assert p.shape == z.shape
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1, dtype=np.float64), 1, atol=2e-6)
    assert (p[np.isneginf(z)] == 0).all()


# --- what all of them keep


@pytest.mark.slow
@every_method
def test_every_method_beats_the_logits_as_they_are(method):
    z, y = drifted(6000)
    c = FITS[method](z[:3000], y[:3000])
    plain = softmax(z[3000:], axis=1)
    assert tepid.metrics.brier(y[3000:], c(z[3000:])) < tepid.metrics.brier(y[3000:], plain) - 0.01
    assert tepid.metrics.ece(y[3000:], c(z[3000:])) < tepid.metrics.ece(y[3000:], plain) / 2
    assert (c.method, c.samples, c.classes, c.warnings) == (method, 3000, 4, ())


@every_method
def test_double_precision_stays_and_all_else_is_single(method, fitted):
    c = fitted[method]
    z = np.round(drifted(50, 3, seed=8)[0], 1)
    whole = c(z)
    assert whole.dtype == np.float64
    _assert_probabilities(whole, z)
    for dtype in (np.float32, np.float16):
        part = c(z.astype(dtype))
        assert part.dtype == np.float32
        np.testing.assert_allclose(part, c(z.astype(dtype).astype(np.float64)), rtol=1e-6)
    np.testing.assert_allclose(c(np.round(z).astype(np.int8)), c(np.round(z)), rtol=1e-6)


@every_method
def test_the_layout_of_memory_changes_nothing(method, fitted):
    c, z = fitted[method], drifted(40, 3, seed=8)[0]
    np.testing.assert_array_equal(c(np.asfortranarray(z)), c(z))
    np.testing.assert_array_equal(c(np.repeat(z, 2, axis=0)[::2]), c(z))
    np.testing.assert_array_equal(c(z[::-1])[::-1], c(z))


@every_method
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_a_class_axis_stays_where_it_is(method, axis, fitted, rng):
    flat = rng.normal(size=(20, 3)).astype(np.float32)
    z = np.moveaxis(flat.reshape(4, 5, 3), -1, axis)
    p = fitted[method](z, class_axis=axis)
    assert p.shape == z.shape
    flat_again = np.moveaxis(p, axis, -1).reshape(-1, 3)
    np.testing.assert_allclose(flat_again, fitted[method](flat), rtol=1e-6)


@pytest.mark.slow
@every_method
def test_a_class_axis_is_fitted_like_flat_rows(method):
    z, y = drifted(600, 3)
    c = FITS[method](z.reshape(20, 30, 3).transpose(2, 0, 1), y.reshape(20, 30), class_axis=0)
    np.testing.assert_allclose(c(z[:9]), FITS[method](z, y)(z[:9]), rtol=1e-9)


@pytest.mark.slow
@every_method
@pytest.mark.parametrize("form", ["(n,)", "(n, 1)"])
def test_binary_logits_are_a_pair_with_zero(method, form):
    pair, y = drifted(800, 2)
    margin = pair[:, 1] - pair[:, 0]
    z = margin if form == "(n,)" else margin[:, None]
    both = np.stack([np.zeros(800), margin], axis=1)
    c = FITS[method](z, y)
    assert (c.samples, c.classes) == (800, 2)
    p = c(z)
    assert p.shape == (800, 2)
    np.testing.assert_array_equal(p, c(both))
    np.testing.assert_allclose(p, FITS[method](both, y)(both), rtol=1e-9)
    # A mixture can move no threshold, and so not mend the class that is called too seldom.
    assert method == "ensemble" or abs(p[:, 1].mean() - y.mean()) < 0.03


@every_method
def test_torch_tensors_give_tensors(method, fitted):
    torch = pytest.importorskip("torch")
    z = drifted(20, 3, seed=8)[0].astype(np.float32)
    p = fitted[method](torch.from_numpy(z))
    assert isinstance(p, torch.Tensor)
    assert p.dtype == torch.float32
    np.testing.assert_array_equal(p.numpy(), fitted[method](z))
    assert fitted[method](torch.from_numpy(z).bfloat16()).dtype == torch.float32
    again = FITS[method](torch.from_numpy(z), torch.zeros(20, dtype=torch.int64))
    assert again.samples == 20


@every_method
def test_another_number_of_classes_is_refused(method, fitted):
    with pytest.raises(tepid.InputError, match="must have the 3 classes of the calibration, got 4"):
        fitted[method](np.zeros((2, 4)))
    with pytest.raises(tepid.InputError, match=r"logits\[None\] for one row"):
        fitted[method](np.zeros(3))


@every_method
def test_bad_rows_are_named_by_the_call_and_by_the_fit(method, fitted):
    z, y = drifted(200, 3)
    for bad, got in ((np.nan, "nan for class 1"), (np.inf, "inf for class 1")):
        broken = z.copy()
        broken[171, 1] = bad
        for call in (fitted[method], lambda z: FITS[method](z, y)):
            with pytest.raises(tepid.InputError, match=f"^logits must be .*{got} at row 171$"):
                call(broken)
    z[171] = -np.inf
    with pytest.raises(tepid.InputError, match=r"-inf for every class at row 171$"):
        fitted[method](z)
    with pytest.raises(tepid.InputError, match=r"lie within 3\.40282e\+38 .* at row 1$"):
        fitted[method](np.array([[0.0, 0.0, 0.0], [1e300, 1e300, 1e300]]))


def test_a_bad_row_of_a_later_batch_is_named_by_its_place_in_all(fitted):
    z = np.zeros((500_000, 3), np.float32)  # more than one batch of the call
    z[490_000, 1] = np.nan
    with pytest.raises(tepid.InputError, match=r"nan for class 1 at row 490000$"):
        fitted["vector"](z)


@every_method
@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        (-2, r"^labels must be in 0\.\.2, got -2 at row 17$"),
        (3, r"^labels must be in 0\.\.2, got 3 at row 17$"),
        (-1, r"^labels must be known, .* at row 17$"),
    ],
)
def test_labels_out_of_range_and_unknown_ones_are_refused(method, label, sentence):
    z, y = drifted(200, 3)
    y[17] = label
    with pytest.raises(tepid.InputError, match=sentence):
        FITS[method](z, y)


@every_method
def test_what_cannot_be_fitted_is_refused(method):
    z, y = drifted(20, 3)
    fit = FITS[method]
    with pytest.raises(tepid.InputError, match="labels must be given"):
        fit(z)
    with pytest.raises(tepid.InputError, match="logits must have at least one row"):
        fit(np.zeros((0, 3)), [])
    with pytest.raises(tepid.InputError, match="labels must have one entry for each of the 20"):
        fit(z, y[:5])
    with pytest.raises(tepid.InputError, match="sample_weight must not be zero for every row"):
        fit(z, y, sample_weight=np.zeros(20))
    z[7, y[7]] = -np.inf
    with pytest.raises(
        tepid.InputError,
        match="not masked, got class . whose .* at row 7$".replace(". whose", "., whose"),
    ):
        fit(z, y)


# --- weights


@pytest.mark.slow
@every_method
def test_a_whole_weight_is_as_good_as_repeated_rows(method, rng):
    z, y = drifted(400, 3)
    times = rng.integers(0, 4, 400)
    weighted = FITS[method](z, y, sample_weight=times)
    repeated = FITS[method](np.repeat(z, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted(z), repeated(z), rtol=2e-4, atol=2e-6)
    assert np.abs(FITS[method](z, y)(z) - weighted(z)).max() > 1e-3


@pytest.mark.slow
@every_method
def test_rows_of_zero_weight_change_nothing(method):
    z, y = drifted(400, 3)
    u = np.where(np.arange(400) % 3, 1.0, 0.0)
    wrong = np.where(u > 0, y, 99)
    c = FITS[method](z, wrong, sample_weight=u)
    kept = FITS[method](z[u > 0], y[u > 0])
    np.testing.assert_array_equal(c(z), kept(z))
    assert c.samples == kept.samples == int(u.sum())


@pytest.mark.slow
@every_method
def test_the_order_of_rows_changes_nothing(method, rng):
    z, y = drifted(400, 3)
    order = rng.permutation(400)
    np.testing.assert_allclose(
        FITS[method](z[order], y[order])(z), FITS[method](z, y)(z), rtol=2e-4, atol=2e-6
    )


# --- hostile input


@every_method
@pytest.mark.parametrize("label", [0, 1])
def test_one_row_is_an_answer(method, label):
    for z in (np.array([[0.0, 3.0, 1.0]]), np.array([3.0])):
        c = FITS[method](z, [label])
        assert c.samples == 1
        assert c.warnings
        _assert_probabilities(c(2 * np.eye(c.classes)), 2 * np.eye(c.classes))


@every_method
@pytest.mark.parametrize("k", [2, 5])
def test_constant_logits_give_the_shares_of_the_labels(method, k, rng):
    y = rng.integers(0, k, 500) // 2 if k > 2 else rng.integers(0, 4, 500) // 3
    p = FITS[method](np.full((500, k), 3.5), y)(np.full((2, k), 3.5))
    if method == "ensemble":
        np.testing.assert_allclose(p, 1 / k)
    else:
        share = np.bincount(y, minlength=k) / 500
        np.testing.assert_allclose(p, [share, share], atol=0.02)


@every_method
def test_a_class_absent_from_the_labels_is_said(method):
    z, y = drifted(900, 4)
    z, y = z[y != 2], y[y != 2]
    c = FITS[method](z, y)
    assert any("1 of 4 classes never occur" in sentence for sentence in c.warnings)
    p = c(z)
    _assert_probabilities(p, z)
    assert method == "ensemble" or p[:, 2].mean() < 0.05


@pytest.mark.slow
@every_method
def test_a_masked_class_keeps_nothing(method, rng):
    z, y = drifted(900, 4)
    mask = rng.random(z.shape) < 0.3
    mask[np.arange(len(y)), y] = False
    z[mask] = -np.inf
    c = FITS[method](z, y)
    p = c(z)
    _assert_probabilities(p, z)
    assert tepid.metrics.nll(y, p) < tepid.metrics.nll(y, softmax(z, axis=1))


@every_method
def test_a_class_masked_in_every_row_is_as_good_as_none(method):
    z, y = drifted(900, 4)
    z, y = z[y != 2], y[y != 2]
    z[:, 2] = -np.inf
    options = {"regularization": 0.0} if method in AFFINE else {}
    p = FITS[method](z, y, **options)(z)
    without = FITS[method](np.delete(z, 2, axis=1), y - (y > 2), **options)(np.delete(z, 2, axis=1))
    np.testing.assert_allclose(np.delete(p, 2, axis=1), without, atol=2e-4)


@pytest.mark.slow
@every_method
@pytest.mark.parametrize("scale", [1e6, 1e-6, 1e30])
def test_logits_of_any_scale_give_probabilities(method, scale):
    z, y = drifted(300, 3)
    p = FITS[method](scale * z, y)(scale * z)
    _assert_probabilities(p, z)


@pytest.mark.parametrize("method", ["vector", "matrix", "ensemble"])
@pytest.mark.parametrize("scale", [50, 0.02, 1e6])
def test_the_scale_of_the_logits_does_not_matter(method, scale):
    z, y = drifted(600, 3)
    options = {} if method == "ensemble" else {"regularization": 0.5}
    p = FITS[method](z, y, **options)(z)
    if method != "ensemble":
        np.testing.assert_allclose(FITS[method](scale * z, y, **options)(scale * z), p, atol=1e-4)
    elif scale > 1:
        assert FITS[method](scale * z, y).weights[1] < 1e-6


@every_method
def test_separable_labels_are_an_answer(method):
    z = drifted(300, 3)[0]
    c = FITS[method](z, z.argmax(axis=1))
    p = c(z)
    _assert_probabilities(p, z)
    assert tepid.metrics.accuracy(z.argmax(axis=1), p) > 0.95


@st.composite
def cases(draw):
    """Logits of any kind with labels that are not masked."""
    z = draw(strategies.logits().filter(lambda z: len(z) > 0 and z.shape[1] < 20))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    return z[:100], np.where(np.isneginf(z), -1, rng.random(z.shape)).argmax(axis=1)[:100]


@pytest.mark.slow
@every_method
@settings(max_examples=12)
@given(case=cases())
def test_whatever_the_input_probabilities_are_probabilities(method, case, tmp_path_factory):
    z, y = case
    c = FITS[method](z, y)
    p = c(z)
    _assert_probabilities(p, z)
    assert all(isinstance(sentence, str) for sentence in c.warnings)
    if c.keeps_argmax:
        assert (p[np.arange(len(z)), z.argmax(axis=1)] == p.max(axis=1)).all()
    path = tmp_path_factory.mktemp("saved") / "c.npz"
    c.save(path)
    np.testing.assert_array_equal(scaling.load(path)(z), p)


# --- what they say of themselves


def test_only_what_guarantees_the_argmax_says_so(fitted):
    assert {method for method, c in fitted.items() if c.keeps_argmax} == {"ensemble"}
    plain = dataclasses.replace(fitted["vector"], weight=np.full(3, 0.5), bias=np.zeros(3))
    assert plain.keeps_argmax
    assert not dataclasses.replace(plain, weight=np.full(3, -0.5)).keeps_argmax
    assert not dataclasses.replace(plain, weight=np.array([0.5, 0.5, 0.4])).keeps_argmax
    assert not dataclasses.replace(plain, bias=np.array([0.0, 0.1, 0.0])).keeps_argmax
    same = dataclasses.replace(fitted["beta"], a=np.ones(3), b=np.zeros(3), c=np.zeros(3))
    assert same.keeps_argmax
    assert not dataclasses.replace(same, c=np.array([0.0, 0.1, 0.0])).keeps_argmax


def test_parameters_that_outnumber_the_rows_are_said():
    z, y = crowded(150, 20)
    said = scaling.matrix(z, y, regularization=0).warnings
    assert "There are more parameters (420) than rows (150), and nothing holds them." in said
    said = scaling.matrix(z, y, regularization=1).warnings
    assert any("(420) than rows (150), and only the regularization" in s for s in said)
    said = scaling.vector(z, y, regularization=0).warnings
    assert not any("parameters" in s for s in said)
    assert any(
        "more parameters (40) than rows (39)" in s for s in scaling.vector(z[:39], y[:39]).warnings
    )
    assert any(
        "fewer rows (19) than classes (20)" in s for s in scaling.beta(z[:19], y[:19]).warnings
    )


def test_a_row_without_anything_left_falls_back_to_its_softmax():
    z = np.array([[0.0, 0.0], [0.0, 0.1], [4.0, 0.0], [-4.0, 0.0]])
    c = scaling.histogram(z, [0, 1, 1, 0], bins=2)
    empty = dataclasses.replace(
        c, values=np.array([0.0, 1.0, 0.0, 1.0]), knots=np.array([0.9, 1.0, 0.9, 1.0])
    )
    np.testing.assert_allclose(empty([[0.0, 1.1]]), softmax([[0.0, 1.1]], axis=1))
    np.testing.assert_array_equal(empty([[0.0, 4.0]]), [[0.0, 1.0]])


@pytest.mark.parametrize("method", ["histogram", "isotonic", "bbq"])
def test_no_row_of_the_fit_is_left_with_nothing(method, rng):
    z = 8 * rng.normal(size=(300, 6))
    y = rng.integers(0, 6, 300)
    c = FITS[method](z, y)
    own = c.columns(z, softmax(z, axis=1))[np.arange(300), y]
    assert (own > 0).all()


def test_a_temperature_that_does_better_is_recommended():
    rng = np.random.default_rng(3)
    posterior = 2 * rng.normal(size=(300, 12))
    y = (posterior + rng.gumbel(size=posterior.shape)).argmax(axis=1)
    said = scaling.matrix(2 * posterior, y).warnings
    assert any("one temperature, which is the better choice" in s for s in said)


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
@pytest.mark.parametrize("method", AFFINE)
def test_a_regularization_is_a_number_from_zero_up(method, value):
    with pytest.raises(tepid.InputError, match=f"^regularization must be a number .*got {value}$"):
        FITS[method](*drifted(50, 3), regularization=value)


def test_bins_are_checked():
    with pytest.raises(tepid.InputError, match="bins must be at least 1, got 0"):
        scaling.histogram(*drifted(50, 3), bins=0)
    with pytest.raises(tepid.InputError, match="spacing must be 'width' or 'mass', got 'depth'"):
        scaling.histogram(*drifted(50, 3), spacing="depth")


@pytest.mark.parametrize("method", ["vector", "isotonic", "bbq", "beta", "ensemble"])
def test_without_scipy_and_scikit_learn_the_extra_is_named(method, monkeypatch, fitted, tmp_path):
    for module in ("scipy.optimize", "scipy.special", "sklearn.isotonic"):
        monkeypatch.setitem(sys.modules, module, None)
    z, y = drifted(50, 3)
    with pytest.raises(tepid.InputError, match=r"pip install 'tepid\[scaling\]'"):
        FITS[method](z, y)
    fitted[method].save(tmp_path / "c.npz")
    np.testing.assert_array_equal(scaling.load(tmp_path / "c.npz")(z), fitted[method](z))


def test_weights_however_heavy_do_not_fill_the_memory():
    z, y = drifted(n=60)
    heavy = scaling.bbq(z, y, sample_weight=np.full(60, 1e90))
    assert np.isfinite(heavy(z)).all()


def test_a_mixture_of_nothing_but_chance_does_not_keep_the_argmax():
    fitted = scaling.ensemble([[0.0, 3, 0], [0, 3, 0]], [0, 2])
    assert not fitted.keeps_argmax


@pytest.mark.parametrize("fit", [scaling.vector, scaling.matrix, scaling.dirichlet])
def test_single_and_double_precision_choose_the_same_regularization(fit):
    z, y = drifted(n=400)
    single = z.astype(np.float32)
    one, two = fit(single, y), fit(single.astype(np.float64), y)
    assert (one.off_diagonal, one.intercepts) == (two.off_diagonal, two.intercepts)


@pytest.mark.parametrize("given", [[1, 2], "a", (1e-300, 1.0), (1.0,), -1.0, float("nan")])
def test_a_regularization_that_is_none_is_refused(given):
    z, y = drifted(n=60)
    with pytest.raises(tepid.InputError, match="regularization must be a number from zero up"):
        scaling.vector(z, y, regularization=given)


@pytest.mark.parametrize("given", [np.int64(1), np.float32(1), (np.uint8(1), 1.0)])
def test_a_regularization_may_be_of_any_type_of_number(given):
    z, y = drifted(n=60)
    wanted = scaling.vector(z, y, regularization=1)
    assert scaling.vector(z, y, regularization=given).intercepts == wanted.intercepts == 1.0
