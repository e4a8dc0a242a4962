"""Sites that share sums and no rows get the temperature of all rows together."""

import dataclasses
import functools
import itertools
import math
import operator

import numpy as np
import pytest

import tepid
from tepid.summaries import optimum
from tepid.summaries.optimum import LeastLoss


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(8)
    z = 5 * rng.normal(size=(4000, 6))
    return z, (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)


@pytest.fixture(scope="module")
def sites(rows):
    ends = (0, 1, 700, 4000)
    return [tuple(column[a:b] for column in rows) for a, b in itertools.pairwise(ends)]


def _merged(summaries):
    return functools.reduce(operator.add, summaries)


def _two_rounds(sites, *, labeled=False):
    """The second round; the first needs no labels."""
    tails = _merged([tepid.summarize(z) for z, _ in sites])
    return _merged([tepid.summarize(z, y if labeled else None, given=tails) for z, y in sites])


def test_two_rounds_give_uts_within_the_stated_bound(rows, sites):
    t = tepid.uts(_two_rounds(sites))
    whole = tepid.uts(rows[0])
    assert t.method == whole.method == "uts"
    assert t.precision < 2e-5
    assert t.value == pytest.approx(whole.value, rel=t.precision)
    assert t.samples == 4000
    assert t.sensitivity == pytest.approx(whole.sensitivity, rel=6e-3)


def test_the_order_of_the_sites_does_not_matter(sites):
    forth, back = (tepid.uts(_two_rounds(some)) for some in (sites, sites[::-1]))
    assert forth.value == pytest.approx(back.value, rel=1e-9)


def test_two_rounds_give_what_calibrate_gives_of_the_rows(rows, sites):
    z, _ = rows
    for scale, kept in ((1, True), (8, False)):
        sharp = [(scale * z, y) for z, y in sites]
        t, whole = tepid.calibrate(_two_rounds(sharp)), tepid.calibrate(scale * z)
        assert (t.verdict, t.status, t.samples) == (whole.verdict, whole.status, 4000)
        assert (t.verdict == "keep") == kept
        assert t.value == pytest.approx(whole.value, rel=1e-5)


@pytest.mark.parametrize("accuracy", [None, 0.7, (0.7, 0.02), tepid.Counted(70, 100)])
def test_labels_of_some_rows_and_an_accuracy_count_in_summaries(rows, sites, accuracy):
    z, y = rows
    known = np.where(np.arange(4000) % 40 == 0, y, -1)
    parts = [
        (part, known[a : a + len(part)]) for (part, _), a in zip(sites, (0, 1, 700), strict=True)
    ]
    both = _two_rounds(parts, labeled=True)
    t, whole = (
        tepid.calibrate(d, accuracy=accuracy) for d in (both, tepid.open_source(z, labels=known))
    )
    assert t.value == pytest.approx(whole.value, rel=1e-5)
    assert t.interval == pytest.approx(whole.interval, rel=1e-4)
    assert t.evidence.keys() == whole.evidence.keys()


def test_labels_need_one_round(rows, sites):
    t = tepid.temperature_scaling(_merged([tepid.summarize(*site) for site in sites]))
    whole = tepid.temperature_scaling(*rows)
    assert t.method == "temperature"
    assert t.value == pytest.approx(whole.value, rel=t.precision)


@pytest.mark.parametrize("accuracy", [0.6, tepid.Range(0.55, 0.65), tepid.Counted(60, 100)])
def test_an_accuracy_needs_one_round(rows, sites, accuracy):
    first = _merged([tepid.summarize(z) for z, _ in sites])
    t = tepid.match_accuracy(first, accuracy)
    whole = tepid.match_accuracy(rows[0], accuracy)
    assert t.value == pytest.approx(whole.value, rel=t.precision)
    assert t.implied_accuracy == pytest.approx(0.6, rel=1e-5)


def test_summaries_come_back_from_a_file_as_they_were(sites, tmp_path):
    first = tepid.summarize(*sites[2])
    first.save(tmp_path / "site.npz")
    again = tepid.Summaries.load(tmp_path / "site.npz")
    assert again.tails == first.tails
    assert again.curve == first.curve
    assert again.prints == first.prints


