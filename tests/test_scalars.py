"""Single numbers of the wrong kind: refused by name, in one sentence, wherever they are given."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import tepid
from tepid import metrics
from tepid.online import Monitor, Outputs, Rules
from tepid.validation import number, whole

Y, P = [0, 1, 0], [[0.8, 0.2]] * 3
Z = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)


def _monitor(**options):
    return Monitor.from_reference(Z, **({"temperature": 1.0, "chunk": 10} | options))


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), np.array(3)])
def test_a_whole_number_may_be_of_any_type_of_integer(value):
    assert whole(value, "n") == 3
    assert type(whole(value, "n")) is int


@pytest.mark.parametrize("value", [3, 3.0, np.float32(3), np.array(3.0), np.array([3.0])[0]])
def test_a_number_may_be_of_any_type_of_number(value):
    assert number(value, "x") == 3.0
    assert math.isnan(number(math.nan, "x"))


@pytest.mark.parametrize("value", ["3", 3.0, None, True, [3], np.array([3, 4])])
def test_what_is_no_whole_number_is_named(value):
    with pytest.raises(tepid.InputError, match="n must be a whole number, got"):
        whole(value, "n")


@pytest.mark.parametrize("value", ["3", b"3", None, [3.0], np.array([3.0, 4.0]), "abc"])
def test_what_is_no_number_is_named(value):
    with pytest.raises(tepid.InputError, match="x must be a number, got"):
        number(value, "x")


WHOLE = {
    "bins": (lambda v: metrics.ece(Y, P, bins=v), lambda v: Rules(bins=v)),
    "draws": (
        lambda v: metrics.bootstrap(metrics.ece, Y, P, draws=v),
        lambda v: metrics.difference(metrics.ece, Y, P, P, draws=v),
    ),
    "seed": (lambda v: metrics.bootstrap(metrics.ece, Y, P, seed=v), lambda v: Rules(seed=v)),
    "correct": (lambda v: tepid.Counted(v, 3),),
    "checked": (lambda v: tepid.Counted(1, v),),
    "chunk": (lambda v: _monitor(chunk=v),),
    "remember": (lambda v: Rules(remember=v),),
    "every": (lambda v: Outputs(every=v),),
    "splits": (lambda v: tepid.compare(Z, [0] * 100, splits=v),),
    "few": (lambda v: tepid.compare(Z, [0] * 100, few=v),),
}
NUMBERS = {
    "level": (lambda v: metrics.bootstrap(metrics.ece, Y, P, level=v),),
    "deviations": (lambda v: tepid.uts(Z, deviations=v),),
    "accuracy": (
        lambda v: tepid.match_accuracy(Z, {"a": (v, 0.1)}, groups=["a"] * 100),
        lambda v: tepid.calibrate(Z, accuracy=(v, 0.1)),
        lambda v: tepid.Range(0.1, v),
    ),
    "standard error of accuracy": (
        lambda v: tepid.match_accuracy(Z, (0.9, v)),
        lambda v: tepid.calibrate(Z, accuracy=(0.9, v)),
    ),
    "temperature": (
        lambda v: _monitor(temperature=v),
        lambda v: tepid.Temperature(v, "given", samples=1, classes=3, implied_accuracy=0.9),
    ),
    "period": (lambda v: _monitor(chunk=None, period=v, times=range(100)),),
    "time": (lambda v: _monitor().update(Z[:3], time=v),),
    "false_alarms": (lambda v: Rules(false_alarms=v),),
    "sample": (lambda v: Rules(sample=v),),
    "half_life": (lambda v: Rules(half_life=v),),
    "fraction": (lambda v: tepid.compare(Z, [0] * 100, fraction=v),),
}


@pytest.mark.parametrize("value", ["a", 1.5])
@pytest.mark.parametrize(("name", "call"), [(n, c) for n, calls in WHOLE.items() for c in calls])
def test_a_count_that_is_none_is_refused_by_its_name(name, call, value):
    with pytest.raises(tepid.InputError, match=f"^{name} must be a whole number, got {value!r}$"):
        call(value)


@pytest.mark.parametrize("value", ["a", [1, 2]])
@pytest.mark.parametrize(("name", "call"), [(n, c) for n, calls in NUMBERS.items() for c in calls])
def test_an_option_that_is_no_number_is_refused_by_its_name(name, call, value):
    with pytest.raises(tepid.InputError, match=f"^{name} must be a number, got "):
        call(value)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.int32, np.uint64, np.array])
def test_a_count_of_any_type_of_integer_does_not_overflow(kind):
    most = 127 if kind in (np.int8, np.uint8) else 32767
    counted = tepid.Counted(kind(most - 27), kind(most))
    assert counted == tepid.Counted(most - 27, most)
    assert type(counted.checked) is int
    assert tepid.match_accuracy(Z, counted).value == pytest.approx(
        tepid.match_accuracy(Z, tepid.Counted(most - 27, most)).value
    )
    assert len(_monitor(chunk=kind(50)).update(Z)) == 2
    assert _monitor(rules=Rules(bins=kind(100))).histogram[0][-1] == 1
    assert metrics.ece(Y, P, bins=kind(100)) == metrics.ece(Y, P, bins=100)


def test_options_become_numbers_of_python(tmp_path):
    rules = Rules(
        false_alarms=Decimal("0.01"), limits=np.array([0.1, 0.9]), reestimate=np.True_,
        sample=np.float32(0.5), half_life=Fraction(3, 2), seed=2**100,
    )  # fmt: skip
    assert rules == Rules(0.01, (0.1, 0.9), half_life=1.5, reestimate=True, sample=0.5, seed=2**100)
    watch = _monitor(rules=rules, period=None)
    watch.update(Z)
    watch.save(tmp_path / "monitor.npz")
    assert Monitor.load(tmp_path / "monitor.npz").rules == rules
    known = {"samples": np.int64(3), "classes": np.uint8(3), "implied_accuracy": np.float32(0.5)}
    for value in (np.float32(1.5), Decimal("1.5"), np.array(1.5)):
        t = tepid.Temperature(value, "given", **known, interval=(np.float32(1), Decimal(2)))
        t.save(tmp_path / "t.json")
        assert tepid.load(tmp_path / "t.json") == t
    for goal in ({"precision": 0.9}, {"coverage": 0.5}, {"cost": (2, 1)}):
        exact = {
            name: tuple(map(Decimal, v)) if name == "cost" else Decimal(str(v))
            for name, v in goal.items()
        }
        assert t.threshold(Z, **exact).accepted == t.threshold(Z, **goal).accepted
    assert t.prediction_sets(Z, Decimal("0.5")).level == t.prediction_sets(Z, 0.5).level


@pytest.mark.parametrize(
    "call",
    [
        lambda v: tepid.Counted(1, v),
        lambda v: tepid.Counted(-v, 1),
        lambda v: Rules(remember=v),
        lambda v: Rules(seed=v),
        lambda v: Rules(sample=v),
        lambda v: metrics.ece(Y, P, bins=v),
    ],
)
@pytest.mark.parametrize("digits", [400, 5000])
def test_a_number_of_too_many_digits_is_refused(call, digits):
    with pytest.raises(tepid.InputError, match=r"^\w+ must be (at most \d+|a number), got"):
        call(10**digits)


@pytest.mark.parametrize("value", ["no", 1, None])
def test_what_is_neither_true_nor_false_is_refused(value):
    with pytest.raises(tepid.InputError, match="reestimate must be True or False, got"):
        Rules(reestimate=value)


def test_a_temperature_whose_inverse_overflows_is_refused():
    known = {"method": "given", "samples": 1, "classes": 3, "implied_accuracy": 0.9}
    with pytest.raises(
        tepid.InputError, match=r"temperature must be at least 5.6e-309, got 5e-309"
    ):
        tepid.Temperature(5e-309, **known)
    assert tepid.Temperature(6e-309, **known)(Z).max() == 1


@pytest.mark.parametrize("limits", [3, (1,), (0.1, 0.2, 0.3), (0.5, 0.2)])
def test_limits_are_a_pair(limits):
    with pytest.raises(
        tepid.InputError, match=r"limits must be \(low, high\) within \[0, 1\], got"
    ):
        Rules(limits=limits)


def test_limits_are_numbers():
    with pytest.raises(tepid.InputError, match="limits must be a number, got 'a'"):
        Rules(limits=("a", "b"))


T = tepid.Temperature(1.5, "given", samples=1, classes=3, implied_accuracy=0.9)
LABELS = [0] * 100
KINDS = {
    "engine": (
        lambda: tepid.uts(Z, engine="threads"),
        lambda: tepid.uts(Z, engine=tepid.Threads),
        lambda: tepid.compare(Z, LABELS, engine="threads"),
    ),
    "methods": (
        lambda: tepid.compare(Z, LABELS, methods=5),
        lambda: tepid.compare(Z, LABELS, methods=[[5]]),
    ),
    "models": (lambda: tepid.compare(Z, LABELS, models=5),),
    "source": (
        lambda: tepid.compare(Z, LABELS, source=5),
        lambda: tepid.compare(Z, LABELS, source=(Z,)),
    ),
    "names": (
        lambda: T.threshold(Z, per_class=True, names=5),
        lambda: T.expected_performance(Z, names=5),
    ),
    "summaries": (lambda: tepid.summarize(Z) + 5,),
    "probabilities": (
        lambda: T(Z, probabilities=Z),
        lambda: T.threshold(Z)(Z, probabilities=Z),
        lambda: T.threshold(Z, probabilities=Z),
        lambda: tepid.uts(Z, probabilities=Z),
    ),
}


@pytest.mark.parametrize(("name", "call"), [(n, c) for n, calls in KINDS.items() for c in calls])
def test_an_argument_of_another_kind_is_refused_by_its_name(name, call):
    with pytest.raises(tepid.InputError, match=f"^{name} must be "):
        call()
