"""Decisions: thresholds, prediction sets and expected performance, against brute force."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

import tepid
from tepid.decisions import Temperatures
from tepid.decisions.performance import PerformanceSums
from tepid.decisions.sets import SetSums
from tepid.decisions.thresholds import ConfidenceSums
from tepid.posterior import model
from tepid.sources import Batch
from tests import strategies

# Bins are this wide in log-odds: for all rows, and for each class.
BIN, CLASS_BIN = 1 / 64, 1 / 16
TEMPERATURE, INTERVAL = 1.6, (1.2, 2.4)


def _temperature(k, value=TEMPERATURE, interval=INTERVAL, **fields):
    return tepid.Temperature(
        value, "manual", samples=100, classes=k, implied_accuracy=0.5, interval=interval, **fields
    )


def _simulated(n, k, right, seed=0, scale=2.5):
    """Logits for which the temperature `right` is right, with labels."""
    rng = np.random.default_rng(seed)
    posterior = scale * rng.normal(size=(n, k))
    labels = (posterior + rng.gumbel(size=posterior.shape)).argmax(axis=1)
    return right * posterior, labels


def _three(z):
    """The probabilities at T, low and high."""
    return [softmax(np.asarray(z, np.float64) / t, axis=1) for t in (TEMPERATURE, *INTERVAL)]


def _edges(width):
    return np.concatenate([[0.0], 1 / (1 + np.exp(-(np.arange(-32, 32, width)[1:])))])


@pytest.fixture(scope="module")
def rows():
    return _simulated(700, 5, 1.6)[0]


# Against brute force ------------------------------------------------------------------------------


def _accepts(top, wanted, width, at=0):
    """The lowest edge at or above which the mean confidence is as wanted, by trying all of them."""
    for edge in _edges(width):
        kept = top[0] >= edge
        if kept.any() and top[at][kept].mean() >= wanted:
            return edge, kept
    return None, np.zeros(len(top[0]), bool)


@pytest.mark.parametrize("wanted", [0.5, 0.8, 0.9, 0.95, 0.99])
def test_a_threshold_for_a_precision_is_the_lowest_that_keeps_it(rows, wanted):
    found = _temperature(5).threshold(rows, precision=wanted)
    top = [p[np.arange(len(p)), rows.argmax(axis=1)] for p in _three(rows)]
    for accepted, at in ((found.accepted, 0), (found.cautious, 2)):
        edge, kept = _accepts(top, wanted, BIN, at)
        assert accepted.share == pytest.approx(kept.mean())
        if edge is None:
            assert accepted.threshold is None
            continue
        assert accepted.threshold == pytest.approx(edge)
        each = [values[kept].mean() for values in top]
        expected = [each[0], min(each), max(each)]
        got = [accepted.precision.value, accepted.precision.low, accepted.precision.high]
        assert got == pytest.approx(expected)
    # Up to one bin it is the threshold at the confidence of a row.
    down = np.sort(top[0])[::-1]
    means = np.cumsum(down) / np.arange(1, len(down) + 1)
    exact = (means >= wanted).sum()
    odds = np.log(down[exact - 1] / (1 - down[exact - 1])) + BIN
    assert (top[0] >= 1 / (1 + np.exp(-odds))).sum() <= found.accepted.share * len(down) + 1e-9
    assert found.accepted.share * len(down) <= exact + 1e-9


@pytest.mark.parametrize("wanted", [0.1, 0.5, 0.8, 1.0])
def test_a_threshold_for_a_coverage_is_the_highest_that_accepts_enough(rows, wanted):
    found = _temperature(5).threshold(rows, coverage=wanted)
    top = _three(rows)[0].max(axis=1)
    edge = [edge for edge in _edges(BIN) if (top >= edge).mean() >= wanted][-1]
    assert found.accepted.threshold == pytest.approx(edge)
    assert found.accepted.share == pytest.approx((top >= edge).mean())
    assert found.accepted == found.cautious  # the share does not depend on T


@pytest.mark.parametrize("cost", [(10.0, 1.0), (3.0, 1.0), (1.5, 1.0), (1.0, 2.0), (1000.0, 1.0)])
def test_a_threshold_for_costs_has_the_least_expected_cost(rows, cost):
    found = _temperature(5).threshold(rows, cost=cost)
    top = [p[np.arange(len(p)), rows.argmax(axis=1)] for p in _three(rows)]

    def expected(edge, at):
        return np.where(top[0] >= edge, cost[0] * (1 - top[at]), cost[1]).mean()

    assert found.cost == pytest.approx(min(expected(edge, 0) for edge in _edges(BIN)))
    for accepted, at in ((found.accepted, 0), (found.cautious, 2)):
        least = min(expected(edge, at) for edge in (*_edges(BIN), 2.0))
        edge = 2.0 if accepted.threshold is None else accepted.threshold
        assert expected(edge, at) == pytest.approx(least)


def test_thresholds_per_class_are_those_of_the_rows_predicted_as_it(rows):
    t, names = _temperature(5), ["a", "b", "c", "d", "e"]
    found = t.threshold(rows, precision=0.9, per_class=True, names=names)
    assert list(found.classes) == names
    predicted = rows.argmax(axis=1)
    accepted = np.zeros(len(rows), bool)
    for k, each in enumerate(found.classes.values()):
        own = predicted == k
        top = [p[own, k] for p in _three(rows)]
        edge, kept = _accepts(top, 0.9, CLASS_BIN)
        assert each.rows == own.sum()
        assert each.accepted.threshold == pytest.approx(edge)
        assert each.accepted.share == pytest.approx(kept.mean())
        accepted[own] = kept
    assert (found(rows) == accepted).all()
    plain = t.threshold(rows, precision=0.9)
    assert (found.accepted, found.cautious) == (plain.accepted, plain.cautious)
    assert plain.classes == {}


@pytest.mark.parametrize("wanted", [0.5, 0.9, 0.95, 0.999])
def test_sets_are_the_smallest_with_the_wanted_coverage(rows, wanted):
    found = _temperature(5).prediction_sets(rows, wanted)
    p = _three(rows)
    level = [e for e in _edges(BIN) if (p[0] * (p[0] >= e)).sum(axis=1).mean() >= wanted][-1]
    inside = p[0] >= level
    assert found.level == pytest.approx(level)
    assert found.size == pytest.approx(inside.sum(axis=1).mean())
    each = [(at * inside).sum(axis=1).mean() for at in p]
    assert found.coverage.value == pytest.approx(each[0])
    assert (found.coverage.low, found.coverage.high) == pytest.approx((min(each), max(each)))
    assert (found(rows) == inside).all()


def test_expected_performance_takes_probabilities_as_labels(rows):
    found = _temperature(5).expected_performance(rows)
    p, predicted = _three(rows), rows.argmax(axis=1)
    confusion = [np.stack([at[predicted == j].sum(axis=0) for j in range(5)]).T for at in p]
    assert np.allclose(found.confusion, confusion[0])
    accuracy = [np.trace(each) / len(rows) for each in confusion]
    assert found.accuracy.value == pytest.approx(accuracy[0])
    misfit = 1.96 * model.MISFIT * (1 - accuracy[0])
    assert found.accuracy.low == pytest.approx(
        accuracy[0] - math.hypot(accuracy[0] - min(accuracy), misfit)
    )
    loss = [-(at * np.log(p[0])).sum(axis=1).mean() for at in p]
    assert found.log_loss.value == pytest.approx(loss[0])
    assert (found.log_loss.low, found.log_loss.high) == pytest.approx((min(loss), max(loss)))
    eye = np.eye(5)
    brier = [
        sum((at[:, k] * ((p[0] - eye[k]) ** 2).sum(axis=1)).mean() for k in range(5)) for at in p
    ]
    assert found.brier.value == pytest.approx(brier[0])
    assert (found.brier.low, found.brier.high) == pytest.approx((min(brier), max(brier)))
    for k, each in enumerate(found.classes.values()):
        right = np.array([c[k, k] for c in confusion])
        actual = np.array([c[k].sum() for c in confusion])
        counted = (predicted == k).sum()
        f1 = 2 * right / (actual + counted)
        assert each.precision.value == pytest.approx(right[0] / counted)
        assert each.recall.high == pytest.approx((right / actual).max())
        assert (each.f1.value, each.f1.low) == pytest.approx((f1[0], f1.min()))
        assert (each.share, each.predicted) == pytest.approx((p[0][:, k].mean(), counted / 700))


def test_auc_and_average_precision_are_those_of_expected_counts():
    z = np.random.default_rng(2).normal(size=900) * 3  # binary logits
    found = _temperature(2).expected_performance(z)
    positive = 1 / (1 + np.exp(-z / TEMPERATURE))
    labels, scores = np.repeat([1, 0], 900), np.tile(positive, 2)
    counts = np.concatenate([positive, 1 - positive])
    auc = roc_auc_score(labels, scores, sample_weight=counts)
    precision = average_precision_score(labels, scores, sample_weight=counts)
    assert found.roc_auc.value == pytest.approx(auc, abs=1e-3)
    assert found.average_precision.value == pytest.approx(precision, abs=1e-3)
    assert found.log_loss.value == pytest.approx(
        log_loss(labels, np.stack([1 - scores, scores], axis=1), sample_weight=counts)
    )
    assert _temperature(3).expected_performance(np.zeros((4, 3))).roc_auc is None


def test_auc_and_average_precision_are_those_of_drawn_labels():
    z, y = _simulated(40_000, 2, TEMPERATURE, seed=3, scale=1.5)
    found = _temperature(2).expected_performance(z)
    score = softmax(z / TEMPERATURE, axis=1)[:, 1]
    assert found.roc_auc.value == pytest.approx(roc_auc_score(y, score), abs=0.008)
    assert found.average_precision.value == pytest.approx(
        average_precision_score(y, score), abs=0.012
    )


def test_a_class_that_is_all_but_excluded_has_an_average_precision():
    found = _temperature(2, 1.0, (1.0, 1.0)).expected_performance(np.array([[50.0, 0.0]] * 9))
    assert found.average_precision.value == pytest.approx(math.exp(-50))
    assert found.roc_auc.value == pytest.approx(0.5)


def test_a_number_without_an_interval_is_printed_alone():
    certain = _temperature(2, 1.0, (1.0, 1.0)).expected_performance(np.array([[1000.0, 0.0]] * 9))
    assert str(certain).splitlines()[0] == "expected accuracy: 1"


@pytest.mark.parametrize("weight", [1e-9, 1.0, 1e9])
def test_a_precision_that_all_rows_have_exactly_accepts_them(weight):
    z = np.array([[2.0, 0.0]] * 7)
    t = _temperature(2, 1.0, (1.0, 1.0))
    (p, *_) = softmax(z, axis=1)[:, 0]
    found = t.threshold(z, precision=float(p), sample_weight=np.full(7, weight))
    assert found.accepted.share == 1


def test_the_risk_at_each_threshold_is_that_of_the_accepted_rows(rows):
    curve = _temperature(5).risk_coverage(rows)
    top = [p[np.arange(len(p)), rows.argmax(axis=1)] for p in _three(rows)]
    assert curve.thresholds == pytest.approx(_edges(BIN))
    for place in range(0, len(curve.thresholds), 97):
        kept = top[0] >= curve.thresholds[place]
        assert curve.coverage[place] == pytest.approx(kept.mean())
        if kept.any():
            assert curve.risk[place] == pytest.approx(1 - top[0][kept].mean())
            ends = [each[place] for each in curve.interval]
            assert ends == pytest.approx([1 - each[kept].mean() for each in top[1:]])
        else:
            assert math.isnan(curve.risk[place])


# Sums ---------------------------------------------------------------------------------------------

ENDS = Temperatures(1.5, 0.9, 3.0, {"north": Temperatures(0.7, 0.5, 1.0, {})})


def _per_class(batch, temperatures):
    return ConfidenceSums.of(batch, temperatures, per_class=True)


@pytest.mark.parametrize("of", [ConfidenceSums.of, _per_class, SetSums.of, PerformanceSums.of])
@given(data=st.data(), z=strategies.logits())
def test_the_sums_of_two_batches_add(of, data, z):
    rng = np.random.default_rng(len(z))
    weight, group = rng.random(len(z)) + 0.1, rng.choice(["north", "south"], len(z))
    whole = Batch(z, weight=weight, group=group)
    cut = data.draw(st.integers(0, len(z)))
    parts = [whole.take(np.arange(*ends)) for ends in ((0, cut), (cut, len(z)))]
    one, two = (of(part, ENDS) for part in parts)
    assert one + two == of(whole, ENDS)


def _answers(t, logits, **options):
    """Every answer as one dictionary of numbers."""
    found = [
        t.threshold(logits, precision=0.9, per_class=True, **options),
        t.threshold(logits, cost=(5, 1), **options),
        t.prediction_sets(logits, 0.9, **options),
        t.expected_performance(logits, **options),
    ]
    return [_flat(each.as_dict()) for each in found]


def _flat(value, path=""):
    """Numbers by their path."""
    if isinstance(value, dict):
        return {
            k: v for key, item in value.items() for k, v in _flat(item, f"{path}/{key}").items()
        }
    if isinstance(value, list):
        items = enumerate(value)
        return {k: v for i, item in items for k, v in _flat(item, f"{path}/{i}").items()}
    return {path: value} if isinstance(value, (int, float)) else {}


def _same(one, two):
    for a, b in zip(one, two, strict=True):
        assert a == pytest.approx(b, rel=1e-9, abs=1e-9)


def test_any_split_order_and_number_of_threads_gives_the_same(tmp_path):
    z = _simulated(30_000, 6, 2.0)[0].astype("f4")
    t = _temperature(6)
    whole = _answers(t, z)
    _same(whole, _answers(t, z[np.random.default_rng(0).permutation(len(z))]))
    _same(whole, _answers(t, [z[:1], z[1:17_000], z[17_000:]]))
    _same(whole, _answers(t, lambda: iter(np.array_split(z, 7))))
    for threads in (1, 3):
        _same(whole, _answers(t, z, engine=tepid.Threads(threads)))
    np.save(tmp_path / "z.npy", z)
    _same(whole, _answers(t, tmp_path / "z.npy"))
    _same(whole[:1], [_flat(t.threshold(iter([z]), precision=0.9, per_class=True).as_dict())])


@pytest.mark.slow
def test_dask_gives_the_same():
    array = pytest.importorskip("dask.array", reason="needs Dask")
    z = _simulated(5000, 4, 2.0)[0]
    t = _temperature(4)
    _same(_answers(t, z), _answers(t, array.from_array(z, chunks=(700, 4))))


def test_weight_zero_is_the_row_removed_and_two_is_the_row_twice(rows):
    t, rng = _temperature(5), np.random.default_rng(4)
    weight = rng.integers(0, 3, len(rows)).astype(float)
    spoiled = rows.copy()
    spoiled[weight == 0] = np.nan
    _same(_answers(t, np.repeat(rows, weight.astype(int), axis=0)),
          _answers(t, spoiled, sample_weight=weight))  # fmt: skip
    with pytest.raises(tepid.InputError, match="must not be zero for every row"):
        t.threshold(rows, sample_weight=np.zeros(len(rows)))


def test_groups_use_their_own_temperatures(rows):
    north = _temperature(5, 3.0, (2.0, 4.0))
    t = _temperature(5, groups={"north": north})
    group = np.where(np.arange(len(rows)) < 300, "north", "elsewhere")
    ends = {"north": (3.0, 2.0, 4.0), "elsewhere": (TEMPERATURE, *INTERVAL)}
    p = [softmax(rows / np.array([ends[g][at] for g in group])[:, None], axis=1) for at in range(3)]
    found = t.expected_performance(rows, groups=group)
    assert found.accuracy.value == pytest.approx(p[0].max(axis=1).mean())
    top = [at.max(axis=1) for at in p]
    threshold = t.threshold(rows, precision=0.9, groups=group)
    edge, kept = _accepts(top, 0.9, BIN)
    assert threshold.accepted.threshold == pytest.approx(edge)
    assert (threshold(rows, groups=group) == kept).all()
    sets = t.prediction_sets(rows, 0.9, groups=group)
    inside = sets(rows, groups=group)
    assert (inside == (p[0] >= sets.level)).all()
    assert sets.size == pytest.approx(inside.sum(axis=1).mean())
    with pytest.raises(tepid.InputError, match="a temperature that has groups"):
        _temperature(5).threshold(rows, groups=group)
    with pytest.raises(tepid.InputError, match="one entry for each of the 700 rows"):
        sets(rows, groups=group[1:])


def test_a_threshold_close_to_one_accepts_what_it_promises():
    z = _simulated(5000, 4, 1.0, scale=20.0)[0].astype("f4")
    t = _temperature(4, 1.0, (0.9, 1.1))
    found = t.threshold(z, precision=1 - 1e-12)
    assert 1 - 1e-8 < found.accepted.threshold < 1
    assert found(z).mean() == pytest.approx(found.accepted.share)
    assert t(z).max(axis=1)[found(z)].min() == 1  # float32 does not see the difference


# Shapes and values --------------------------------------------------------------------------------


def test_binary_logits_and_other_axes_are_the_same_rows(rows):
    t = _temperature(5)
    grid = np.moveaxis(rows.reshape(7, 100, 5), -1, 1)
    _same(_answers(t, rows), _answers(t, grid, class_axis=1))
    sets = t.prediction_sets(rows)
    assert sets(grid, class_axis=1).shape == (7, 5, 100)
    assert (np.moveaxis(sets(grid, class_axis=1), 1, -1).reshape(700, 5) == sets(rows)).all()
    threshold = t.threshold(rows)
    assert (threshold(grid, class_axis=1).reshape(-1) == threshold(rows)).all()
    two, pair = _temperature(2), np.stack([np.zeros(700), rows[:, 0]], axis=1)
    _same(_answers(two, rows[:, 0]), _answers(two, pair))
    assert (two.prediction_sets(pair)(rows[:, 0]) == two.prediction_sets(pair)(pair)).all()
    p = softmax(rows, axis=1)
    _same(_answers(t, rows), _answers(t, p, probabilities=True))
    assert (sets(p, probabilities=True) == sets(rows)).all()


def test_masked_classes_are_in_no_set():
    z = np.array([[3.0, 1.0, -np.inf], [0.0, 1.0, 0.5]] * 5)
    t = _temperature(3)
    found = t.prediction_sets(z, 0.9999999, labeled=(z, np.zeros(10, int)))
    assert found(z).tolist() == [[True, True, False], [True] * 3] * 5
    assert found.size == 2.5
    assert found.conformal.level == 0  # ten labels are too few
    assert found.conformal(z).tolist() == found(z).tolist()
    assert t.expected_performance(z).log_loss.value < 2


def test_without_an_interval_there_is_one_threshold_and_it_says_so(rows):
    t = _temperature(5, interval=None)
    found = t.threshold(rows, precision=0.9)
    assert found.accepted == found.cautious
    assert found.accepted.precision.low == found.accepted.precision.high
    assert "no interval" in found.assumption
    assert " to " not in str(found.accepted)
    assert "no interval" not in _temperature(5).threshold(rows).assumption


def test_nothing_can_be_accepted_is_an_answer():
    z = np.tile([0.2, 0.0, 0.0], (50, 1))
    found = _temperature(3).threshold(z, precision=0.95, per_class=True)
    assert found.accepted == found.cautious
    assert (found.accepted.threshold, found.accepted.share, found.accepted.precision) == (
        None, 0.0, None,
    )  # fmt: skip
    assert not found(z).any()
    assert "nothing can be accepted" in str(found)
    # No row is predicted as the other classes.
    assert [each.rows for each in found.classes.values()] == [50, 0, 0]
    cost = _temperature(3).threshold(z, cost=(100, 1))
    assert (cost.accepted.threshold, cost.cost) == (None, 1.0)


def _parts(value):
    """A result and all results in it."""
    if dataclasses.is_dataclass(value):
        yield value
        for field in dataclasses.fields(value):
            yield from _parts(getattr(value, field.name))
    elif isinstance(value, dict):
        for each in value.values():
            yield from _parts(each)


def test_results_cannot_be_changed(rows):
    t = _temperature(5)
    labeled = rows, rows.argmax(axis=1)
    for result in (
        t.threshold(rows, precision=0.9, per_class=True),
        t.prediction_sets(rows, coverage=0.9, labeled=labeled),
        t.expected_performance(rows),
        t.risk_coverage(rows),
    ):
        for part in _parts(result):
            name = dataclasses.fields(part)[0].name
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(part, name, None)


def test_answers_are_plain_json_and_text(rows):
    t = _temperature(5, verdict="use")
    labeled = (rows[:40], rows[:40].argmax(axis=1))
    for found in (
        t.threshold(rows, per_class=True),
        t.threshold(rows, cost=(3, 1)),
        t.prediction_sets(rows, labeled=labeled),
        t.expected_performance(rows[:, :5]),
        _temperature(2, verdict="use").expected_performance(rows[:, 0]),
    ):
        stored = json.loads(json.dumps(found.as_dict(), allow_nan=False))
        assert stored["verdict"] == "use"
        assert stored["assumption"] == found.assumption
        assert "verdict on T: use" in str(found)
    curve = t.risk_coverage(rows)
    assert (curve.verdict, curve.assumption) == ("use", t.threshold(rows).assumption)
    everything = t.threshold(rows[:1])
    assert everything.wanted == "a precision of at least 0.95 among accepted rows"


def test_names_are_those_given_or_those_of_the_columns(rows):
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    t, names = _temperature(5), ["ant", "bee", "cat", "dog", "eel"]
    frame = pandas.DataFrame(rows, columns=names)
    assert list(t.expected_performance(frame, columns=names).classes) == names
    assert list(t.expected_performance(rows, names=names).classes) == names
    assert list(t.expected_performance(rows).classes) == ["0", "1", "2", "3", "4"]
    with pytest.raises(tepid.InputError, match="one for each of the 5 classes, got 4"):
        t.expected_performance(rows, names=names[1:])
    with pytest.raises(tepid.InputError, match="got 'ant' twice"):
        t.expected_performance(rows, names=["ant", *names[:4]])


# Promises -----------------------------------------------------------------------------------------


def test_what_is_promised_at_the_right_temperature_is_kept():
    z, y = _simulated(40_000, 6, 2.0, seed=5)
    t = tepid.temperature_scaling(z[:20_000], y[:20_000])
    z, y = z[20_000:], y[20_000:]
    right = z.argmax(axis=1) == y
    for wanted in (0.8, 0.9, 0.97):
        kept = t.threshold(z, precision=wanted)(z)
        error = 4 * math.sqrt(wanted * (1 - wanted) / kept.sum()) + 0.003
        assert right[kept].mean() == pytest.approx(wanted, abs=error)
        inside = t.prediction_sets(z, wanted)(z)
        assert inside[np.arange(len(y)), y].mean() == pytest.approx(wanted, abs=0.012)
    found = t.expected_performance(z)
    assert found.accuracy.value == pytest.approx(right.mean(), abs=0.012)
    for k, each in enumerate(found.classes.values()):
        own = z.argmax(axis=1) == k
        assert each.precision.value == pytest.approx((y[own] == k).mean(), abs=0.03)
        assert each.recall.value == pytest.approx(own[y == k].mean(), abs=0.03)


def test_intervals_and_the_cautious_threshold_keep_their_promise():
    covered, kept, cases = 0, 0, 30
    for seed in range(cases):
        z, y = _simulated(3000, 4, 2.5, seed=seed)
        labels = np.full(len(y), -1)
        labels[:40] = y[:40]
        t = tepid.calibrate(z, labels)
        right = z.argmax(axis=1) == y
        accuracy = t.expected_performance(z).accuracy
        covered += accuracy.low <= right.mean() <= accuracy.high
        accepted = t.threshold(z, precision=0.9)(z, cautious=True)
        kept += not accepted.any() or right[accepted].mean() > 0.88
    assert covered >= 0.85 * cases
    assert kept >= 0.9 * cases


def test_split_conformal_sets_cover_as_often_as_they_guarantee():
    wanted, n, seeds = 0.9, 39, 250
    t = _temperature(5, 1.0)  # any temperature keeps the guarantee, here a wrong one
    z, y = _simulated(60_000, 5, 2.0, seed=6)
    found = []
    for seed in range(seeds):
        chosen = np.random.default_rng(seed).permutation(len(y))
        old, new = chosen[:n], chosen[n : n + 400]
        sets = t.prediction_sets(z[new], wanted, labeled=(z[old], y[old]))
        assert sets.conformal.labeled == n
        found.append(sets.conformal(z[new])[np.arange(400), y[new]].mean())
    # Between the guarantee and 1 / (n + 1) above it.
    error = 4 * np.std(found) / math.sqrt(seeds)
    assert wanted - error < np.mean(found) < wanted + 1 / (n + 1) + error


def test_the_rank_of_split_conformal_sets_does_not_depend_on_rounding():
    z, y = _simulated(99, 5, 2.0, seed=8)
    own = np.sort(softmax(z / TEMPERATURE, axis=1)[np.arange(99), y])
    assert 100 * 0.56 > 56  # in floating point
    for coverage, left_out in ((0.56, 43), (0.9, 9), (0.99, 0)):
        found = _temperature(5).prediction_sets(z, coverage, labeled=(z, y)).conformal
        assert found.level == pytest.approx(own[left_out], rel=1e-6)


def test_conformal_sets_use_groups_only_if_the_labeled_rows_have_them(rows):
    t = _temperature(5, groups={"north": _temperature(5, 4.0)})
    group, labels = np.full(len(rows), "north"), rows.argmax(axis=1)
    plain = t.prediction_sets(rows, 0.9, groups=group, labeled=(rows, labels)).conformal
    assert (plain(rows, groups=group) == plain(rows)).all()
    labeled = tepid.open_source(rows, labels=labels, groups=group)
    own = t.prediction_sets(rows, 0.9, groups=group, labeled=labeled).conformal
    p = softmax(rows / 4.0, axis=1)
    assert (own(rows, groups=group) == (p >= own.level)).all()
    assert own.level != pytest.approx(plain.level)


# Refusals -----------------------------------------------------------------------------------------

Z = np.zeros((4, 3))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: t.threshold(Z, precision=1.5), r"precision must be in \(0, 1\], got 1.5"),
        (lambda t: t.threshold(Z, coverage=0), r"coverage must be in \(0, 1\], got 0"),
        (lambda t: t.threshold(Z, precision="high"), "precision must be a number"),
        (lambda t: t.threshold(Z, precision=0.9, coverage=0.9), "got precision and coverage"),
        (lambda t: t.threshold(Z, cost=3), "cost must be a pair"),
        (lambda t: t.threshold(Z, cost=(math.inf, 1)), "cost must be two numbers above zero"),
        (lambda t: t.threshold(Z, cost=(-1, 1)), "cost must be two numbers above zero"),
        (lambda t: t.threshold(Z, cost=(1, 0)), "two numbers above zero"),
        (lambda t: t.threshold(Z, labels=[0] * 4), "arguments must be among"),
        (lambda t: t.threshold(Z[:0]), "at least one row"),
        (lambda t: t.threshold(np.zeros((4, 2))), "must have the 3 classes"),
        (lambda t: t.threshold(np.full((4, 3), np.nan)), "row 0"),
        (lambda t: t.prediction_sets(Z, 1.0), r"coverage must be in \(0, 1\)"),
        (lambda t: t.prediction_sets(Z, labeled=Z), "must be a pair"),
        (lambda t: t.prediction_sets(Z, labeled=(Z, [-1] * 4)), "at least one row"),
        (lambda t: t.prediction_sets(Z, labeled=(Z[:, :2], [0] * 4)), "the 3 classes"),
        (lambda t: t.prediction_sets(Z, labeled=tepid.open_source(Z)), "must have labels"),
        (lambda t: t.expected_performance(Z, sample_weight=[1.0]), "one entry for each"),
    ],
)
def test_what_cannot_be_decided_is_refused_in_one_sentence(call, words):
    with pytest.raises(tepid.InputError, match=words) as refused:
        call(_temperature(3))
    assert "\n" not in str(refused.value)


def test_logits_alone_decide_nothing_and_the_error_names_the_next_step(rows):
    alone, uts = tepid.calibrate(rows), tepid.uts(rows)
    for t in (alone, uts):
        for call in (t.threshold, t.prediction_sets):
            with pytest.raises(tepid.InputError, match="next step: Label 25 random rows"):
                call(rows)
    found = alone.expected_performance(rows).accuracy
    assert found.high - found.low > 0.2


def test_models_that_are_not_used_alone_decide_nothing_either(rows):
    with pytest.warns(
        tepid.CalibrationWarning, match="No temperature could be fitted to the models"
    ):
        weak = tepid.calibrate(4 * rows, models=[rows / 10])
    assert weak.status == "not-identified"
    with pytest.raises(tepid.InputError, match="reference="):
        weak.threshold(rows)


def test_accuracy_is_enough_to_decide(rows):
    t = tepid.calibrate(rows, accuracy=0.8)
    assert t.threshold(rows, precision=0.9).accepted.share > 0
    assert t.threshold(rows).verdict == t.verdict


def _deciders(t, z):
    labels = np.zeros(len(z), int)
    sets = t.prediction_sets(z, labeled=(z, labels))
    threshold = t.threshold(z, coverage=0.5)
    return threshold, t.threshold(z, coverage=0.5, per_class=True), sets, sets.conformal


def test_rows_of_other_classes_are_refused_as_by_the_temperature(rows):
    z = rows[:50]
    t = _temperature(z.shape[1])
    for decide in _deciders(t, z):
        for wrong in (z[0], z[:, :3], z[:, :1], np.hstack([z, z])):
            with pytest.raises(tepid.InputError) as own:
                t(wrong)
            with pytest.raises(tepid.InputError) as error:
                decide(wrong)
            assert str(error.value) == str(own.value)
    with pytest.raises(tepid.InputError, match="classes of the calibration, got 3"):
        t.threshold(lambda: iter([z[:, :3]]))


def test_no_rows_give_an_empty_answer(rows):
    z = rows[:50]
    k = z.shape[1]
    for decide in _deciders(_temperature(k), z):
        shape = decide(z).shape
        assert decide(z[:0]).shape == (0, *shape[1:])
        assert decide(np.zeros((0, 2, k)), class_axis=-1).shape == (0, 2, *shape[1:])
