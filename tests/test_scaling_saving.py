"""Saved calibrators come back to the last bit, or are refused; see test_store.py for damage."""

import dataclasses
import io
import json
import zipfile

import numpy as np
import pytest

import tepid
from tepid import scaling
from tests.made import drifted

METHODS = (
    "vector",
    "matrix",
    "dirichlet",
    "histogram",
    "isotonic",
    "bbq",
    "ensemble",
    "beta",
)


@pytest.fixture(scope="module")
def fitted():
    """Each calibrator on the same rows."""
    z, y = drifted(600, 3)
    return {method: getattr(scaling, method)(z, y) for method in METHODS}


def _members(calibrator, path):
    calibrator.save(path)
    with np.load(path) as archive:
        members = dict(archive)
    return json.loads(members.pop("header.json")), members


def _write(path, header, members):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(header))
        for name, array in members.items():
            file = io.BytesIO()
            np.save(file, array)
            archive.writestr(f"{name}.npy", file.getvalue())


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_saved_calibrator_comes_back_to_the_last_bit(method, fitted, tmp_path):
    path = tmp_path / "c.npz"
    c = dataclasses.replace(fitted[method], warnings=("a", "b"))
    c.save(path)
    again = scaling.load(path)
    assert type(again) is type(c)
    assert [p.name for p in tmp_path.iterdir()] == ["c.npz"]
    for field in dataclasses.fields(c):
        np.testing.assert_array_equal(getattr(again, field.name), getattr(c, field.name))
        assert type(getattr(again, field.name)) is type(getattr(c, field.name))
    z = drifted(100, 3, seed=9)[0]
    np.testing.assert_array_equal(again(z), c(z))
    assert again.keeps_argmax == c.keeps_argmax


def test_the_header_is_json_beside_plain_arrays(fitted, tmp_path):
    header, members = _members(fitted["matrix"], tmp_path / "c.npz")
    assert header["kind"] == "Affine"
    assert header["features"] == "logits"
    assert sorted(members) == ["bias", "intercepts", "off_diagonal", "weight"]


COMMON = {
    "method": [3, None],
    "samples": [-1, 1.5, "many", True],
    "classes": [1, None, 4, 3.0, 10**30],
    "warnings": ["text", [1], None],
}
WRONG = {
    "matrix": {
        "features": ["votes", None],
        "off_diagonal": [np.array(-1.0), np.array(np.nan), np.array(np.inf), np.ones(2), 1.0],
        "intercepts": [np.array(-1.0), None],
        "weight": [np.ones(2), np.ones((3, 2)), np.full(3, np.nan), 1.0],
        "bias": [np.ones(4), np.full(3, np.inf), np.ones(3, np.int64)],
    },
    "ensemble": {
        "temperature": [np.array(0.0), np.array(-1.0), "hot", np.array(np.inf)],
        "weights": [np.ones(3), np.array([1.5, -0.5, 0.0]), np.array([0.5, 0.5])],
    },
    "histogram": {
        "shape": ["curves", None],
        "starts": [np.array([0, 15, 30]), np.array([1, 15, 30, 45]), np.array([0, 20, 15, 45])],
        "knots": [np.zeros(45), np.linspace(1, 0, 45), np.linspace(0, 1, 44), np.full(45, np.nan)],
        "values": [np.zeros(44), np.full(45, 1.5), np.full(45, np.nan)],
    },
    "isotonic": {
        "starts": [np.array([0, 0, 1, 2]), np.array([0.0, 1.0, 2.0, 3.0])],
        "knots": [np.zeros(3)],
        "values": [np.full(3, 2.0)],
    },
    "beta": {
        "a": [np.array([1.0, -1.0, 1.0]), np.ones(2)],
        "b": [np.full(3, -0.1)],
        "c": [np.full(3, np.nan), "c"],
    },
}
CASES = [("vector", name, value) for name, values in COMMON.items() for value in values]
CASES += [(m, name, v) for m, fields in WRONG.items() for name, vs in fields.items() for v in vs]


@pytest.mark.parametrize(("method", "name", "value"), CASES)
def test_a_wrong_field_is_named(method, name, value, fitted, tmp_path):
    path = tmp_path / "c.npz"
    header, members = _members(fitted[method], path)
    header.pop(name, None)
    members.pop(name, None)
    (members if isinstance(value, np.ndarray) else header)[name] = value
    _write(path, header, members)
    # Another number of classes is noticed by the first array that does not fit it.
    named = "weight" if name == "classes" and value in (4, 10**30) else name
    kind = type(fitted[method]).__name__
    with pytest.raises(tepid.InputError, match=rf"c\.npz is not a valid {kind} file: .*{named}"):
        scaling.load(path)


@pytest.mark.parametrize("method", METHODS)
def test_a_missing_or_additional_field_is_named(method, fitted, tmp_path):
    path = tmp_path / "c.npz"
    header, members = _members(fitted[method], path)
    for name in header.keys() - {"format", "kind"}:
        _write(path, {k: v for k, v in header.items() if k != name}, members)
        with pytest.raises(tepid.InputError, match=f"got a mismatch in .'{name}'"):
            scaling.load(path)
    for name in members:
        _write(path, header, {k: v for k, v in members.items() if k != name})
        with pytest.raises(tepid.InputError, match=f"got a mismatch in .'{name}'"):
            scaling.load(path)
    _write(path, header | {"extra": 1}, members)
    with pytest.raises(tepid.InputError, match=r"got a mismatch in \['extra'\]"):
        scaling.load(path)
    name = next(iter(members))
    _write(path, header | {name: 1}, members)
    with pytest.raises(tepid.InputError, match=rf"got a mismatch in \['{name}'\]"):
        scaling.load(path)
