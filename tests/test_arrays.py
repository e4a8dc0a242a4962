"""The border: every accepted form gives the same answer, every other one is a sentence."""

import tracemalloc

import numpy as np
import pytest

import tepid
from tepid import errors
from tests.precision import apart

MB = 1 << 20


@pytest.fixture(scope="module")
def made():
    """Float64 logits that every narrower float holds exactly, with labels."""
    rng = np.random.default_rng(3)
    posterior = rng.integers(-12, 13, size=(400, 6)) / 4
    labels = (posterior + rng.gumbel(size=posterior.shape)).argmax(axis=1)
    return 2 * posterior, labels


@pytest.fixture(scope="module")
def answers(made):
    return _answers(*made)


def _fits(z, y, **options):
    return [
        tepid.uts(z, **options),
        tepid.temperature_scaling(z, y, **options),
        tepid.match_accuracy(z, 0.7, **options),
    ]


def _answers(z, y, **options):
    return [float(t) for t in _fits(z, y, **options)]


def _assert_agree(ones, others):
    """Fits whose rows were rounded differently agree to what each of them promises."""
    for one, other in zip(ones, others, strict=True):
        assert float(one) == pytest.approx(float(other), rel=apart(one, other))


def _softmax(z, temperature):
    e = np.exp((z - z.max(axis=-1, keepdims=True)) / temperature)
    return e / e.sum(axis=-1, keepdims=True)


def _temperature(value, classes):
    return tepid.Temperature(value, "", samples=0, classes=classes, implied_accuracy=0.5)


def _unaligned(z):
    return np.frombuffer(b"\0" + z.tobytes(), z.dtype, offset=1).reshape(z.shape)


def _read_only(z):
    z = z.copy()
    z.flags.writeable = False
    return z


def _strided(z):
    wide = np.full((2 * len(z), 3 * z.shape[1]), 7.0, z.dtype)
    wide[::2, ::3] = z
    return wide[::2, ::3]


FORMS = {
    "float16": lambda z: z.astype(np.float16),
    "float32": lambda z: z.astype(np.float32),
    "float64": lambda z: z,
    "long double": lambda z: z.astype(np.longdouble),
    "big-endian float16": lambda z: z.astype(">f2"),
    "big-endian float32": lambda z: z.astype(">f4"),
    "big-endian float64": lambda z: z.astype(">f8"),
    "Fortran order": np.asfortranarray,
    "Fortran order, float32": lambda z: np.asfortranarray(z, np.float32),
    "strided": _strided,
    "strided float32": lambda z: _strided(z.astype(np.float32)),
    "backwards": lambda z: z[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": _read_only,
    "read-only float32": lambda z: _read_only(z.astype(np.float32)),
    "unaligned": _unaligned,
    "unaligned float32": lambda z: _unaligned(z.astype(np.float32)),
    "nested lists": lambda z: z.tolist(),
    "a list of rows": list,
    "tuples": lambda z: tuple(tuple(row) for row in z.tolist()),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_every_form_of_the_same_numbers_gives_the_same_answers(form, made, answers):
    z, y = made
    assert _answers(form(z), y) == pytest.approx(answers, rel=1e-6)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_every_form_is_turned_into_the_same_probabilities(form, made):
    z = made[0]
    np.testing.assert_allclose(_temperature(1.7, 6)(form(z)), _softmax(z, 1.7), rtol=2e-6)


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64, np.uint64]
)
def test_integers_are_logits(dtype, made):
    z, y = made
    z = np.round(z) - np.round(z).min()
    assert _answers(z.astype(dtype), y) == pytest.approx(_answers(z, y), rel=1e-9)


def test_integers_larger_than_float32_holds_keep_their_differences(made):
    z, y = made
    whole = (4 * z).astype(np.int64)
    far = whole + 2**40
    assert _answers(far, y) == _answers(whole, y)


