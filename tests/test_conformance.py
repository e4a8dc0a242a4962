"""The conformance questions, and hostile input for every method.

scripts/conformance.py asks other packages the same questions. The other cases are scale, separable
labels, NaN and infinities, masked classes, half precision, labels out of range, no rows, constant
logits, labels worse than chance, absent classes, two classes and a single row. Answers are compared
with those of float64 and SciPy's root finder.
"""

import math
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

import tepid
from tests import strategies
from tests.precision import CONFIDENCE, apart
from tests.questions import BAD_ROW, LIMIT, NOTICE, OPTIMUM, draw, questions, root

ACCURACY = 0.7
FITS = {
    "uts": lambda z, y: tepid.uts(z),
    "labels": tepid.temperature_scaling,
    "accuracy": lambda z, y: tepid.match_accuracy(z, ACCURACY),
}
every_method = pytest.mark.parametrize("method", FITS)


def _levels(n, k):
    """Logits of three levels, whose softmax is far from every threshold even where it is flat."""
    order = np.random.default_rng(12).permuted(np.tile(np.arange(k), (n, 1)), axis=1)
    return np.select([order == 0, order < 0.4 * k], [40.0, 20.0], 0.0), order.argmin(axis=1)


def _pairs(z):
    """The paper's pairs (row, class), with the tolerance and the floor that the design states."""
    s = softmax(z, axis=1)
    s[z - z.max(axis=1, keepdims=True) < -87] = 0
    outside = np.arange(z.shape[1]) != z.argmax(axis=1)[:, None]
    n = np.maximum(outside.sum(axis=0), 1)
    mean = np.where(outside, s, 0).sum(axis=0) / n
    deviation = np.sqrt((np.where(outside, s - mean, 0) ** 2).sum(axis=0) / n)
    theta = np.where(outside.any(axis=0), mean + deviation, 0) * (1 - 2.0**-20)
    assert (np.abs(s - theta) > 3e-7 * theta)[s > 0].all(), "rounding would toss a coin here"
    return (s > 0) & (s >= theta)


def _truth(method, z, y):
    """The exact temperature in float64, or None where no finite one is best."""
    z = np.asarray(z, np.float64)
    d = z - z.max(axis=1, keepdims=True)
    near = np.where(np.isfinite(d), d, 0)
    scale = np.median(-near[near < 0])
    if method == "accuracy":
        return root(lambda b: softmax(b * d, axis=1).max(axis=1).mean() - ACCURACY, scale)
    pairs = _pairs(z) if method == "uts" else np.arange(z.shape[1]) == y[:, None]
    weight, pull = pairs.sum(axis=1), near[pairs].sum()
    return root(
        lambda b: (weight * (softmax(b * d, axis=1) * near).sum(axis=1)).sum() - pull, scale
    )


def _assert_right(method, z, y, t=None):
    t = t or FITS[method](z, y)
    exact = _truth(method, z, y)
    if exact is None:
        assert t.status == "at-bound"
    else:
        assert t.status == "ok"
        assert float(t) == pytest.approx(exact, rel=t.precision)


def _assert_at_bound(t):
    assert t.status == "at-bound"
    assert 0 < float(t) < math.inf
    assert t.interval is None
    assert t.warnings


def _same_order(p, z):
    """Whether a larger logit never has a smaller probability."""
    order = np.argsort(z, axis=1, kind="stable")
    return (np.diff(np.take_along_axis(p, order, axis=1), axis=1) >= 0).all()


# --- the questions that scripts/conformance.py asks of other packages


@pytest.mark.parametrize(
    "question",
    [q for q in questions() if q.expected in (OPTIMUM, NOTICE, LIMIT)],
    ids=lambda question: question.name,
)
def test_every_question_is_answered_exactly(question):
    def fit():
        return tepid.temperature_scaling(
            question.logits, question.labels, sample_weight=question.weights
        )

    if question.expected == NOTICE:
        with pytest.raises(tepid.InputError) as error:
            fit()
        assert "\n" not in str(error.value)
        named = str(BAD_ROW) in str(error.value)
        assert named == (question.name not in ("fewer labels than rows", "no rows"))
    elif question.expected == OPTIMUM:
        t = fit()
        assert t.status == "ok"
        assert float(t) == pytest.approx(question.temperature, rel=t.precision)
    else:
        assert fit().status == "at-bound"


