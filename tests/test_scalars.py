"""Single numbers of the wrong kind: refused by name, in one sentence, wherever they are given."""

import math

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


@pytest.mark.parametrize("limits", [3, (1,), (0.1, 0.2, 0.3), (0.5, 0.2)])
def test_limits_are_a_pair(limits):
    with pytest.raises(
        tepid.InputError, match=r"limits must be \(low, high\) within \[0, 1\], got"
    ):
        Rules(limits=limits)


def test_limits_are_numbers():
    with pytest.raises(tepid.InputError, match="limits must be a number, got 'a'"):
        Rules(limits=("a", "b"))
