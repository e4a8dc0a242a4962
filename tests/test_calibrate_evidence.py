"""How `tepid.calibrate` reads its evidence: streams, axes, units, and rows that are wrong."""

import functools
import math
import warnings

import numpy as np
import pytest

import tepid
from tests import logs
from tests.test_calibrate import fit, network, some

Z, Y = network(rows=900, classes=6)
ONE, TWO = (Z + np.random.default_rng(i).normal(size=Z.shape).astype(np.float32) for i in (1, 2))
OLD, OLD_Y = network(seed=9, rows=700, classes=6)
KNOWN = some(Y, 60)
KINDS = {
    "logits": {},
    "labels": {"labels": KNOWN},
    "labeled": {"labeled": (OLD, OLD_Y)},
    "accuracy": {"accuracy": 0.8},
    "models": {"models": [ONE, TWO]},
    "reference": {"reference": ONE},
    "judge": {"reference": KNOWN},
    "source": {"source": (OLD, OLD_Y)},
}
KINDS["all"] = functools.reduce(lambda a, b: b | a, KINDS.values())


def stream(rows, *cuts):
    """A function that returns a new iterator of batches."""
    return lambda: iter(np.split(rows, cuts))


def assert_same(found, expected, rel=1e-6):
    assert found.value == pytest.approx(expected.value, rel=rel)
    assert found.interval == pytest.approx(expected.interval, rel=rel)
    assert (found.verdict, found.status) == (expected.verdict, expected.status)
    assert found.evidence.keys() == expected.evidence.keys()


# --- containers of rows


def test_streams_in_unequal_batches_equal_their_arrays():
    streamed = fit(
        stream(Z, 7, 300),
        KNOWN,
        models=[stream(ONE, 1, 2, 899), stream(TWO)],
        reference=stream(TWO, 450, 450),
        labeled=(stream(OLD, 100), OLD_Y),
        source=(stream(OLD, 5), OLD_Y),
        accuracy=0.8,
    )
    whole = fit(
        Z, KNOWN, models=[ONE, TWO], reference=TWO, labeled=(OLD, OLD_Y), source=(OLD, OLD_Y),
        accuracy=0.8,
    )  # fmt: skip
    assert_same(streamed, whole)


@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_threads_gives_the_same(kind):
    one, three = (fit(Z, **KINDS[kind], engine=tepid.Threads(n)) for n in (1, 3))
    assert_same(three, one)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("judge", "labels")])
def test_constants_added_to_rows_change_nothing(kind):
    moved = Z + np.random.default_rng(3).normal(size=(len(Z), 1)).astype(np.float32)
    assert_same(fit(moved, **KINDS[kind]), fit(Z, **KINDS[kind]), rel=2e-3)


def test_all_evidence_takes_the_class_axis():
    def turn(rows):
        return rows.reshape(-1, 10, 6).transpose(2, 0, 1)

    turned = fit(
        turn(Z),
        KNOWN.reshape(-1, 10),
        models=[turn(ONE)],
        reference=turn(TWO),
        labeled=(turn(OLD), OLD_Y.reshape(-1, 10)),
        source=(turn(OLD), OLD_Y.reshape(-1, 10)),
        class_axis=0,
    )
    flat = fit(Z, KNOWN, models=[ONE], reference=TWO, labeled=(OLD, OLD_Y), source=(OLD, OLD_Y))
    assert_same(turned, flat)


def test_all_evidence_may_be_probabilities():
    def softmax(rows):
        one = tepid.Temperature(1.0, "", samples=0, classes=6, implied_accuracy=0.5)
        return one(rows.astype(np.float64))

    p = fit(
        softmax(Z),
        KNOWN,
        models=[softmax(ONE)],
        reference=softmax(TWO),
        labeled=(softmax(OLD), OLD_Y),
        source=(softmax(OLD), OLD_Y),
        probabilities=True,
    )
    z = fit(Z, KNOWN, models=[ONE], reference=TWO, labeled=(OLD, OLD_Y), source=(OLD, OLD_Y))
    assert_same(p, z, rel=1e-4)


def test_a_vector_is_the_binary_logit_of_class_one():
    rng = np.random.default_rng(2)
    z = 4 * rng.normal(size=800)
    y = (z / 2 + rng.logistic(size=800) > 0).astype(np.int64)
    other = z + rng.normal(size=800)
    two = fit(
        np.column_stack([np.zeros(800), z]), some(y, 50),
        models=[np.column_stack([np.zeros(800), other])],
    )  # fmt: skip
    assert_same(fit(z, some(y, 50), models=[other]), two)