@pytest.mark.slow
def test_the_script_finds_every_answer_right(monkeypatch):
    root_folder = Path(__file__).parents[1]
    for folder in ("tests", "scripts"):
        monkeypatch.syspath_prepend(root_folder / folder)
    script = runpy.run_path(str(root_folder / "scripts" / "conformance.py"))
    for name in ("adapters", "adapters.tepid", "questions"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    found = script["ask_all"]("tepid")["answers"]
    assert {name: a for name, a in found.items() if a["verdict"] != "right"} == {}
    assert found.keys() == {question.name for question in questions()}


# --- the table of scales


@every_method
@pytest.mark.parametrize("shape", [(2000, 5), (500, 100), (200, 300)])
@pytest.mark.parametrize("scale", [1, 50, 0.02, 1e6, 1e-6])
def test_the_temperature_is_right_at_every_scale(method, scale, shape):
    z, y = _levels(*shape) if (method, scale) == ("uts", 1e-6) else draw(*shape)
    _assert_right(method, scale * z, y)


@every_method
@pytest.mark.parametrize("scale", [1, 50, 0.02, 1e6])
def test_the_temperature_is_right_at_every_scale_in_single_precision(method, scale):
    z, y = draw(500, 20)
    _assert_right(method, (scale * z).astype(np.float32), y)


@pytest.mark.parametrize("method", ["labels", "accuracy"])
@pytest.mark.parametrize("scale", [50, 0.02, 1e6, 1e-6])
def test_the_temperature_grows_with_the_scale(method, scale):
    z, y = draw(1000, 20)
    one, other = FITS[method](z, y), FITS[method](scale * z, y)
    assert float(other) == pytest.approx(scale * float(one), rel=apart(one, other))


@pytest.mark.parametrize("scale", [1, 50, 0.02, 1e6, 1e-6])
def test_separable_labels_are_at_the_bound(scale):
    z = scale * draw(1000, 20)[0]
    t = tepid.temperature_scaling(z, z.argmax(axis=1))
    _assert_at_bound(t)
    assert float(t) < 0.1 * scale
    assert t.implied_accuracy == pytest.approx(t(z).max(axis=1).mean(), abs=CONFIDENCE)
    assert t.implied_accuracy > 0.99
    assert "low enough" in t.warnings[0]


def test_a_network_without_any_doubt_is_at_the_bound_of_uts():
    z = 1e4 * np.eye(5)[np.arange(2000) % 5]
    _assert_at_bound(tepid.uts(z))
    _assert_at_bound(tepid.match_accuracy(z, 1.0))


def test_one_error_makes_separable_labels_identified():
    z = draw(1000, 20)[0]
    y = z.argmax(axis=1)
    y[0] = z[0].argmin()
    _assert_right("labels", z, y)


# --- the table of hostile input


@every_method
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("bad", "got"), [(np.nan, "nan"), (np.inf, "inf")])
def test_nan_and_infinity_are_named_by_row_and_class(method, dtype, bad, got):
    z, y = draw(3000, 20)
    z = z.astype(dtype)
    z[1717, 3] = bad
    said = f"logits must be finite, or -inf for a masked class, got {got} for class 3 at row 1717"
    with pytest.raises(tepid.InputError, match=f"^{said}$"):
        FITS[method](z, y)


@every_method
def test_a_row_of_only_minus_infinity_is_named(method):
    z, y = draw(3000, 20)
    z[1717] = -np.inf
    with pytest.raises(tepid.InputError, match=r"^logits .* -inf for every class at row 1717$"):
        FITS[method](z, y)


@every_method
@pytest.mark.parametrize("k", [4, 120])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_masked_class_is_as_good_as_none(method, k, dtype):
    z, y = draw(1500, k)
    kept = y != 1
    z, y = z[kept].astype(dtype), y[kept]
    masked = z.copy()
    masked[:, 1] = -np.inf
    with_mask = FITS[method](masked, y)
    without = FITS[method](np.delete(z, 1, axis=1), y - (y > 1))
    assert with_mask.status == without.status == "ok"
    assert float(with_mask) == pytest.approx(float(without), rel=apart(with_mask, without))
    # Confidence changes by less than log T does, so this covers both T and its own rounding.
    close = apart(with_mask, without) + 2 * CONFIDENCE
    assert with_mask.implied_accuracy == pytest.approx(without.implied_accuracy, abs=close)
    assert (with_mask.sensitivity is None) == (method != "uts")
    if method == "uts":
        # Read off a curve with one node per octave.
        close = tepid.summaries.optimum.INTERPOLATION[1]
        assert with_mask.sensitivity == pytest.approx(without.sensitivity, rel=close)


