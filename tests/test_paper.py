"""The paper's row on the authors' own logits, and its protocol."""

import itertools
import threading

import numpy as np
import pytest

import tepid
from tests.test_calibrate import fit


@pytest.mark.slow
def test_the_paper_s_row_is_reproduced(shared):
    with np.load(shared / "densenet40_cifar100.npz") as data:
        result = tepid.compare(data["logits"], data["labels"], splits=10)
    uts, ts, plain = (result["methods"][m] for m in ("uts", "temperature", "uncalibrated"))
    assert uts["temperature"]["mean"] == pytest.approx(1.498, abs=0.015)
    assert ts["temperature"]["mean"] == pytest.approx(1.453, abs=0.025)
    assert 0.004 < uts["temperature"]["sd"] < 0.02
    assert 0.01 < ts["temperature"]["sd"] < 0.05
    assert uts["nll"]["mean"] == pytest.approx(1.002, abs=0.004)
    assert ts["nll"]["mean"] == pytest.approx(1.001, abs=0.004)
    assert 100 * plain["ece"]["mean"] == pytest.approx(8.6, abs=0.2)
    assert 100 * uts["ece"]["mean"] == pytest.approx(1.82, abs=0.3)
    assert 100 * ts["ece"]["mean"] == pytest.approx(1.27, abs=0.3)


def test_the_protocol_fits_on_a_part_and_reports_on_the_rest(fashion):
    z, y = fashion[0][:2000], fashion[1][:2000]
    result = tepid.compare(z, y, splits=3, fraction=0.25, seed=5)
    assert list(result["methods"]) == [
        "uncalibrated", "uts", "temperature", "accuracy", "calibrate", "calibrate+labels",
        "calibrate+accuracy", "calibrate+all",
    ]  # fmt: skip
    order = np.random.default_rng([5, 0]).permutation(2000)
    first, rest = np.sort(order[:500]), np.sort(order[500:])
    t = tepid.temperature_scaling(z[first], y[first])
    one = tepid.compare(z, y, splits=1, fraction=0.25, seed=5)["methods"]["temperature"]
    assert one["temperature"] == {"mean": t.value, "sd": None}
    assert one["nll"]["mean"] == pytest.approx(tepid.metrics.nll(y[rest], t(z[rest])), rel=1e-6)
    plain = result["methods"]["uncalibrated"]
    assert plain["temperature"] == {"mean": 1.0, "sd": 0.0}
    for method in result["methods"].values():
        assert method["accuracy"] == plain["accuracy"]
        assert method["nll"]["mean"] <= plain["nll"]["mean"] * 1.01
    again = tepid.compare(z, y, splits=3, fraction=0.25, seed=5)
    assert again["methods"]["uts"]["ece"] == result["methods"]["uts"]["ece"]
    other = tepid.compare(z, y, splits=3, fraction=0.25, seed=6)
    assert other["methods"]["uts"]["ece"] != result["methods"]["uts"]["ece"]


def test_the_protocol_refuses_what_cannot_be_split(fashion):
    z, y = fashion[0][:10], fashion[1][:10]
    with pytest.raises(tepid.InputError, match=r"rows on both sides, got 0.01 of 10 rows"):
        tepid.compare(z, y, fraction=0.01)
    with pytest.raises(tepid.InputError, match=r"rows on both sides, got 1.0 of 10 rows"):
        tepid.compare(z, y, fraction=1.0)
    with pytest.raises(tepid.InputError, match="splits must be at least 1, got 0"):
        tepid.compare(z, y, splits=0)
    with pytest.raises(tepid.InputError, match="seed must be at least 0, got -1"):
        tepid.compare(z, y, seed=-1)


def test_on_the_demo_data_uts_closes_most_of_the_gap(fashion):
    z, y = fashion
    t = tepid.uts(z)
    before, after = (
        tepid.summaries.Reliability.of_logits(z, y, temperature=v) for v in (1.0, t.value)
    )
    assert tepid.metrics.ece(after) < 0.5 * tepid.metrics.ece(before)
    assert tepid.metrics.nll(after) < tepid.metrics.nll(before)
    assert tepid.metrics.accuracy(after) == tepid.metrics.accuracy(before)


@pytest.mark.slow
def test_every_kind_of_evidence_that_the_data_allow_can_be_compared(fashion):
    z, y = fashion[0][:3000], fashion[1][:3000]
    other, judge = (
        z + np.random.default_rng(i).normal(size=z.shape).astype(np.float32) for i in (0, 1)
    )
    old = (fashion[0][5000:7000], fashion[1][5000:7000])
    given = {"models": [other], "reference": judge, "source": old}
    options = given | {"few": 40, "methods": "all"}
    result = tepid.compare(z, y, **options, splits=2)["methods"]
    one = tepid.compare(z, y, **options, splits=1)["methods"]
    assert list(result) == list(one)
    inside = np.sort(np.random.default_rng([0, 0]).permutation(3000)[:600])
    part, labels = z[inside], y[inside]
    evidence = {
        "labels": np.where(np.arange(600) < 40, labels, -1),
        "accuracy": (z.argmax(axis=1) == y).mean(),
        "models": [other[inside]],
        "reference": judge[inside],
        "source": old,
    }
    expected = {
        "uncalibrated": 1.0,
        "uts": tepid.uts(part).value,
        "temperature": tepid.temperature_scaling(part, labels).value,
        "accuracy": tepid.match_accuracy(part, evidence["accuracy"]).value,
        "calibrate": fit(part).value,
        "calibrate+all": fit(part, **evidence).value,
    } | {f"calibrate+{kind}": fit(part, **{kind: value}).value for kind, value in evidence.items()}
    found = {name: m["temperature"]["mean"] for name, m in one.items() if "temperature" in m}
    assert found == pytest.approx(expected, rel=1e-9)