@pytest.mark.parametrize(
    ("kinds", "most"), [((), 3), (("labels", "accuracy"), 3), (("models", "reference"), 3)]
)
def test_rows_are_read_as_often_as_the_evidence_needs(kinds, most):
    read = []

    def rows():
        read.append(1)
        return iter([Z])

    fit(rows, **{kind: KINDS[kind][kind] for kind in kinds})
    assert len(read) <= most


def test_what_can_be_read_only_once_is_refused():
    for call in (
        lambda: tepid.calibrate(iter([Z])),
        lambda: tepid.calibrate(Z, models=[iter([ONE])]),
        lambda: tepid.calibrate(Z, reference=iter([ONE])),
        lambda: tepid.calibrate(Z, labeled=(iter([OLD]), OLD_Y)),
        lambda: tepid.calibrate(Z, source=(iter([OLD]), OLD_Y)),
    ):
        with pytest.raises(tepid.InputError, match="readable more than once"):
            call()


def test_an_open_source_has_its_labels_weights_and_groups():
    groups, weight = np.arange(len(Z)) % 2, np.arange(len(Z)) % 3
    source = tepid.open_source(Z, labels=KNOWN, sample_weight=weight, groups=groups)
    found = fit(source, accuracy=0.8)
    expected = fit(Z, KNOWN, accuracy=0.8, sample_weight=weight, groups=groups)
    assert found == expected


# --- rows that do not fit


def _broken(rows):
    rows = rows.copy()
    rows[11, 2] = np.nan
    return rows


def _beyond(rows):
    rows = rows.astype(np.float64)
    rows[3] = np.nan  # no answer
    rows[11, 2] = 1e300
    return rows