def test_summaries_of_many_classes_come_back_from_a_file(tmp_path):
    z = np.random.default_rng(0).normal(size=(400, 300))
    tepid.summarize(z, z.argmin(axis=1)).save(tmp_path / "site.npz")
    assert tepid.Summaries.load(tmp_path / "site.npz").tails == tepid.summarize(z).tails


def test_the_file_does_not_grow_with_the_rows(tmp_path):
    z = np.random.default_rng(0).normal(size=(50_000, 3))
    tepid.summarize(z[:10]).save(tmp_path / "few")
    tepid.summarize(z).save(tmp_path / "many")
    few, many = (path.stat().st_size for path in (tmp_path / "few", tmp_path / "many"))
    assert abs(few - many) < 100  # the digits of the counts


def test_the_same_rows_are_not_added_twice(sites):
    one = tepid.summarize(sites[2][0])
    with pytest.raises(tepid.InputError, match="same rows twice"):
        one + tepid.summarize(sites[1][0]) + tepid.summarize(sites[2][0])


def test_one_round_is_not_enough_for_uts(sites):
    for method in (tepid.uts, tepid.calibrate):
        with pytest.raises(tepid.InputError, match="second round, got the first"):
            method(tepid.summarize(sites[1][0]))


def test_rounds_are_not_mixed(sites):
    first = tepid.summarize(sites[1][0])
    with pytest.raises(tepid.InputError, match="one round"):
        first + tepid.summarize(sites[2][0], given=first)


def test_a_site_that_left_after_the_first_round_is_noticed(sites):
    tails = _merged([tepid.summarize(z) for z, _ in sites])
    only = tepid.summarize(sites[2][0], given=tails)
    with pytest.raises(tepid.InputError, match="same rows in both rounds"):
        tepid.uts(only)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        (tepid.uts, {"sample_weight": [1.0]}),
        (tepid.uts, {"deviations": 2.0}),
        (tepid.temperature_scaling, {"labels": [0]}),
        (tepid.match_accuracy, {"accuracy": 0.6, "groups": ["a"]}),
        *((tepid.calibrate, {kind: [[1.0]]}) for kind in ("labels", "labeled", "models")),
        *((tepid.calibrate, {kind: [[1.0]]}) for kind in ("reference", "source", "groups", "ids")),
        (tepid.calibrate, {"engine": tepid.Threads(2)}),
        (tepid.calibrate, {"probabilities": True}),
    ],
)  # fmt: skip
def test_what_needs_rows_is_refused_by_name(sites, method, options):
    name = list(options)[-1]
    with pytest.raises(tepid.InputError, match=f"^{name} must be left out for summaries, which"):
        method(_two_rounds(sites), **options)
    with pytest.raises(tepid.InputError, match="must be of rows with labels, got none"):
        tepid.temperature_scaling(_two_rounds(sites))


def test_a_site_without_labels_adds_its_logits_alone(sites):
    one, two = tepid.summarize(*sites[1]), tepid.summarize(sites[2][0])
    for both in (one + two, two + one):
        assert both.rows == one.rows + two.rows
        assert tepid.temperature_scaling(both) == tepid.temperature_scaling(one)


def test_temperatures_beyond_the_range_are_at_bound(sites):
    t = tepid.temperature_scaling(tepid.summarize(sites[2][0] * 1e4, sites[2][1]))
    assert t.status == "at-bound"


def test_the_range_of_summaries_is_from_a_64th_to_128(sites):
    z, y = sites[2]
    assert tepid.temperature_scaling(tepid.summarize(z, z.argmax(axis=1))).value == 1 / 64
    assert tepid.temperature_scaling(tepid.summarize(z, z.argmin(axis=1))).value == 128
    for factor in (1 / 64, 64):  # T of the rows is near 1
        t = tepid.temperature_scaling(tepid.summarize(factor * z, y))
        assert t.value == pytest.approx(factor * tepid.temperature_scaling(z, y).value, rel=1e-5)


