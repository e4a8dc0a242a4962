"""The paper's row on the authors' own logits, and its protocol."""

import numpy as np
import pytest

import tepid


@pytest.mark.slow
def test_the_paper_s_row_is_reproduced(shared):
    with np.load(shared / "densenet40_cifar100.npz") as data:
        result = tepid.protocol.compare(data["logits"], data["labels"], splits=10)
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
    result = tepid.protocol.compare(z, y, splits=3, fraction=0.25, seed=5)
    assert list(result["methods"]) == ["uncalibrated", "uts", "temperature", "accuracy"]
    order = np.random.default_rng([5, 0]).permutation(2000)
    first, rest = np.sort(order[:500]), np.sort(order[500:])
    t = tepid.from_labels(z[first], y[first])
    one = tepid.protocol.compare(z, y, splits=1, fraction=0.25, seed=5)["methods"]["temperature"]
    assert one["temperature"] == {"mean": t.value, "sd": None}
    assert one["nll"]["mean"] == pytest.approx(tepid.metrics.nll(y[rest], t(z[rest])), rel=1e-6)
    plain = result["methods"]["uncalibrated"]
    assert plain["temperature"] == {"mean": 1.0, "sd": 0.0}
    for method in result["methods"].values():
        assert method["accuracy"] == plain["accuracy"]
        assert method["nll"]["mean"] <= plain["nll"]["mean"]
    again = tepid.protocol.compare(z, y, splits=3, fraction=0.25, seed=5)
    assert again["methods"]["uts"]["ece"] == result["methods"]["uts"]["ece"]
    other = tepid.protocol.compare(z, y, splits=3, fraction=0.25, seed=6)
    assert other["methods"]["uts"]["ece"] != result["methods"]["uts"]["ece"]


def test_the_protocol_refuses_what_cannot_be_split(fashion):
    z, y = fashion[0][:10], fashion[1][:10]
    with pytest.raises(tepid.InputError, match=r"rows on both sides, got 0.01 of 10 rows"):
        tepid.protocol.compare(z, y, fraction=0.01)
    with pytest.raises(tepid.InputError, match=r"rows on both sides, got 1.0 of 10 rows"):
        tepid.protocol.compare(z, y, fraction=1.0)
    with pytest.raises(tepid.InputError, match="splits must be at least one, got 0"):
        tepid.protocol.compare(z, y, splits=0)
    with pytest.raises(tepid.InputError, match="seed must not be below zero, got -1"):
        tepid.protocol.compare(z, y, seed=-1)


def test_on_the_demo_data_uts_closes_most_of_the_gap(fashion):
    z, y = fashion
    t = tepid.from_logits(z)
    before, after = (tepid.Reliability.of_logits(z, y, temperature=v) for v in (1.0, t.value))
    assert tepid.metrics.ece(after) < 0.5 * tepid.metrics.ece(before)
    assert tepid.metrics.nll(after) < tepid.metrics.nll(before)
    assert tepid.metrics.accuracy(after) == tepid.metrics.accuracy(before)
