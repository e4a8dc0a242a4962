"""What was kept is what comes back, and nothing else is ever built."""

import json
import pathlib
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tepid
from tepid import records
from tepid.methods.passes import Both

plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
trees = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner).map(tuple)
        | st.dictionaries(st.none() | st.text(), inner)
        | st.tuples(inner, inner).map(lambda pair: Both(*pair))
    ),
    max_leaves=12,
)


@given(trees)
def test_a_tree_comes_back_as_it_was(value):
    assert records.unpacked(records.packed(value)) == value


@given(trees)
def test_equal_values_have_equal_bytes(value):
    again = records.unpacked(records.packed(value))
    assert records.packed(again) == records.packed(value)


@pytest.mark.parametrize("array", [np.arange(6.0).reshape(2, 3), np.array(["a", "bc"]), np.int8(3)])
def test_arrays_keep_their_type_and_shape(array):
    again = records.unpacked(records.packed(Both(array, ())))
    assert again.first.dtype == array.dtype
    np.testing.assert_array_equal(again.first, array)


def test_one_digit_changes_the_digest():
    assert records.digest((1.0, "a")) != records.digest((1.0, "b"))
    assert records.digest((1.0, "a")) == records.digest((1.0, "a"))


def test_what_is_not_of_tepid_is_not_kept():
    with pytest.raises(TypeError, match=r"a \w*Path is no record"):
        records.packed(pathlib.Path("x"))


def _forged(path, tree):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tree.json", json.dumps({"format": 1, "value": tree}))


@pytest.mark.parametrize(
    "kind",
    [
        "os:system",
        "tepid.records:load",
        "subprocess:Popen",
        "tepid.nothing:X",
        "tepid.curve:np.sum",
    ],
)
def test_a_forged_file_builds_nothing(tmp_path, kind):
    _forged(tmp_path / "f", {"kind": kind, "fields": {}})
    with pytest.raises(tepid.InputError, match="saved by tepid"):
        records.load(tmp_path / "f", Both)


def test_pickled_arrays_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "f", "w") as archive:
        archive.writestr(
            "tree.json", json.dumps({"format": 1, "value": {"array": 0, "scalar": False}})
        )
        with archive.open("0.npy", "w") as member:
            np.lib.format.write_array(member, np.array([{}]), allow_pickle=True)
    with pytest.raises(tepid.InputError, match="saved by tepid"):
        records.load(tmp_path / "f", np.ndarray)


def test_another_format_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "f", "w") as archive:
        archive.writestr("tree.json", json.dumps({"format": 2, "value": 1}))
    with pytest.raises(tepid.InputError, match="format 2, not 1"):
        records.load(tmp_path / "f", int)