@every_method
@pytest.mark.parametrize("k", [6, 120])
def test_masks_may_differ_from_row_to_row(method, k, rng):
    z, y = draw(1500, k)
    mask = rng.random(z.shape) < 0.3
    mask[np.arange(len(y)), y] = False
    z[mask] = -np.inf
    _assert_right(method, z, y)


@every_method
def test_rows_with_a_single_class_left_are_right(method):
    z, y = draw(800, 5)
    z[::4] = np.where(np.arange(5) == y[::4, None], z[::4], -np.inf)
    _assert_right(method, z, y)


@every_method
@pytest.mark.parametrize("k", [5, 120])
def test_half_precision_is_right(method, k):
    z, y = draw(1500, k)
    _assert_right(method, z.astype(np.float16), y)


@pytest.mark.parametrize(("label", "dtype"), [(-2, np.int64), (-2, np.int8), (20, np.uint8)])
def test_a_label_out_of_range_is_refused(label, dtype):
    z, y = draw(3000, 20)
    y = y.astype(dtype)
    y[1717] = label
    said = rf"^labels must be in 0\.\.19, got {label} at row 1717$"
    for method in (tepid.temperature_scaling, tepid.calibrate):
        with pytest.raises(tepid.InputError, match=said):
            method(z, y)


@pytest.mark.parametrize("dtype", [np.int64, np.int8])
def test_an_unknown_label_is_refused_where_every_row_needs_one(dtype):
    z, y = draw(3000, 20)
    y = y.astype(dtype)
    y[1717] = -1
    said = r"^labels must be known, .* got an unknown one \(-1, NaN or empty\) at row 1717$"
    with pytest.raises(tepid.InputError, match=said):
        tepid.temperature_scaling(z, y)
    assert tepid.calibrate(z, y).status == "ok"


@pytest.mark.filterwarnings("ignore::tepid.CalibrationWarning")
@pytest.mark.filterwarnings("ignore::tepid.errors.ProbabilityWarning")
@given(z=strategies.logits(), seed=st.integers(0, 99), scale=st.sampled_from([1e-9, 1.0, 1e9]))
def test_calibrate_answers_or_refuses_any_logits(tmp_path_factory, z, seed, scale):
    """With every kind of evidence, none of which fits the others."""
    rng = np.random.default_rng(seed)
    n, k = z.shape
    other = rng.normal(size=z.shape)
    labels = np.where(np.isneginf(z.astype(np.float64)), -np.inf, other).argmax(axis=1)
    with np.errstate(over="ignore"):
        evidence = {
            "labels": np.where(rng.random(n) < 0.5, labels, -1),
            "accuracy": float(rng.random()),
            "models": [other, scale * other],
            "reference": rng.integers(-1, k, n),
            "source": (scale * other, labels),
        }
    chosen = [kind for kind in evidence if rng.random() < 0.7]
    try:
        t = tepid.calibrate(z, **{kind: evidence[kind] for kind in chosen})
    except tepid.InputError as error:
        assert "\n" not in str(error)  # noqa: PT017  # an answer would do as well
        return
    assert 0 < t.value < math.inf
    assert 0 < t.interval[0] <= t.interval[1] < math.inf
    assert t.helps is None or 0 <= t.helps <= 1
    assert sum(part.weight for part in t.evidence.values()) == pytest.approx(1)
    assert t.verdict in ("use", "check", "keep")
    assert (t.verdict == "keep") == (t.helps is None)
    if t.verdict == "keep":
        assert t.value == 1
    path = tmp_path_factory.mktemp("any") / "t.json"
    t.save(path)
    assert tepid.load(path) == t


@every_method
@pytest.mark.parametrize("none", [np.zeros((0, 20)), np.zeros(0), []])
def test_no_rows_are_refused(method, none):
    with pytest.raises(tepid.InputError, match=r"^logits must have at least one row, got none$"):
        FITS[method](none, [])