def test_booleans_are_the_logits_zero_and_one(rng):
    z = rng.random((300, 4)) < 0.4
    y = rng.integers(0, 4, 300)
    assert _answers(z, y) == _answers(z.astype(np.float64), y)


def test_bfloat16_is_logits(made, answers):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    z = made[0].astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(z.astype(np.float64), made[0])
    assert _answers(z, made[1]) == pytest.approx(answers, rel=1e-6)
    assert _temperature(1.7, 6)(z).dtype == np.float32


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_torch_tensors_are_logits(name, made, answers):
    torch = pytest.importorskip("torch")
    z = torch.tensor(made[0], dtype=getattr(torch, name), requires_grad=True)
    y = torch.tensor(made[1])
    assert _answers(z, y) == pytest.approx(answers, rel=1e-6)
    probabilities = _temperature(1.7, 6)(z)
    assert isinstance(probabilities, torch.Tensor)
    assert probabilities.dtype == (torch.float64 if name == "float64" else torch.float32)
    np.testing.assert_allclose(probabilities.numpy(), _softmax(made[0], 1.7), rtol=2e-6)


def test_torch_tensors_keep_their_class_axis(rng):
    torch = pytest.importorskip("torch")
    z = torch.tensor(rng.normal(size=(2, 3, 4, 5)))
    probabilities = _temperature(1.5, 3)(z, class_axis=1)
    np.testing.assert_allclose(probabilities.numpy(), torch.softmax(z / 1.5, dim=1).numpy())


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_memory_mapped_arrays_are_logits(order, dtype, made, answers, tmp_path):
    path = tmp_path / "logits.npy"
    np.save(path, np.asarray(made[0], dtype, order=order))
    mapped = np.load(path, mmap_mode="r")
    assert _answers(mapped, made[1]) == pytest.approx(answers, rel=1e-6)
    assert type(_temperature(1.7, 6)(mapped)) is np.ndarray


def test_the_array_given_is_neither_changed_nor_locked(made):
    for dtype in (np.float32, np.float64):
        z = made[0].astype(dtype)
        before = z.copy()
        _answers(z, made[1])
        _temperature(2.0, 6)(z)
        assert z.flags.writeable
        np.testing.assert_array_equal(z, before)


def test_binary_logits_stand_for_the_pair_zero_and_z(rng):
    z = 3 * rng.normal(size=500)
    y = (z / 2 + rng.logistic(size=500) > 0).astype(np.int64)
    both = np.stack([np.zeros(500), z], axis=1)
    for dtype in (np.float16, np.float32, np.float64, np.int64):
        pair = _answers(both.astype(dtype), y)
        assert _answers(z.astype(dtype), y) == pytest.approx(pair, rel=1e-9)
        assert _answers(z.astype(dtype)[:, None], y) == pytest.approx(pair, rel=1e-9)
    sigmoid = 1 / (1 + np.exp(-z / 2))
    for shape in ((500,), (500, 1)):
        p = _temperature(2.0, 2)(z.reshape(shape))
        np.testing.assert_allclose(p, np.stack([1 - sigmoid, sigmoid], axis=1), atol=1e-15)


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1, -2, -3, -4])
def test_any_axis_may_hold_the_classes(axis, made, answers):
    z, y = made
    grid = np.moveaxis(z.reshape(4, 20, 5, 6), -1, axis)
    assert _answers(grid, y.reshape(4, 20, 5), class_axis=axis) == pytest.approx(answers, rel=1e-9)
    p = _temperature(1.7, 6)(grid, class_axis=axis)
    assert p.shape == grid.shape
    np.testing.assert_allclose(p, np.moveaxis(_softmax(z, 1.7).reshape(4, 20, 5, 6), -1, axis))


def test_two_dimensions_may_have_their_classes_first(made, answers):
    assert _answers(made[0].T, made[1], class_axis=0) == pytest.approx(answers, rel=1e-9)
    p = _temperature(1.7, 6)(made[0].T, class_axis=0)
    np.testing.assert_allclose(p, _softmax(made[0], 1.7).T)