def test_the_sites_may_be_merged_in_another_order_in_the_second_round():
    rng = np.random.default_rng(3)
    parts = [3 * rng.normal(size=(n, 5)) for n in (7, 301, 50, 123, 11, 200)]
    firsts = [tepid.summarize(z) for z in parts]
    tails = _merged(firsts)
    seconds = [tepid.summarize(z, given=tails) for z in parts]
    # Sums in another order round differently, on most machines and in some of these.
    orders = list(itertools.permutations(seconds))[::30]
    assert len({tepid.uts(_merged(order)).status for order in orders}) == 1


def _damaged(value, **fields):
    return dataclasses.replace(value, **fields)


@pytest.mark.parametrize("share", [1.001, -0.001])
def test_sums_that_no_rows_can_have_are_refused(rows, tmp_path, share):
    z, y = rows
    p = np.exp(z - np.logaddexp.reduce(z, axis=1, keepdims=True))
    curve = tepid.summaries.Curve.of(z, labels=y)
    tails = tepid.summaries.Tails.of(z)
    reliability = tepid.summaries.Reliability.of(p, y)
    low, most = share < 0, curve.weight * share
    wrong = [
        _damaged(curve, confidence=np.full_like(curve.confidence, most)),
        _damaged(curve, confidence_square=np.full_like(curve.confidence_square, most)),
        _damaged(curve, histogram=np.full_like(curve.histogram, most)),
        _damaged(tails, total=np.full_like(tails.total, most)),
        _damaged(tails, squares=tails.total * share if low else tails.total + 0.001 * most),
        _damaged(tails, confidence=tails.predicted * share if low else tails.predicted + 1),
        _damaged(reliability, confidence=reliability.count * share - 0.1 * low),
        _damaged(reliability, correct=reliability.count * share - 0.1 * low),
    ]
    if low:
        wrong += [_damaged(curve, **{name: -1e-9}) for name in ("rows", "weight", "weight_square")]
        wrong += [_damaged(curve, **{name: -1e-9}) for name in ("softest", "sharpest")]
        wrong += [_damaged(curve, **{name: np.array([-1e-9])}) for name in ("pairs",)]
        wrong += [_damaged(curve, square=curve.square - 2 * curve.square.max())]
        wrong += [_damaged(tails, predicted=tails.predicted - 2 * tails.weight)]
        wrong += [_damaged(reliability, **{name: -1e-9}) for name in ("rows", "weight", "brier")]
        wrong += [_damaged(reliability, nll=-1e-9), _damaged(reliability, count=-reliability.count)]
    else:
        wrong += [_damaged(curve, **{name: np.array([1e-9])}) for name in ("pull", "flat")]
        wrong += [
            _damaged(curve, spread=1e-9),
            _damaged(curve, weight=0.0),
            _damaged(curve, rows=0.0),
        ]
    for value in wrong:
        value.save(tmp_path / "damaged.npz")
        with pytest.raises(tepid.InputError):
            type(value).load(tmp_path / "damaged.npz")
    below = tepid.summaries.Curve.of(z, thresholds=-np.ones(z.shape[1]))
    for value in (curve, below, tails, reliability):
        value.save(tmp_path / "whole.npz")
        assert type(value).load(tmp_path / "whole.npz") == value


@pytest.mark.parametrize("factor", [1e-3, 1e6])
def test_limits_of_sums_follow_the_weight_of_the_rows(rows, tmp_path, factor):
    z, y = rows
    curve, tails = factor * tepid.summaries.Curve.of(z[:50], labels=y[:50]), factor * _tails(z[:50])
    rounded = _damaged(tails, squares=tails.total + 1e-7 * tails.weight)
    for value in (curve, tails, rounded):
        value.save(tmp_path / "whole.npz")
        assert type(value).load(tmp_path / "whole.npz") == value
    for value in (
        _damaged(curve, confidence=np.full_like(curve.confidence, 1.5 * curve.weight)),
        _damaged(tails, squares=tails.total + 1e-5 * tails.weight),
    ):
        value.save(tmp_path / "damaged.npz")
        with pytest.raises(tepid.InputError):
            type(value).load(tmp_path / "damaged.npz")


def _tails(z):
    return tepid.summaries.Tails.of(z)