@every_method
@pytest.mark.parametrize("k", [2, 20, 200])
def test_constant_logits_identify_nothing(method, k, rng):
    y = rng.integers(0, k, 500)
    for z in (
        np.zeros((500, k)),
        np.full((500, k), 3.5, np.float32),
        rng.normal(size=(500, 1)) + np.zeros(k),
    ):
        t = FITS[method](z, y)
        assert t.status == "not-identified"
        assert 0 < float(t) < math.inf
        assert t.interval is None
        assert t.implied_accuracy == pytest.approx(1 / k, abs=CONFIDENCE)
        assert "equal" in t.warnings[0]
        np.testing.assert_allclose(t(z), 1 / k, rtol=1e-6)


@every_method
def test_constant_logits_beside_a_masked_class_identify_nothing(method, rng):
    z = np.zeros((500, 5))
    z[:, 2] = -np.inf
    y = rng.choice([0, 1, 3, 4], 500)
    assert FITS[method](z, y).status == "not-identified"


def test_rows_of_one_class_each_identify_nothing():
    z = np.where(np.eye(4)[np.arange(400) % 4] > 0, 1.0, -np.inf)
    assert tepid.temperature_scaling(z, z.argmax(axis=1)).status == "not-identified"
    assert tepid.uts(z).status == "not-identified"


@pytest.mark.parametrize("scale", [1, 50, 0.02, 1e6, 1e-6])
@pytest.mark.parametrize("k", [3, 120])
def test_labels_worse_than_chance_are_at_the_bound_and_never_flip_the_prediction(k, scale):
    z = scale * draw(1000, k)[0]
    t = tepid.temperature_scaling(z, z.argmin(axis=1))
    _assert_at_bound(t)
    assert float(t) > 10 * scale
    # Near 1/k a relative tolerance would ask for more digits than float32 has: its error is
    # relative to 1 - 1/k.
    assert t.implied_accuracy == pytest.approx(t(z).max(axis=1).mean(), abs=CONFIDENCE)
    assert t.implied_accuracy == pytest.approx(1 / k, rel=0.05)
    assert "high enough" in t.warnings[0]
    p = t(z)
    assert (p[np.arange(len(z)), z.argmax(axis=1)] == p.max(axis=1)).all()
    assert _same_order(p, z)


def test_an_accuracy_worse_than_chance_is_at_the_bound():
    z = draw(1000, 5)[0]
    for accuracy in (0.2, 0.1, 1e-9):
        t = tepid.match_accuracy(z, accuracy)
        _assert_at_bound(t)
        assert float(t) > 10
    assert tepid.match_accuracy(z, 0.21).status == "ok"


def test_a_perfect_accuracy_is_at_the_bound():
    z = draw(1000, 5)[0]
    t = tepid.match_accuracy(z, 1.0)
    _assert_at_bound(t)
    assert float(t) < 0.1


def test_an_accuracy_beyond_what_tied_rows_allow_is_at_the_bound():
    z = np.array([[1.0, 1.0, 0.0], [2.0, 0.0, 0.0]])
    _assert_at_bound(tepid.match_accuracy(z, 0.76))
    t = tepid.match_accuracy(z, 0.74)
    assert t.status == "ok"
    # Confidence changes by less than log T does.
    assert t(z).max(axis=1).mean() == pytest.approx(0.74, abs=t.precision)


@pytest.mark.parametrize("k", [20, 120])
def test_a_class_absent_from_the_labels_is_fine(k):
    z, y = draw(1500, k)
    present = (y != 0) & (y != k - 1) & (y != 7)
    _assert_right("labels", z[present], y[present])


@every_method
def test_a_class_that_is_never_predicted_is_fine(method):
    z, y = draw(1500, 10)
    z[:, 4] -= 30
    present = y != 4
    assert (z.argmax(axis=1) != 4).all()
    _assert_right(method, z[present], y[present])


@every_method
def test_a_single_class_for_every_row_is_an_answer(method):
    z, y = draw(1500, 10)
    z[:, 0] += 40
    t = FITS[method](z, np.where(y % 3 == 0, y, 0))
    assert 0 < float(t) < math.inf
    assert t.status in ("ok", "at-bound")
    assert (t.status == "ok") == (_truth(method, z, np.where(y % 3 == 0, y, 0)) is not None)