def test_a_class_axis_of_one_is_binary(rng):
    z = 3 * rng.normal(size=(5, 1, 20))
    flat = tepid.uts(z.reshape(-1))
    assert float(tepid.uts(z, class_axis=1)) == pytest.approx(float(flat), rel=1e-9)
    assert _temperature(1.0, 2)(z, class_axis=1).shape == (5, 2, 20)


EVERYWHERE = {
    "uts": tepid.uts,
    "temperature_scaling": lambda z: tepid.temperature_scaling(z, [0, 1]),
    "match_accuracy": lambda z: tepid.match_accuracy(z, 0.8),
    "calling": _temperature(1.0, 2),
    "Tails": tepid.summaries.Tails.of,
    "Curve": tepid.summaries.Curve.of,
    "Reliability": lambda z: tepid.summaries.Reliability.of_logits(z, [0, 1]),
}
FITS = ("uts", "temperature_scaling", "match_accuracy", "calling")


def _everywhere(names):
    return pytest.mark.parametrize("use", [EVERYWHERE[n] for n in names], ids=names)


@_everywhere(FITS)
def test_more_than_two_dimensions_need_a_class_axis(use):
    said = (
        r"^logits must have two dimensions, or class_axis must say where the classes are, "
        r"got shape \(2, 3, 4\)$"
    )
    with pytest.raises(tepid.InputError, match=said):
        use(np.zeros((2, 3, 4)))


@_everywhere(("Tails", "Curve", "Reliability"))
def test_a_block_has_two_dimensions(use):
    said = r"^logits must have two dimensions, got shape \(2, 3, 4\)$"
    with pytest.raises(tepid.InputError, match=said):
        use(np.zeros((2, 3, 4)))


@_everywhere(FITS)
def test_a_single_number_is_no_logits(use):
    said = "^logits must have one row per sample, got a single number$"
    with pytest.raises(tepid.InputError, match=said):
        use(3.0)


@pytest.mark.parametrize(
    ("axis", "shape"), [(2, (4, 3)), (-3, (4, 3)), (0, (4,)), (3, (2, 3, 4)), (9, (2, 3, 4))]
)
def test_a_class_axis_that_is_none_is_named_with_the_shape(axis, shape):
    said = f"class_axis must be an axis of logits, got {axis} for shape {shape}"
    for use in (tepid.uts, _temperature(1.0, 3)):
        with pytest.raises(tepid.InputError) as caught:
            use(np.zeros(shape), class_axis=axis)
        assert str(caught.value) == said


@_everywhere(("uts", "temperature_scaling", "match_accuracy", "Tails", "Curve", "Reliability"))
def test_no_classes_are_refused(use):
    with pytest.raises(
        tepid.InputError, match=r"^logits must have at least two classes, got none$"
    ):
        use(np.zeros((2, 0)))


@_everywhere(("uts", "match_accuracy"))
@pytest.mark.parametrize("none", [[], np.zeros((0, 4)), np.zeros(0), np.zeros((0, 1))])
def test_no_rows_are_refused(use, none):
    with pytest.raises(tepid.InputError, match=r"^logits must have at least one row, got none$"):
        use(none)


def test_no_rows_give_no_probabilities():
    assert _temperature(2.0, 3)(np.zeros((0, 3), np.float32)).shape == (0, 3)
    assert _temperature(2.0, 2)(np.zeros(0)).shape == (0, 2)


@_everywhere(EVERYWHERE)
def test_ragged_lists_are_refused(use):
    said = "^logits must be one rectangular array, got rows of unequal length$"
    with pytest.raises(tepid.InputError, match=said):
        use([[1.0, 2.0], [3.0]])