def test_a_summary_without_bins_is_refused(tmp_path):
    none = dict.fromkeys(("count", "confidence", "correct"), np.zeros(0))
    _damaged(tepid.summaries.Reliability.zero(), bins=0, **none).save(tmp_path / "damaged.npz")
    with pytest.raises(tepid.InputError, match="bins"):
        tepid.summaries.Reliability.load(tmp_path / "damaged.npz")


@pytest.mark.parametrize("low", [-5, 0, 3])
def test_chains_of_nodes_make_a_lattice_or_are_refused(rows, tmp_path, low):
    lattice = tepid.summaries.Lattice.window(low, low + 4, 2)
    curve = tepid.summaries.Curve.of(rows[0][:20], lattice=lattice)
    curve.save(tmp_path / "whole.npz")
    assert tepid.summaries.Curve.load(tmp_path / "whole.npz") == curve
    nodes = sum(curve.lengths)
    for lengths in ((1, nodes - 1), (nodes - 2, 2), (nodes // 2, nodes - nodes // 2)):
        damaged = _damaged(curve, lengths=np.array(lengths))
        damaged.save(tmp_path / "damaged.npz")
        with pytest.raises(tepid.InputError, match="must make a lattice"):
            tepid.summaries.Curve.load(tmp_path / "damaged.npz")


def test_a_probability_equal_to_its_threshold_is_above_it():
    """Half of the rows have one probability, half another: mean plus deviation is the larger."""
    rng = np.random.default_rng(1)
    for _ in range(30):
        first, second = -rng.uniform(0.5, 4, size=2)
        z = np.array([[0, first, second - 3], [0, first - 2, second]] * 5)
        curve = tepid.summaries.Curve.of(z, thresholds=_tails(z).thresholds())
        # All rows for the class that they predict, and half of them for each of the others.
        assert curve.pairs.tolist() == [20]


def test_values_on_a_curve_are_those_of_the_rows_up_to_both_ends(rows):
    z, y = rows
    lattice = tepid.summaries.Lattice.window(-3, 2, 4)
    curve = tepid.summaries.Curve.of(z, labels=y, lattice=lattice)
    for temperature in (2**-2.0, 2**-1.9, 2**2.9, 2**3.0):
        log_p = z / temperature - np.logaddexp.reduce(z / temperature, axis=1, keepdims=True)
        loss = -log_p[np.arange(len(y)), y].sum()
        confidence = np.exp(log_p.max(axis=1)).mean()
        assert optimum.loss_at(curve, temperature) == pytest.approx(loss, rel=1e-4)
        assert optimum.confidence_at(curve, temperature) == pytest.approx(confidence, rel=1e-4)


def test_a_step_and_a_root_do_not_depend_on_how_often_the_rows_count(rows):
    z, y = rows
    best = tepid.temperature_scaling(z, y).value
    near = tepid.summaries.Lattice.point(best / 1.05)
    curve = tepid.summaries.Curve.of(z, labels=y)
    point = tepid.summaries.Curve.of(z, labels=y, lattice=near)
    step = LeastLoss().step(point, curve)
    assert math.log(best) == pytest.approx(math.log(best / 1.05) + step, abs=1e-4)
    for factor in (1e-8, 1e-4, 1e4):
        assert LeastLoss().step(factor * point, factor * curve) == pytest.approx(step, rel=1e-6)
        found = optimum.least_loss(factor * curve).temperature
        assert found == pytest.approx(optimum.least_loss(curve).temperature, rel=1e-9)


def test_summaries_of_the_first_round_are_summaries(sites):
    with pytest.raises(tepid.InputError, match="given must be summaries of all sites, got int"):
        tepid.summarize(sites[1][0], given=5)


def test_other_classes_are_counted(sites):
    few = tepid.summarize(sites[1][0][:, :4])
    with pytest.raises(tepid.InputError, match="same classes, got 6 and 4"):
        tepid.summarize(sites[1][0]) + few
    with pytest.raises(tepid.InputError, match=r"given must be of the 6 classes .* got 4"):
        tepid.summarize(sites[1][0], given=few)