@every_method
@pytest.mark.parametrize("scale", [1, 50, 0.02])
@pytest.mark.parametrize("form", ["(n,)", "(n, 1)", "(n, 2)"])
def test_two_classes_are_right(method, scale, form):
    pair, y = draw(2000, 2)
    margin = scale * (pair[:, 1] - pair[:, 0])
    both = np.stack([np.zeros(2000), margin], axis=1)
    z = {"(n,)": margin, "(n, 1)": margin[:, None], "(n, 2)": scale * pair}[form]
    t = FITS[method](z, y)
    assert (t.samples, t.classes) == (2000, 2)
    _assert_right(method, both, y, t)
    p = t(z)
    sigmoid = 1 / (1 + np.exp(-margin / float(t)))
    np.testing.assert_allclose(p, np.stack([1 - sigmoid, sigmoid], axis=1), atol=1e-13)


@pytest.mark.parametrize("form", [np.array([3.0]), np.array([[3.0]]), np.array([[0.0, 3.0, 1.0]])])
def test_one_row_is_at_the_bound(form):
    k = 2 if form.size == 1 else 3
    _assert_at_bound(tepid.uts(form))
    right, wrong = tepid.temperature_scaling(form, [1]), tepid.temperature_scaling(form, [0])
    _assert_at_bound(right)
    _assert_at_bound(wrong)
    assert float(right) < 1 < float(wrong)
    assert right.implied_accuracy == pytest.approx(1)
    assert wrong.implied_accuracy == pytest.approx(1 / k, rel=0.05)
    assert right.samples == 1


def test_fewer_rows_than_classes_are_said():
    z, y = draw(30, 120)
    for t in (tepid.uts(z), tepid.temperature_scaling(z, y), tepid.match_accuracy(z, 0.7)):
        assert any("fewer rows (30) than classes (120)" in sentence for sentence in t.warnings)


# --- harder than the tables


@pytest.mark.parametrize("method", ["labels", "accuracy"])
@pytest.mark.parametrize(("scale", "far"), [(1e-3, 1e4), (1e-4, 1e6), (1e-3, -1e6), (1e3, 1e9)])
def test_a_few_outlandish_rows_do_not_hide_the_temperature(method, scale, far):
    z, y = draw(2000, 5)
    z *= scale
    z[:3, 0] = far
    y[:3] = 0 if far > 0 else 1
    assert _truth(method, z, y) == pytest.approx(2 * scale, rel=0.7)
    _assert_right(method, z, y)


@pytest.mark.parametrize("method", ["labels", "accuracy"])
@pytest.mark.parametrize("scale", [1, 0.02])
def test_a_mask_of_minus_a_billion_does_not_hide_the_temperature(method, scale):
    z, y = draw(2000, 5)
    z, y = scale * z[y != 1], y[y != 1]
    z[::2, 1] = -1e9
    _assert_right(method, z, y)


@pytest.mark.parametrize("scale", [1, 1e-3, 1e-6])
@pytest.mark.parametrize("shape", [(2000, 5), (500, 100), (200, 300)])
def test_the_precision_is_what_is_stated_where_all_rows_round_alike(shape, scale):
    z, y = _levels(*shape)
    y = np.where(np.arange(len(y)) % 3, (y + 1) % shape[1], y)
    for method, fit in FITS.items():
        t = fit(scale * z, y)
        assert abs(float(t) / _truth(method, scale * z, y) - 1) <= t.precision, method


@every_method
def test_many_ties_are_right(method):
    z, y = draw(3000, 6)
    _assert_right(method, np.round(z / 3), y)


@every_method
def test_a_heavy_tail_of_scales_is_right(method, rng):
    z, y = draw(3000, 6)
    z *= np.exp(1.5 * rng.normal(size=(3000, 1)))
    _assert_right(method, z, y)


# --- every result, whatever the input


@st.composite
def cases(draw):
    """Logits of any kind with labels that are not masked."""
    z = draw(strategies.logits().filter(len))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    y = np.where(np.isneginf(z), -1, rng.random(z.shape)).argmax(axis=1)
    return z, y