def test_the_protocol_refuses_methods_that_lack_their_evidence(fashion):
    z, y = fashion[0][:400], fashion[1][:400]
    compare = tepid.compare
    without = compare(z, y, splits=1)["methods"]
    assert not {f"calibrate+{kind}" for kind in ("models", "reference", "source")} & set(without)
    for methods, sentence in {
        "magic": "methods must be among uncalibrated, uts, .* or all, got 'magic'",
        "calibrate+models": "methods must come with another model for calibrate.models, got none",
        "calibrate+reference": "methods must come with a reference for .*, got none",
        "calibrate+source": "methods must come with an older labeled set for .*, got none",
        (): "methods must name at least one, got none",
    }.items():
        with pytest.raises(tepid.InputError, match=sentence):
            compare(z, y, methods=methods)
    for name, options in {
        "model 1": {"models": [z[:-1]]},
        "reference": {"reference": z[:-1]},
    }.items():
        with pytest.raises(tepid.InputError, match=rf"^{name} must have the shape .*\(400, 10\)"):
            compare(z, y, **options)
    with pytest.raises(tepid.InputError, match="few must be at least 1, got 0"):
        compare(z, y, few=0)


def test_a_method_that_refuses_is_counted_and_scored_at_one(fashion):
    z, y = fashion[0][:1000], fashion[1][:1000]
    source = (z[:, :9], np.minimum(y, 8))  # has other classes
    result = tepid.compare(z, y, methods=["calibrate+source"], source=source, splits=3)
    assert result["methods"]["calibrate+source"]["refused"] == 3
    assert result["methods"]["calibrate+source"]["temperature"]["mean"] == 1.0
    assert result["cost_of_uts"] is None


def test_the_table_labels_uts_as_uts(fashion):
    z, y = fashion[0][:1000], fashion[1][:1000]
    methods = tepid.compare(z, y, methods=["uts", "calibrate"], splits=1)["methods"]
    inside = np.sort(np.random.default_rng([0, 0]).permutation(1000)[:200])
    for name in ("uts", "calibrate"):
        t = getattr(tepid, name)(z[inside])
        assert t.method == name
        assert methods[name]["temperature"]["mean"] == t.value


def test_splits_side_by_side_equal_one_after_the_other(fashion):
    z, y = fashion[0][:1500], fashion[1][:1500]
    told = []
    engine = tepid.Threads(4, lambda *said: told.append(said))
    four, one = (
        tepid.compare(z, y, splits=5, engine=e)["methods"] for e in (engine, tepid.Threads(1))
    )
    for name, m in one.items():
        assert four[name]["nll"] == m["nll"]
        assert four[name]["temperature"] == m["temperature"]
    assert told[-1] == ("comparing", 5, 5)


def test_bad_evidence_is_refused_at_once_and_named_by_its_own_row(fashion):
    z, y = fashion[0][:600].copy(), fashion[1][:600]
    broken = z.copy()
    broken[550, 3] = np.nan
    compare = tepid.compare
    with pytest.raises(tepid.InputError, match=r"^logits must .* class 3 at row 550$"):
        compare(broken, y, splits=1)
    with pytest.raises(tepid.InputError, match=r"^model 1 must .* class 3 at row 550$"):
        compare(z, y, models=[broken], splits=1)
    with pytest.raises(tepid.InputError, match=r"^reference must .* class 3 at row 550$"):
        compare(z, y, reference=broken, splits=1)
    with pytest.raises(tepid.InputError, match=r"^source must .* class 3 at row 550$"):
        compare(z, y, source=(broken, y), splits=1)
    with pytest.raises(tepid.InputError, match=r"^labels of source must be in 0\.\.9, got"):
        compare(z, y, source=(z, y + 9), splits=1)


def test_what_stops_a_comparison_waits_for_no_other_split(network, monkeypatch):
    begun, waited, gate, other = [], [], threading.Event(), threading.Event()

    first = itertools.count()  # two threads may begin at once, of which one is the first

    def run(*_):
        begun.append(0)
        if next(first) == 0:
            other.wait(20)
            raise KeyboardInterrupt
        other.set()
        waited.append(gate.wait(20))

    monkeypatch.setattr("tepid.comparison._run", run)
    with pytest.raises(KeyboardInterrupt):
        tepid.compare(network[0][:200], network[1][:200], splits=9, engine=tepid.Threads(2))
    assert not waited  # the other split is still at it
    assert len(begun) <= 3
    gate.set()