@_everywhere(EVERYWHERE)
@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ([["a", "b"]], "<U1"),
        ([[1j, 0.0]], "complex128"),
        ([[None, 1.0]], "object"),
        (np.zeros((2, 2), "M8[s]"), r"datetime64\[s\]"),
        (np.zeros(2, [("a", "f4")]), r"\[\('a', '<f4'\)\]"),
    ],
)
def test_what_is_no_number_is_refused_by_its_type(use, wrong, kind):
    with pytest.raises(tepid.InputError, match=f"^logits must be numbers, got an array of {kind}$"):
        use(wrong)


@_everywhere(EVERYWHERE)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    ("row", "got"),
    [
        ([0.0, np.nan], "nan for class 1"),
        ([np.nan, np.inf], "nan for class 0"),
        ([np.inf, 0.0], "inf for class 0"),
        ([np.inf, np.inf], "inf for class 0"),
        ([-np.inf, np.inf], "inf for class 1"),
        ([-np.inf, -np.inf], "-inf for every class"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_with_its_value(use, dtype, row, got):
    said = f"logits must be finite, or -inf for a masked class, got {got} at row 1"
    with pytest.raises(tepid.InputError) as caught:
        use(np.array([[1.0, 0.0], row], dtype))
    assert str(caught.value) == said


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_binary_logit_that_cannot_be_used_is_named(bad):
    z = np.array([0.5, 1.0, bad, 2.0])
    for use in (tepid.uts, _temperature(1.0, 2), tepid.summaries.Tails.of):
        with pytest.raises(tepid.InputError, match=f"got {bad} for class 1 at row 2$"):
            use(z)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("row", [0, 1, 63, 64, 20_000, 29_999])
def test_the_row_is_counted_from_the_start_whatever_the_blocks(row, dtype):
    z = np.zeros((30_000, 40), dtype)
    z[:, 0] = 1
    z[row, 7] = np.nan
    for use in (tepid.uts, _temperature(1.0, 40)):
        with pytest.raises(tepid.InputError, match=f"got nan for class 7 at row {row}$"):
            use(z)


def test_of_several_bad_rows_the_first_is_named():
    z = np.zeros((3000, 3))
    z[[5, 2500], 1] = np.nan
    with pytest.raises(tepid.InputError, match=r"at row 5$"):
        tepid.uts(z)


def test_minus_infinity_is_a_masked_class(made):
    z, y = made
    keep = y != 2
    masked = z[keep].copy()
    masked[:, 2] = -np.inf
    without, names = np.delete(z[keep], 2, axis=1), np.where(y > 2, y - 1, y)[keep]
    for dtype in (np.float16, np.float32, np.float64):
        _assert_agree(_fits(masked.astype(dtype), y[keep]), _fits(without.astype(dtype), names))
        p = _temperature(1.7, 6)(masked.astype(dtype))
        assert (p[:, 2] == 0).all()
        np.testing.assert_allclose(np.delete(p, 2, axis=1), _softmax(without, 1.7), rtol=2e-6)


def test_a_label_that_is_masked_is_named(made):
    z = made[0].copy()
    z[11, 3] = -np.inf
    y = np.where(np.arange(400) == 11, 3, made[1])
    said = "labels must name a class that is not masked, got class 3, whose logit is -inf, at row"
    with pytest.raises(tepid.InputError, match=f"^{said} 11$"):
        tepid.temperature_scaling(z, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("far", [-1e4, -1e9, -1e30, float(np.finfo(np.float32).min)])
def test_a_huge_negative_logit_is_as_good_as_masked(far, dtype, made):
    z = made[0].astype(dtype)
    z[::3, 1] = far
    masked = np.where(z == z[0, 1], -np.inf, z)
    kept = masked[np.arange(400), made[1]] > -np.inf
    y = made[1][kept]
    _assert_agree(_fits(z[kept], y), _fits(masked[kept], y))
    np.testing.assert_array_equal(_temperature(2.0, 6)(z), _temperature(2.0, 6)(masked))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_are_right_beyond_any_doubt_change_nothing(dtype, made):
    z, y = made[0].astype(dtype), made[1]
    sure = np.zeros((50, 6), dtype)
    sure[:, 4] = 1e30
    mine = tepid.temperature_scaling(np.concatenate([z, sure]), np.concatenate([y, np.full(50, 4)]))
    _assert_agree([mine], [tepid.temperature_scaling(z, y)])


def _or_refusal(work):
    try:
        return work()
    except tepid.InputError as error:
        return str(error)


@pytest.mark.parametrize("scale", [1e-300, 1e-40, 1e-36, 1e36, 1e300])
@pytest.mark.parametrize("method", ["labels", "accuracy"])
def test_float64_logits_beyond_float32_have_their_temperature_there_or_are_refused(
    scale, method, made
):
    fit, evidence = {
        "labels": (tepid.temperature_scaling, made[1]),
        "accuracy": (tepid.match_accuracy, 0.7),
    }[method]
    t = _or_refusal(lambda: fit(scale * made[0], evidence))
    if isinstance(t, str):
        assert "at row 0" in t
        return
    assert t.status == "ok"
    plain = fit(made[0], evidence)
    assert float(t) / scale == pytest.approx(float(plain), rel=apart(t, plain))


@pytest.mark.parametrize("scale", [1e-300, 1e-40, 1e36, 1e300])
def test_float64_logits_beyond_float32_have_their_probabilities_or_are_refused(scale, made):
    p = _or_refusal(lambda: _temperature(1.7 * scale, 6)(scale * made[0]))
    if isinstance(p, str):
        assert "at row 0" in p
        return
    np.testing.assert_allclose(p, _softmax(made[0], 1.7))


def test_a_row_whose_logits_lie_too_far_apart_is_named_with_both():
    said = (
        "logits must lie within 3.40282e+38 of their row's maximum, "
        "got -1e+300 for class 1 below 5 at row 1"
    )
    for use in (tepid.uts, _temperature(1.0, 2), tepid.summaries.Tails.of):
        with pytest.raises(tepid.InputError) as caught:
            use(np.array([[1.0, 0.0], [5.0, -1e300]]))
        assert str(caught.value) == said


def test_a_constant_per_row_changes_nothing_at_all(made, rng):
    z, y = made
    moved = z + 1e6 * rng.integers(-3, 4, size=(400, 1))
    assert _answers(moved, y) == _answers(z, y)
    np.testing.assert_array_equal(_temperature(1.7, 6)(moved), _temperature(1.7, 6)(z))


def test_the_type_of_the_probabilities_follows_the_logits(made):
    t = _temperature(1.7, 6)
    for dtype in ("f4", ">f4", "f2", "i4", "u1", "?"):
        assert t(made[0].astype(dtype)).dtype == np.float32
    for dtype in ("f8", ">f8"):
        assert t(made[0].astype(dtype)).dtype == np.float64


def _peak(work):
    tracemalloc.start()
    result = work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, result


BIG = {
    "C order": lambda z: (z.reshape(-1, 8), None),
    "Fortran order": lambda z: (z.reshape(8, -1).T, None),
    "classes in the middle": lambda z: (z.reshape(64, 8, -1), 1),
    "binary": lambda z: (z, None),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", BIG.values(), ids=BIG.keys())
def test_no_form_is_copied_as_a_whole(form):
    z, axis = form(np.tile(np.arange(1024, dtype=np.float32) % 37, 8192))
    one = tepid.Threads(1)
    peak, _ = _peak(lambda: tepid.match_accuracy(z, 0.999, class_axis=axis, engine=one))
    assert z.nbytes == 32 * MB
    assert peak < 24 * MB


@pytest.mark.slow
@pytest.mark.parametrize("form", BIG.values(), ids=BIG.keys())
def test_probabilities_need_no_second_array_of_their_size(form):
    z, axis = form(np.tile(np.arange(1024, dtype=np.float32) % 37, 8192))
    t = _temperature(1.7, 2 if z.ndim == 1 else 8)
    peak, p = _peak(lambda: t(z, class_axis=axis))
    assert peak < p.nbytes + 24 * MB


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64, np.float32, np.float64])
def test_whole_numbers_of_any_type_are_labels(dtype, made, answers):
    z, y = made
    assert float(tepid.temperature_scaling(z, y.astype(dtype))) == answers[1]
    assert float(tepid.temperature_scaling(z, y.astype(dtype)[:, None])) == answers[1]
    assert float(tepid.temperature_scaling(z, y.tolist())) == answers[1]


def test_a_block_takes_its_labels_as_a_column(made):
    z, y = made
    assert tepid.summaries.Reliability.of_logits(
        z, y[:, None]
    ) == tepid.summaries.Reliability.of_logits(z, y)
    assert tepid.summaries.Curve.of(z, labels=y[:, None]) == tepid.summaries.Curve.of(z, labels=y)
    with pytest.raises(tepid.InputError, match=r"each of the 400 rows, got shape \(200, 2\)"):
        tepid.summaries.Reliability.of_logits(z, y.reshape(200, 2))


_UNKNOWN = (
    "labels must be known, since this function needs a label for every row, "
    "got an unknown one (-1, NaN or empty) at row 7"
)


def test_booleans_are_labels_of_two_classes(rng):
    z = 3 * rng.normal(size=300)
    y = rng.random(300) < 0.7
    assert float(tepid.temperature_scaling(z, y)) == float(
        tepid.temperature_scaling(z, y.astype(int))
    )


@pytest.mark.parametrize(
    ("wrong", "got"),
    [
        (-1, _UNKNOWN),
        (6, "labels must be in 0..5, got 6 at row 7"),
        (2**40, f"labels must be in 0..5, got {2**40} at row 7"),
        (1.5, "labels must be whole numbers in 0..5, got 1.5 at row 7"),
        (np.nan, _UNKNOWN),
        (np.inf, "labels must be in 0..5, got inf at row 7"),
        (-1.0, _UNKNOWN),
        (-2.0, "labels must be in 0..5, got -2.0 at row 7"),
    ],
)
def test_a_label_that_names_no_class_is_named(wrong, got, made):
    z, y = made
    y = y.astype(type(wrong))
    y[7] = wrong
    for use in (tepid.temperature_scaling, tepid.summaries.Reliability.of_logits):
        with pytest.raises(tepid.InputError) as caught:
            use(z, y)
        assert str(caught.value) == got


def test_the_row_of_a_label_is_counted_from_the_start():
    y = np.zeros(30_000, np.int64)
    y[29_998] = 9
    with pytest.raises(tepid.InputError, match=r"^labels must be in 0..8, got 9 at row 29998$"):
        tepid.temperature_scaling(np.zeros((30_000, 9)), y)


@pytest.mark.parametrize(
    ("labels", "shape"), [([0], r"\(1,\)"), ([[0, 1], [1, 0]], r"\(2, 2\)"), (1, r"\(\)")]
)
def test_a_block_has_one_label_for_each_row(labels, shape):
    said = f"^labels must have one entry for each of the 2 rows, got shape {shape}(; .*)?$"
    for use in (
        tepid.summaries.Reliability.of_logits,
        lambda z, y: tepid.summaries.Curve.of(z, labels=y),
    ):
        with pytest.raises(tepid.InputError, match=said):
            use([[1.0, 0.0], [0.0, 1.0]], labels)


def test_words_are_no_labels_without_classes():
    with pytest.raises(tepid.InputError, match=r"classes= must give .* got 'cat' at row 0$"):
        tepid.temperature_scaling([[1.0, 0.0], [0.0, 1.0]], ["cat", "dog"])


def test_labels_must_be_given():
    with pytest.raises(tepid.InputError, match=r"^labels must be given, got none$"):
        tepid.temperature_scaling([[1.0, 0.0]])


@pytest.mark.parametrize("wrong", [-0.5, np.nan, np.inf])
def test_a_weight_that_is_none_is_named(wrong, made):
    z, y = made
    weight = np.ones(400)
    weight[21] = wrong
    said = f"sample_weight must be zero or in 1e-100 to 1e+100, got {wrong} at row 21"
    for use in (
        lambda: tepid.uts(z, sample_weight=weight),
        lambda: tepid.temperature_scaling(z, y, sample_weight=weight),
        lambda: tepid.match_accuracy(z, 0.7, sample_weight=weight),
        lambda: tepid.summaries.Reliability.of_logits(z, y, sample_weight=weight),
    ):
        with pytest.raises(tepid.InputError) as caught:
            use()
        assert str(caught.value) == said


def test_a_block_has_one_weight_for_each_row():
    said = r"^sample_weight must have one entry for each of the 2 rows, got shape \(3,\)$"
    with pytest.raises(tepid.InputError, match=said):
        tepid.summaries.Tails.of([[1.0, 0.0], [0.0, 1.0]], sample_weight=[1, 1, 1])
    with pytest.raises(tepid.InputError, match=r"^sample_weight must be numbers, got an array of"):
        tepid.summaries.Tails.of([[1.0, 0.0]], sample_weight=["heavy"])


def test_weights_count_rows_in_every_method(made, rng):
    z, y = made
    weight = rng.integers(0, 4, 400)
    again = np.repeat(np.arange(400), weight)
    assert _answers(z, y, sample_weight=weight) == pytest.approx(
        _answers(z[again], y[again]), rel=1e-7
    )
    assert _answers(z, y, sample_weight=0.01 * weight) == pytest.approx(
        _answers(z[again], y[again]), rel=1e-7
    )


@pytest.mark.parametrize("fit", [tepid.uts, tepid.temperature_scaling, tepid.match_accuracy])
def test_weights_that_are_all_zero_are_refused_or_leave_nothing_identified(fit, made):
    evidence = {tepid.temperature_scaling: (made[1],), tepid.match_accuracy: (0.7,)}.get(fit, ())
    t = _or_refusal(lambda: fit(made[0], *evidence, sample_weight=np.zeros(400)))
    if isinstance(t, str):
        assert "sample_weight" in t
        return
    assert t.status == "not-identified"
    assert 0 <= t.implied_accuracy <= 1


def test_probabilities_are_never_guessed(made):
    p = _softmax(made[0], 2.0)
    with pytest.warns(tepid.errors.ProbabilityWarning, match="probabilities=True"):
        as_logits = tepid.uts(p)
    said_so = tepid.uts(p, probabilities=True)
    _assert_agree([said_so], [tepid.uts(made[0] / 2)])
    assert float(as_logits) != pytest.approx(float(said_so), rel=0.1)
    with pytest.warns(tepid.errors.ProbabilityWarning, match="probabilities=True"):
        np.testing.assert_allclose(_temperature(1.0, 6)(p), _softmax(p, 1.0))
    np.testing.assert_allclose(_temperature(1.0, 6)(p, probabilities=True), p)


def test_logits_of_probabilities_give_them_back(made):
    p = _softmax(made[0], 2.0)
    for dtype, close in ((np.float16, 2e-3), (np.float32, 1e-6), (np.float64, 1e-14)):
        z = tepid.validation.logits_of(p.astype(dtype))
        assert z.dtype == dtype
        np.testing.assert_allclose(_temperature(1.0, 6)(z), p, rtol=close, atol=close / 10)


def test_logits_of_a_probability_of_zero_are_minus_infinity():
    inf = np.inf
    z = tepid.validation.logits_of([[0, 1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(z, [[-inf, 0, -inf], [0, -inf, -inf]])


def test_binary_probabilities_are_those_of_class_one():
    for p in ([0.25, 1.0], [[0.25], [1.0]]):
        z = tepid.validation.logits_of(p)
        np.testing.assert_allclose(np.exp(z), [[0.75, 0.25], [0.0, 1.0]])


@pytest.mark.parametrize(
    ("wrong", "got"),
    [
        ([[0.5, 0.5], [1.5, -0.5]], "be in [0, 1], got 1.5 for class 0 at row 1"),
        ([[0.5, 0.5], [0.5, np.nan]], "be in [0, 1], got nan for class 1 at row 1"),
        ([[0.5, 0.5], [0.5, np.inf]], "be in [0, 1], got inf for class 1 at row 1"),
        ([[0.5, 0.5], [-0.1, 1.0]], "be in [0, 1], got -0.1 for class 0 at row 1"),
        ([0.5, 1.1], "be in [0, 1], got -0.10000000000000009 for class 0 at row 1"),
        ([[0.5, 0.5], [0.5, 0.25]], "sum to one over the classes, got a sum of 0.75 at row 1"),
        (
            [[0.5, 0.5], [0.51, 0.505]],
            "sum to one over the classes, got a sum of 1.015 at row 1",
        ),
        (np.zeros((2, 0)), "have one row per sample and one column per class, got (2, 0)"),
        (np.zeros((2, 2, 2)), "have one row per sample and one column per class, got (2, 2, 2)"),
        (0.5, "have one row per sample and one column per class, got ()"),
        ([["a", "b"]], "be numbers, got an array of <U1"),
        ([[0.5, 0.5], [1.0]], "be one rectangular array, got rows of unequal length"),
    ],
)
def test_what_is_no_probability_is_named(wrong, got):
    for use in (tepid.validation.logits_of, lambda p: tepid.summaries.Reliability.of(p, [0, 1])):
        with pytest.raises(tepid.InputError) as caught:
            use(wrong)
        assert str(caught.value) == f"probabilities must {got}"


def test_rounded_probabilities_may_miss_one_by_a_little():
    tepid.validation.logits_of([[0.5, 0.5009]])
    tepid.validation.logits_of(np.array([[0.5, 0.508]], np.float16))
    with pytest.raises(tepid.InputError, match="a sum of"):
        tepid.validation.logits_of(np.array([[0.5, 0.515]], np.float16))


def test_a_wrong_number_of_classes_is_named_with_the_right_one():
    t = _temperature(1.0, 3)
    with pytest.raises(
        tepid.InputError, match=r"^logits must have the 3 classes of the calibration, got 4$"
    ):
        t(np.zeros((2, 4)))
    with pytest.raises(tepid.InputError, match=r"^logits must be \(n, 3\), or logits\[None\] for"):
        t(np.zeros(3))


def test_a_complaint_about_a_row_can_be_moved_and_renamed():
    error = errors.RowError("logits", "be finite", "nan", 3)
    assert str(error) == "logits must be finite, got nan at row 3"
    assert str(error.moved(10)) == "logits must be finite, got nan at row 13"
    assert str(error.moved(10, "a.csv")) == "a.csv must be finite, got nan at row 13"
    assert isinstance(error, tepid.InputError)
    assert isinstance(error, ValueError)


def test_probabilities_of_three_digits_are_accepted():
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(500, 8))
    p = np.round(np.exp(z) / np.exp(z).sum(axis=1, keepdims=True), 3) + 1e-4
    assert np.abs(p.sum(axis=1) - 1).max() > 1.5e-3
    rounded = tepid.match_accuracy(p, 0.5, probabilities=True)
    assert rounded.value == pytest.approx(tepid.match_accuracy(z, 0.5).value, rel=0.02)
    with pytest.raises(tepid.InputError, match="sum to one"):
        tepid.match_accuracy(p * 0.98, 0.5, probabilities=True)