@every_method
@given(case=cases())
def test_every_temperature_is_finite_and_positive_and_can_be_saved(method, case, tmp_path_factory):
    t = FITS[method](*case)
    assert 0 < float(t) < math.inf
    assert t.value == float(t)
    assert t.status in ("ok", "at-bound", "not-identified")
    assert 0 <= t.implied_accuracy <= 1
    assert bool(t.warnings) or t.status == "ok"
    path = tmp_path_factory.mktemp("saved") / "t.json"
    t.save(path)
    assert tepid.load(path) == t


@given(z=strategies.logits(), temperature=st.sampled_from([1e-3, 0.3, 1.0, 1.7, 40.0, 1e5]))
def test_probabilities_sum_to_one_and_keep_the_order_of_the_logits(z, temperature):
    k = z.shape[1]
    p = tepid.Temperature(temperature, "", samples=0, classes=k, implied_accuracy=0)(z)
    assert p.shape == z.shape
    assert p.dtype == (np.float64 if z.dtype == np.float64 else np.float32)
    rounding = 1e-12 if z.dtype == np.float64 else 2e-6
    np.testing.assert_allclose(p.sum(axis=1, dtype=np.float64), 1, atol=rounding)
    assert (p >= 0).all()
    assert (p[np.isneginf(z)] == 0).all()
    assert (p[np.arange(len(z)), z.argmax(axis=1)] == p.max(axis=1)).all()
    assert _same_order(p, z)
    exact = softmax(z.astype(np.float64) / temperature, axis=1)
    np.testing.assert_allclose(p, exact, rtol=3 * rounding, atol=1e-30)


@pytest.mark.parametrize("temperature", [0.1, 1.0, 1.5, 1e3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_neighbouring_logits_keep_their_order(dtype, temperature, rng):
    columns = [(-20 * temperature * rng.random((500, 1))).astype(dtype)]
    for _ in range(60):
        columns.append(np.nextafter(columns[-1], np.array(np.inf, dtype)))
    z = np.concatenate([*columns, np.zeros_like(columns[0])], axis=1)
    p = tepid.Temperature(temperature, "", samples=0, classes=62, implied_accuracy=0)(z)
    assert (p.argmax(axis=1) == 61).all()
    assert (np.diff(p, axis=1) >= -4 * np.finfo(dtype).eps * p[:, 1:]).all()


@pytest.mark.parametrize("temperature", [6e-309, 1e-308, 1e-40, 1e40, 1.7e308])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_positive_temperature_gives_probabilities(dtype, temperature):
    z = np.array([[0.0, 4.0, 1.0], [2.0, 2.0, -np.inf]], dtype)
    p = tepid.Temperature(temperature, "", samples=0, classes=3, implied_accuracy=0)(z)
    expected = [[0, 1, 0], [0.5, 0.5, 0]] if temperature < 1 else [[1 / 3] * 3, [0.5, 0.5, 0]]
    np.testing.assert_allclose(p, expected, rtol=1e-6)


# --- agreement with scikit-learn where it is right


def _sklearn(z, y):
    """The temperature of scikit-learn, given logits as the decision of a frozen estimator."""
    base = pytest.importorskip("sklearn.base")
    calibration = pytest.importorskip("sklearn.calibration")
    frozen = pytest.importorskip("sklearn.frozen")

    class PassThrough(base.ClassifierMixin, base.BaseEstimator):
        def fit(self, logits, labels):  # noqa: ARG002  # the interface
            self.classes_ = np.unique(labels)
            return self

        def decision_function(self, logits):
            return logits

        def predict(self, logits):
            return logits.argmax(axis=1)

    model = calibration.CalibratedClassifierCV(
        frozen.FrozenEstimator(PassThrough().fit(z, y)), method="temperature"
    ).fit(z, y)
    (calibrated,) = model.calibrated_classifiers_
    return 1 / calibrated.calibrators[0].beta_, model.predict_proba(z)


@pytest.mark.parametrize("scale", [1, 50, 0.02])
def test_labels_agree_with_scikit_learn(scale):
    z, y = draw(3000, 10)
    theirs, probabilities = _sklearn(scale * z, y)
    t = tepid.temperature_scaling(scale * z, y)
    assert float(t) == pytest.approx(theirs, rel=1e-4)
    np.testing.assert_allclose(t(scale * z), probabilities, atol=1e-4)
