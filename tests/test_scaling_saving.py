"""Calibrators on disk: back to the last bit, or one sentence."""

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
    return json.loads(str(members.pop("header"))), members


def _write(path, header, members):
    np.savez(path, header=np.array(json.dumps(header)), **members)


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


def test_a_crash_leaves_the_old_file_whole(fitted, tmp_path, monkeypatch):
    path = tmp_path / "c.npz"
    fitted["vector"].save(path)
    before = path.read_bytes()
    monkeypatch.setattr(np, "savez", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fitted["beta"].save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["c.npz"]


def test_the_header_is_json_beside_plain_arrays(fitted, tmp_path):
    header, members = _members(fitted["matrix"], tmp_path / "c.npz")
    assert header["format"] == 1
    assert header["kind"] == "Affine"
    assert header["features"] == "logits"
    assert sorted(members) == ["bias", "weight"]


COMMON = {
    "format": [2, None, "1", True],
    "kind": ["Magic", None, 3, ["Affine"]],
    "method": [3, None],
    "samples": [-1, 1.5, "many", True],
    "classes": [1, None, 4, 3.0, 10**30],
    "warnings": ["text", [1], None],
}
WRONG = {
    "matrix": {
        "features": ["votes", None],
        "off_diagonal": [-1, "x", float("nan"), float("inf")],
        "intercepts": [-1, None],
        "weight": [np.ones(2), np.ones((3, 2)), np.ones(3, np.float32), np.full(3, np.nan), 1.0],
        "bias": [np.ones(4), np.full(3, np.inf), np.array(["a", "b", "c"])],
    },
    "ensemble": {
        "temperature": [0, -1.0, "hot", float("inf")],
        "weights": [np.ones(3), np.array([1.5, -0.5, 0.0]), np.array([0.5, 0.5])],
    },
    "histogram": {
        "starts": [np.array([0, 14, 28]), np.array([1, 14, 28, 42]), np.array([0, 20, 14, 42])],
        "edges": [np.zeros(42), np.linspace(1, 0, 42), np.linspace(0, 1, 41), np.full(42, np.nan)],
        "values": [np.zeros(42), np.full(45, 1.5), np.full(45, np.nan)],
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
    (members if isinstance(value, np.ndarray) else header)[name] = value
    if not isinstance(value, np.ndarray):
        members.pop(name, None)
    else:
        header.pop(name, None)
    _write(path, header, members)
    # Another number of classes is noticed by the first array that does not fit it.
    named = "weight" if name == "classes" and value in (4, 10**30) else name
    with pytest.raises(tepid.InputError, match=rf"c\.npz must (have|hold) .*{named}.*got"):
        scaling.load(path)


@pytest.mark.parametrize("method", METHODS)
def test_a_missing_or_additional_field_is_named(method, fitted, tmp_path):
    path = tmp_path / "c.npz"
    header, members = _members(fitted[method], path)
    for name in header.keys() - {"tepid", "format", "kind"}:
        _write(path, {k: v for k, v in header.items() if k != name}, members)
        with pytest.raises(tepid.InputError, match=f"a {name} that"):
            scaling.load(path)
    for name in members:
        _write(path, header, {k: v for k, v in members.items() if k != name})
        with pytest.raises(tepid.InputError, match=f"a {name} that"):
            scaling.load(path)
    _write(path, header | {"extra": 1}, members)
    with pytest.raises(tepid.InputError, match=r"got \['extra'\] too"):
        scaling.load(path)
    name = next(iter(members))
    _write(path, header | {name: 1}, members)
    with pytest.raises(tepid.InputError, match="every field once"):
        scaling.load(path)


def _archive(header=None, compression=zipfile.ZIP_STORED, **members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in ({"header.npy": header} | members).items():
            if content is not None:
                archive.writestr(name, content)
    return file.getvalue()


def _npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


HOSTILE = {
    "empty": b"",
    "text": b"not a zip",
    "half a zip": b"PK\x03\x04" + b"\x00" * 40,
    "no header": _archive(**{"a.npy": _npy(np.ones(3))}),
    "no json": _archive(_npy(np.array("{"))),
    "a list": _archive(_npy(np.array("[1]"))),
    "deep": _archive(_npy(np.array("[" * 100_000))),
    "no array": _archive(b"header"),
    "compressed": _archive(_npy(np.array("{}")), zipfile.ZIP_DEFLATED),
    "pickled": _archive(
        b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(117)
        + b"\ncos\nsystem\n(S'exit 1'\ntR."
    ),
    "vast": _archive(
        b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': '<f8', 'fortran_order': False, 'shape': (10**15,), }".ljust(117)
        + b"\n"
    ),
    "vast number": _archive(
        b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999999,), }".ljust(117)
        + b"\n"
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_another_file_is_no_calibrator(name, tmp_path):
    path = tmp_path / "c.npz"
    path.write_bytes(HOSTILE[name])
    with pytest.raises(tepid.InputError, match=r"^.*c\.npz must be a calibrator saved by tepid"):
        scaling.load(path)


def test_a_file_cut_anywhere_is_no_calibrator(fitted, tmp_path):
    path = tmp_path / "c.npz"
    fitted["beta"].save(path)
    whole = path.read_bytes()
    for stop in range(0, len(whole), 37):
        path.write_bytes(whole[:stop])
        with pytest.raises(tepid.InputError):
            scaling.load(path)


def test_a_file_that_is_not_there_is_said_by_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        scaling.load(tmp_path / "none.npz")