def _outside(labels):
    return np.where(np.arange(len(labels)) == 7, 6, labels)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"logits": _broken(Z)}, r"^logits must .* got nan for class 2 at row 11$"),
        ({"labels": _outside(Y)}, r"^labels must be in 0\.\.5, got 6 at row 7$"),
        ({"models": [ONE, _broken(ONE)]}, r"^model 2 must .* got nan for class 2 at row 11$"),
        ({"reference": _broken(ONE)}, r"^reference must .* got nan for class 2 at row 11$"),
        ({"reference": _beyond(ONE)}, r"^reference must lie within .* below 1e\+300 at row 11$"),
        ({"models": [ONE, _beyond(ONE)]}, r"^model 2 must lie within .*below 1e\+300 at row 11$"),
        ({"reference": _outside(Y)}, r"^reference must be .*0\.\.5.* got 6 at row 7$"),
        ({"labeled": (_broken(OLD), OLD_Y)}, r"^labeled must .* nan for class 2 at row 11$"),
        ({"source": (_broken(OLD), OLD_Y)}, r"^source must .* nan for class 2 at row 11$"),
        ({"source": (OLD, _outside(OLD_Y))}, r"^labels of source must .* got 6 at row 7$"),
        ({"labeled": (OLD, _outside(OLD_Y))}, r"^labels of labeled must .* got 6 at row 7$"),
        ({"models": [ONE[:-1]]}, r"^model 1 must have .* 900 .*got .*899"),
        ({"models": [ONE, ONE[:, :5]]}, r"^model 2 must have .* 6.* got .*5"),
        ({"models": [stream(np.concatenate([ONE, ONE[:1]]))]}, r"^model 1 must have .* 900 "),
        ({"models": [stream(ONE[:-10], 20)]}, r"^model 1 must have .* 900 rows, got 890"),
        ({"source": (OLD[:, :5], np.minimum(OLD_Y, 4))}, r"source must have the 6 classes .* 5"),
        ({"source": (OLD, np.full(700, -1))}, "source must have a label for at least one row"),
        ({"source": (OLD, None)}, "source must have labels"),
        ({"labeled": (OLD, OLD_Y[:-1])}, "labels must have one entry for each of the 700 rows"),
        ({"reference": Y[:-1]}, "reference must have one entry for each of the 900 rows"),
        ({"accuracy": {"a": 0.9}}, "accuracy must have one entry for each group"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_with_its_row(options, sentence):
    options = {"logits": Z} | options
    with pytest.raises(tepid.InputError, match=sentence) as caught:
        tepid.calibrate(options.pop("logits"), **options)
    assert "\n" not in str(caught.value)


# --- what another model says


def test_the_beliefs_of_a_reference_are_shared_among_the_classes_that_are_not_masked():
    masked, restricted = Z.copy(), ONE.copy()
    rows, least = np.arange(0, len(Z), 2), (Z + ONE).argmin(axis=1)[::2]
    masked[rows, least] = restricted[rows, least] = -np.inf
    found = fit(masked, reference=ONE)
    assert not found.warnings
    assert_same(found, fit(masked, reference=restricted))
    classes = fit(masked, reference=ONE.argmax(axis=1))
    assert found.value != pytest.approx(classes.value, rel=0.1)  # the beliefs count


def test_a_log_is_matched_with_a_log_by_its_own_ids(tmp_path):
    (z, y), (stronger, _) = logs.answers(rows=60), logs.answers(rows=60, scale=1.0)
    own = logs.write(tmp_path / "samples_own.jsonl", logs.samples(z, y))
    other = logs.write(tmp_path / "samples_other.jsonl", logs.samples(stronger, y)[::-1])
    expected = fit(z, reference=stronger)
    assert_same(fit(own, reference=other), expected)
    assert fit(z, reference=stronger[::-1]).value != pytest.approx(expected.value, rel=0.01)


# --- evidence that settles little


def test_labels_that_are_all_correct_do_not_send_t_to_zero():
    right = np.flatnonzero(Z.argmax(axis=1) == Y)[:20]
    known = np.full(len(Y), -1)
    known[right] = Y[right]
    assert tepid.temperature_scaling(Z[right], Y[right]).status == "at-bound"
    t = fit(Z, known)
    assert 0.3 < t.value < tepid.uts(Z).value * 1.5
    assert t.interval[0] > 0.1


def test_labels_count_where_the_logits_themselves_say_nothing():
    few = np.array([[1.0, 0, 0], [0, 2.0, 0], [0, 1.0, 0]])
    t = fit(np.zeros((30, 3)), labeled=(few, [0, 1, 2]))
    assert (t.value, t.verdict, t.status) == (1.0, "keep", "not-identified")
    assert "equal" in t.reason


@pytest.mark.parametrize("accuracy", [0.0, 1.0, (1.0, 0.0), tepid.Counted(0, 9)])
def test_an_accuracy_out_of_reach_gives_a_finite_temperature(accuracy):
    t = fit(Z, accuracy=accuracy)
    assert 0 < t.interval[0] <= t.value <= t.interval[1] < math.inf
    assert t.status in ("ok", "weak", "at-bound")


@pytest.mark.parametrize("scale", [1e-5, 1e5])
def test_an_older_set_of_another_scale_gives_a_finite_temperature(scale):
    t = fit(scale * Z, source=(OLD, OLD_Y))
    assert 0 < t.interval[0] <= t.value <= t.interval[1] < math.inf


@pytest.mark.parametrize("same", [True, False])
def test_models_that_settle_nothing_are_reported(same):
    always = np.where(same, Z.argmax(axis=1), (Z.argmin(axis=1)))
    t = fit(Z, reference=always)
    if same:  # agreement with every prediction asks for T = 0
        assert any(
            "No temperature could be fitted to the reference" in sentence for sentence in t.warnings
        )
        assert "reference" not in t.evidence
    assert 0 < t.value < math.inf


def test_one_row_is_enough_to_answer():
    t = fit(Z[:1], Y[:1], accuracy=0.8)
    assert 0 < t.value < math.inf
    assert any("fewer rows (1) than classes (6)" in sentence for sentence in t.warnings)


def test_no_rows_are_refused():
    with pytest.raises(tepid.InputError, match="at least one row"):
        tepid.calibrate(Z[:0])


# --- what the interval covers


@pytest.mark.slow
@pytest.mark.parametrize("count", [25, 100])
def test_intervals_of_few_labels_cover_the_right_temperature(count):
    covered = []
    for seed in range(150):
        scale = math.exp(0.5 * np.random.default_rng(seed).normal())
        z, y = network(seed, rows=600, scale=scale, strength=4.0)
        t = fit(z, some(y, count, seed))
        covered.append(t.interval[0] < scale < t.interval[1])
    assert np.mean(covered) > 0.88


class _Counted:
    """A function that returns batches, and how often it was called."""

    def __init__(self, array):
        self.array, self.passes = array, 0

    def __call__(self):
        self.passes += 1
        return iter(np.array_split(self.array, 4))


@pytest.mark.parametrize("grouped", [False, True])
def test_each_source_is_read_as_often_as_its_most_demanding_use(network, grouped):
    z, y = network[0][:2000], network[1][:2000]
    rows, model, judge, old = (_Counted(each) for each in (z, z[:, ::-1], 2 * z, network[0][2000:]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tepid.CalibrationWarning)
        tepid.calibrate(
            rows, y, accuracy=0.8, models=[model], reference=judge, source=(old, network[1][2000:]),
            groups=np.arange(2000) % 2 if grouped else None,
        )  # fmt: skip
    # UTS and an older set need a second pass; groups are counted before.
    assert (rows.passes, old.passes) == (3 if grouped else 2, 2)
    assert (model.passes, judge.passes) == (1, 1)
