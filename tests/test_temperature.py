"""The result: what it gives, what it keeps, and what it refuses to read back."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

import tepid
from tepid.temperature import Contribution
from tests import strategies

FORMAT_1 = Path(__file__).parent / "formats" / "temperature-1.json"


def _at(value, classes, **more):
    return tepid.Temperature(value, "uts", samples=5, classes=classes, implied_accuracy=0.5, **more)


@given(z=strategies.logits())
def test_probabilities_sum_to_one_and_keep_the_order_of_the_logits(z):
    p = _at(1.7, z.shape[1])(z)
    assert p.shape == z.shape
    assert p.dtype == (np.float64 if z.dtype == np.float64 else np.float32)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    order = np.argsort(z.astype(np.float64), axis=1, kind="stable")
    assert (np.diff(np.take_along_axis(p, order, axis=1), axis=1) >= 0).all()
    if len(z):
        best = z.argmax(axis=1)
        assert (p[np.arange(len(z)), best] == p.max(axis=1)).all()


@pytest.mark.parametrize("temperature", [0.05, 1.0, 3.0, 1000.0])
def test_probabilities_are_the_softmax_of_logits_over_t(network, temperature):
    z = network[0][:100].astype(np.float64)
    e = np.exp(z / temperature - (z / temperature).max(axis=1, keepdims=True))
    p = _at(temperature, 12)(z)
    np.testing.assert_allclose(p, e / e.sum(axis=1, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(_at(temperature, 12)(z.astype(np.float32)), p, rtol=1e-5, atol=1e-7)


def test_above_one_softens():
    z = [[2.0, 0.0]]
    assert _at(2.0, 2)(z)[0, 0] < _at(1.0, 2)(z)[0, 0] < _at(0.5, 2)(z)[0, 0]


def test_binary_logits_give_both_classes():
    p = _at(2.0, 2)([0.0, 2.0, -np.inf])
    np.testing.assert_allclose(p[:, 1], [0.5, 1 / (1 + np.exp(-1)), 0], rtol=1e-6)
    np.testing.assert_allclose(p[:, 0], 1 - p[:, 1], rtol=1e-6)
    np.testing.assert_array_equal(_at(2.0, 2)(np.array([[0.0], [2.0], [-np.inf]])), p)


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1, -3])
def test_a_class_axis_stays_where_it_is(rng, axis):
    z = rng.normal(size=(4, 5, 3, 6)).astype(np.float32)
    k = z.shape[axis]
    p = _at(1.5, k)(z, class_axis=axis)
    assert p.shape == z.shape
    flat = np.moveaxis(z, axis, -1).reshape(-1, k)
    np.testing.assert_array_equal(np.moveaxis(p, axis, -1).reshape(-1, k), _at(1.5, k)(flat))


@pytest.mark.parametrize("axis", ["a", (1,), 1.0, 2])
def test_what_is_no_axis_is_refused(axis):
    z = np.zeros((4, 3))
    t = tepid.Temperature(1.5, "manual", samples=4, classes=3, implied_accuracy=0.5)
    for call in (t, t.threshold(z), t.prediction_sets(z)):
        with pytest.raises(tepid.InputError, match="class_axis must be an axis of logits, got"):
            call(z, class_axis=axis)


def test_many_rows_are_written_in_blocks(rng):
    z = rng.normal(size=(3000, 700)).astype(np.float32)
    p = _at(1.5, 700)(z)
    np.testing.assert_array_equal(p[2990:], _at(1.5, 700)(z[2990:]))
    z[2999, 3] = np.nan
    with pytest.raises(tepid.InputError, match="got nan for class 3 at row 2999"):
        _at(1.5, 700)(z)


def test_another_number_of_classes_is_refused():
    with pytest.raises(tepid.InputError, match="must have the 3 classes of the calibration, got 4"):
        _at(1.5, 3)(np.zeros((2, 4)))
    with pytest.raises(tepid.InputError, match="must have the 3 classes of the calibration, got 2"):
        _at(1.5, 3)(np.zeros((2, 1)))


def test_torch_tensors_give_tensors(network):
    torch = pytest.importorskip("torch")
    z = network[0][:50]
    p = _at(1.5, 12)(torch.from_numpy(z))
    assert isinstance(p, torch.Tensor)
    assert p.dtype == torch.float32
    np.testing.assert_array_equal(p.numpy(), _at(1.5, 12)(z))
    half = _at(1.5, 12)(torch.from_numpy(z).bfloat16())
    assert half.dtype == torch.float32
    meta = _at(1.5, 12)(torch.from_numpy(z).to("meta"))
    assert meta.device.type == "meta"
    assert meta.shape == (50, 12)
    with pytest.raises(tepid.InputError, match="must have the 12 classes"):
        _at(1.5, 12)(torch.zeros((3, 4), device="meta"))


WHOLE = {
    "interval": (1.2, 1.8),
    "verdict": "check",
    "reason": "It may help.",
    "next_step": "Label more rows.",
    "helps": 0.75,
    "evidence": {
        "logits": Contribution(1.3, (0.8, 2.5), 0.25),
        "labels": Contribution(1.6, (1.2, 1.9), 0.75),
    },
    "tension": ("labels",),
    "sensitivity": (1.0, 2.0),
    "warnings": ("a", "b"),
}


def test_a_saved_temperature_comes_back_whole(tmp_path):
    t = _at(1.5, 3, **WHOLE, groups={"a": _at(1.2, 3, **WHOLE)})
    t.save(tmp_path / "c.json")
    assert tepid.load(tmp_path / "c.json") == t
    assert float(tepid.load(tmp_path / "c.json")) == 1.5
    assert [p.name for p in tmp_path.iterdir()] == ["c.json"]
    stored = json.loads((tmp_path / "c.json").read_text())
    assert stored["format"] == 2
    assert stored["temperature"] == 1.5
    assert stored == json.loads(json.dumps(t.as_dict()))


def test_a_temperature_of_format_1_loads_without_a_verdict(tmp_path):
    t = tepid.load(FORMAT_1)
    assert (t.value, t.method, t.samples, t.classes) == (1.25, "few-labels", 25, 4)
    assert (t.interval, t.status, t.warnings) == ((1.0, 1.5), "ok", ("One.",))
    assert (t.verdict, t.reason, t.next_step, t.helps) == (None, "", "", None)
    assert (t.evidence, t.tension) == ({}, ())
    kept = t.groups["field"]
    assert (kept.value, kept.status, kept.verdict) == (1.0, "not-identified", None)
    t.save(tmp_path / "c.json")
    assert json.loads((tmp_path / "c.json").read_text())["format"] == 2
    assert tepid.load(tmp_path / "c.json") == t


def test_a_result_is_printed_in_five_lines():
    lines = str(_at(1.5, 3, **WHOLE)).splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "temperature", "verdict", "evidence", "implied accuracy", "next step",
    ]  # fmt: skip
    assert "T = 1.5 (95 % interval 1.2 to 1.8)" in lines[0]
    assert "check: It may help." in lines[1]
    assert "labels T = 1.6, weight 0.75" in lines[2]
    assert "Label more rows." in lines[4]
    assert len(str(_at(1.5, 3)).splitlines()) == 5


WRONG = {
    "temperature": [0, -1.0, "hot", None, True, float("inf"), float("nan"), 5e-309],
    "method": [3, None],
    "samples": [-1, 1.5, "many"],
    "classes": [1, None],
    "implied_accuracy": [1.5, -0.1, "x"],
    "status": ["fine", None],
    "interval": [[1.0], [1.0, -2.0], "wide", [1.0, 2.0, 3.0], [3, 1]],
    "sensitivity": [[0.0, 1.0]],
    "precision": [0, "high"],
    "warnings": ["text", [1]],
    "verdict": ["maybe", 1],
    "reason": [None],
    "next_step": [None, 3],
    "helps": [1.5, "likely"],
    "evidence": [None, [], {"labels": 1.2}, {"labels": {"value": 1.2, "weight": 0.5}}],
    "tension": ["labels", [1]],
    "format": [0, 3, None, "1", True, 2.0],
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in WRONG.items() for v in vs])
def test_a_wrong_field_is_named(tmp_path, name, value):
    path = tmp_path / "c.json"
    path.write_text(json.dumps(_at(1.5, 3).as_dict() | {name: value}))
    with pytest.raises(tepid.InputError, match=rf"c\.json must have .*{name}.*got"):
        tepid.load(path)


@pytest.mark.parametrize("name", [n for n in WRONG if n != "format"])
def test_a_missing_field_is_named(tmp_path, name):
    stored = _at(1.5, 3).as_dict()
    del stored[name]
    (tmp_path / "c.json").write_text(json.dumps(stored))
    with pytest.raises(tepid.InputError, match=f"a {name} that"):
        tepid.load(tmp_path / "c.json")


@pytest.mark.parametrize("text", ["", "{", "[1]", '"x"', "null", "\x00\xff"])
def test_another_file_is_no_calibration(tmp_path, text):
    (tmp_path / "c.json").write_text(text, encoding="latin-1")
    with pytest.raises(tepid.InputError, match=r"must (be a calibration|have calibration format)"):
        tepid.load(tmp_path / "c.json")


def test_a_group_of_another_number_of_classes_is_refused(tmp_path):
    _at(1.5, 3, groups={"a": _at(1.2, 4)}).save(tmp_path / "c.json")
    with pytest.raises(tepid.InputError, match=r"c\.json must have groups of 3 classes, got 4"):
        tepid.load(tmp_path / "c.json")


def test_a_damaged_calibration_is_refused_or_can_be_applied(tmp_path):
    rng = np.random.default_rng(2)
    path = tmp_path / "c.json"
    _at(1.5, 3, **WHOLE, groups={"a": _at(1.2, 3)}).save(path)
    whole = path.read_bytes()
    parts = [b"null", b"true", b"[]", b"{}", b"-", b"1e999", b"9" * 400, b'"', b"NaN", b"\xff"]
    for _ in range(400):
        place, length = int(rng.integers(len(whole))), int(rng.integers(6))
        path.write_bytes(whole[:place] + parts[rng.integers(len(parts))] + whole[place + length :])
        try:
            loaded = tepid.load(path)
        except tepid.InputError:
            continue
        loaded.save(path)
        assert tepid.load(path) == loaded
        if loaded.classes == 3:
            assert np.isfinite(loaded(-2 * np.eye(3))).all()
