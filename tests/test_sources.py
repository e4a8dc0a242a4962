"""Logits from arrays, files and functions, read as blocks; and blocks written to files."""

import gc
import os
import pickle
import re
import time
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tepid
from tepid.sources import files, open_column, open_source, write_blocks
from tests import strategies

SUFFIXES = ("npy", "npz", "csv")


@pytest.fixture(scope="module")
def made():
    """Float64 logits that float16 holds exactly, with labels."""
    rng = np.random.default_rng(5)
    posterior = rng.integers(-12, 13, size=(301, 4)) / 4
    labels = (posterior + rng.gumbel(size=posterior.shape)).argmax(axis=1)
    return 2 * posterior, labels


def _csv(path, z, *, header=None, delimiter=",", labels=None):
    rows = z.tolist() if labels is None else [[*r, y] for r, y in zip(z.tolist(), labels, strict=1)]
    lines = [delimiter.join(map(str, row)) for row in rows]
    path.write_text("\n".join([header, *lines] if header else lines) + "\n", encoding="utf-8")
    return path


def _text(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def _refusal(*args, **options):
    """The sentence with which a source that is read to its end is refused."""
    with pytest.raises(tepid.InputError) as caught:
        open_source(*args, **options).whole()
    return str(caught.value)


# --- arrays in files


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", ">f8", "i1", "i8", "?"])
def test_an_npy_file_is_its_array(dtype, order, made, tmp_path):
    z = np.asarray(made[0], dtype, order=order)
    np.save(tmp_path / "z.npy", z)
    for path in (tmp_path / "z.npy", str(tmp_path / "z.npy")):
        source = open_source(path)
        assert (source.rows, source.classes, source.name) == (301, 4, "z.npy")
        np.testing.assert_array_equal(source.whole(), z)
        assert float(tepid.from_labels(path, made[1])) == float(tepid.from_labels(z, made[1]))


def test_an_npy_file_is_memory_mapped(made, tmp_path):
    np.save(tmp_path / "z.npy", made[0])
    block = next(open_source(tmp_path / "z.npy").blocks(10))
    assert isinstance(block.logits, np.memmap)


def test_the_pages_of_a_memory_map_are_handed_back_behind_the_reader(monkeypatch):
    class Map:
        advised = 0

        def madvise(self, _):
            self.advised += 1

    class Mapped:
        _mmap = Map()

    blocks = [np.zeros(10), np.zeros(5), np.zeros(15), np.zeros(14)]
    monkeypatch.setattr(files, "_RESIDENT", 120)
    read = files.releasing(Mapped(), lambda _: iter(blocks))(7)
    seen = [(len(block), Mapped._mmap.advised) for block in read]
    assert seen == [(10, 0), (5, 0), (15, 1), (14, 2)]
    assert Mapped._mmap.advised == 3


def test_a_file_of_binary_logits_has_two_classes(rng, tmp_path):
    z = 3 * rng.normal(size=200)
    for name, array in (("flat", z), ("column", z[:, None])):
        np.save(tmp_path / f"{name}.npy", array)
        t = tepid.from_logits(tmp_path / f"{name}.npy")
        assert (t.samples, t.classes, float(t)) == (200, 2, float(tepid.from_logits(z)))
    t = tepid.from_logits(_csv(tmp_path / "z.csv", z[:, None]))
    assert (t.samples, t.classes, float(t)) == (200, 2, float(tepid.from_logits(z)))


def test_an_npz_file_has_members(made, tmp_path):
    z, y = made
    np.savez(tmp_path / "both.npz", logits=z, labels=y, other=-z)
    np.savez_compressed(tmp_path / "one.npz", anything=z)
    both = tmp_path / "both.npz"
    np.testing.assert_array_equal(open_source(both).whole(), z)
    np.testing.assert_array_equal(open_source(f"{both}#logits").whole(), z)
    np.testing.assert_array_equal(open_source(f"{both}#other").whole(), -z)
    np.testing.assert_array_equal(open_source(tmp_path / "one.npz").whole(), z)
    np.testing.assert_array_equal(open_column(both, "labels"), y)
    np.testing.assert_array_equal(open_column(f"{both}#labels", "labels"), y)
    known = float(tepid.from_labels(z, y))
    assert float(tepid.from_labels(both, both)) == known
    assert float(tepid.from_labels(f"{both}#logits", f"{both}#labels")) == known


def test_a_missing_member_lists_the_members(made, tmp_path):
    np.savez(tmp_path / "z.npz", scores=made[0], answers=made[1])
    np.savez(tmp_path / "none.npz")
    said = "z.npz must have a member 'logits', got scores, answers"
    assert _refusal(tmp_path / "z.npz") == said
    assert _refusal(f"{tmp_path}/z.npz#x") == "z.npz must have a member 'x', got scores, answers"
    assert _refusal(tmp_path / "none.npz") == "none.npz must have a member 'logits', got none"
    with pytest.raises(tepid.InputError, match="must have a member 'labels', got scores, answers"):
        open_column(tmp_path / "z.npz", "labels")


def test_an_npy_file_has_no_members(made, tmp_path):
    np.save(tmp_path / "z.npy", made[0])
    said = "z.npy must be a .npz archive to have a member, got #logits"
    assert _refusal(f"{tmp_path}/z.npy#logits") == said


def test_a_hash_in_a_file_s_own_name_is_no_member(made, tmp_path):
    np.save(tmp_path / "run#3.npy", made[0])
    np.testing.assert_array_equal(open_source(tmp_path / "run#3.npy").whole(), made[0])


def test_a_missing_file_is_named(tmp_path):
    for path in (tmp_path / "no.npy", tmp_path / "no.npz", tmp_path / "no.csv"):
        assert _refusal(path) == f"logits file must exist, got {path}"
    said = f"logits file must be a file, or a folder or pattern of files, got none in {tmp_path}"
    assert _refusal(tmp_path) == said
    assert _refusal(f"{tmp_path}/no.npz#x") == f"logits file must exist, got {tmp_path}/no.npz"
    with pytest.raises(tepid.InputError, match=r"^labels file must exist, got .*y\.npy$"):
        tepid.from_labels(np.eye(3), tmp_path / "y.npy")
    with pytest.raises(tepid.InputError, match=r"^sample_weight file must exist, got .*u\.npy$"):
        tepid.from_logits(np.eye(3), sample_weight=tmp_path / "u.npy")


def test_another_kind_of_file_is_refused_by_its_name(tmp_path):
    path = _text(tmp_path / "z.txt", "1,2\n")
    said = r"file must end in one of .npy, .npz, .csv, .parquet, .* and .pt, got z.txt$"
    assert re.match(f"logits {said}", _refusal(path))
    with pytest.raises(tepid.InputError, match=f"^labels {said}"):
        open_column(path, "labels")


def test_a_suffix_in_capitals_is_the_same(made, tmp_path):
    np.save(tmp_path / "z.npy", made[0])
    (tmp_path / "z.npy").rename(tmp_path / "Z.NPY")
    np.testing.assert_array_equal(open_source(tmp_path / "Z.NPY").whole(), made[0])


class _Touch:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return type(self.path).touch, (self.path,)


def test_nothing_is_ever_unpickled(tmp_path):
    trap, sprung = np.array([[_Touch(tmp_path / "sprung")]], object), tmp_path / "sprung"
    np.save(tmp_path / "a.npy", trap, allow_pickle=True)
    np.savez(tmp_path / "b.npz", logits=trap)
    (tmp_path / "c.npy").write_bytes(pickle.dumps(_Touch(sprung)))
    (tmp_path / "d.npz").write_bytes(pickle.dumps(_Touch(sprung)))
    for name, kind in (("a.npy", "array"), ("b.npz", "archive"), ("c.npy", "array"),
                       ("d.npz", "archive")):  # fmt: skip
        whole = f"a whole {name[1:]} {kind}"
        assert _refusal(tmp_path / name) == f"{name} must be {whole}, got pickled objects"
        with pytest.raises(tepid.InputError, match="pickled objects"):
            open_column(tmp_path / name, "labels")
    assert not sprung.exists()
    np.load(tmp_path / "a.npy", allow_pickle=True)
    assert sprung.exists()


@pytest.mark.parametrize("keep", [0, 3, 50, 127, 128, 1000, -1])
def test_a_truncated_npy_file_is_refused_by_its_name(keep, made, tmp_path):
    path = tmp_path / "z.npy"
    np.save(path, made[0])
    path.write_bytes(path.read_bytes()[:keep])
    assert _refusal(path).startswith("z.npy must be a whole .npy array, got ")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_truncated_npz_file_is_refused_by_its_name_and_closed(save, made, tmp_path):
    path = tmp_path / "z.npz"
    save(path, logits=made[0], labels=made[1])
    content = path.read_bytes()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for keep in (0, 3, 30, 500, len(content) // 2, len(content) - 1):
            path.write_bytes(content[:keep])
            assert _refusal(path).startswith("z.npz must be a whole .npz archive, got ")
        gc.collect()
    assert [str(w.message) for w in caught] == []


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_damaged_npz_file_is_refused_by_its_name(save, made, tmp_path):
    path = tmp_path / "z.npz"
    save(path, logits=np.round(made[0]))
    content = path.read_bytes()
    for place in range(200, len(content) - 200, len(content) // 20):
        damaged = content[:place] + bytes(8 * [255]) + content[place + 8 :]
        path.write_bytes(damaged)
        assert _refusal(path).startswith("z.npz must be a whole .npz archive, got a damaged file")


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_a_file_of_something_else_is_refused_by_its_name(suffix, tmp_path):
    path = _text(tmp_path / f"z.{suffix}", "these are no numbers at all\n")
    assert _refusal(path).startswith(f"z.{suffix} must be a whole .{suffix} a")


def test_a_file_with_the_other_s_suffix_is_read_or_refused(made, tmp_path):
    np.save(tmp_path / "z.npy", made[0])
    np.savez(tmp_path / "y.npz", logits=made[0])
    (tmp_path / "z.npy").rename(tmp_path / "z.npz")
    (tmp_path / "y.npz").rename(tmp_path / "y.npy")
    for name in ("z.npz", "y.npy"):
        try:
            read = open_source(tmp_path / name).whole()
        except tepid.InputError as error:
            read = made[0] if name in str(error) else str(error)
        np.testing.assert_array_equal(read, made[0])


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (np.zeros((3, 2), complex), "complex128"),
        (np.array([["a", "b"]]), "<U1"),
        (np.zeros(3, [("a", "<f4"), ("b", "<f4")]), "[('a', '<f4'), ('b', '<f4')]"),
    ],
)
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_a_file_of_what_is_no_number_is_refused(suffix, array, kind, tmp_path):
    path = tmp_path / f"z.{suffix}"
    (np.save if suffix == "npy" else np.savez)(path, array)
    with pytest.raises(tepid.InputError) as caught:
        tepid.from_logits(path)
    assert str(caught.value).endswith(f"must be numbers, got an array of {kind}")


def test_a_row_of_a_file_is_named_with_the_file(made, tmp_path):
    z = made[0].copy()
    z[123, 2] = np.nan
    np.save(tmp_path / "z.npy", z)
    np.savez(tmp_path / "z.npz", logits=z)
    _csv(tmp_path / "z.csv", z, header="a,b,c,d")
    for name in ("z.npy", "z.npz", "z.csv"):
        with pytest.raises(tepid.InputError) as caught:
            tepid.from_logits(tmp_path / name)
        must = "must be finite, or -inf for a masked class, got nan for class 2 at row 123"
        assert str(caught.value) == f"{name} {must}"


def test_files_without_rows_are_refused_by_their_name(tmp_path):
    np.save(tmp_path / "z.npy", np.zeros((0, 3)))
    np.savez(tmp_path / "z.npz", logits=np.zeros((0, 3)))
    _text(tmp_path / "z.csv", "a,b\n")
    _text(tmp_path / "empty.csv", "")
    for name in ("z.npy", "z.npz", "z.csv", "empty.csv"):
        with pytest.raises(
            tepid.InputError, match=f"^{name} must have at least one row, got none$"
        ):
            tepid.from_logits(tmp_path / name)


def test_a_file_without_classes_is_refused(tmp_path):
    np.save(tmp_path / "z.npy", np.zeros((3, 0)))
    with pytest.raises(tepid.InputError, match="must have at least two classes, got none"):
        tepid.from_logits(tmp_path / "z.npy")


# --- tables of text


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("header", [None, "a b c d", '"a" "b" "c" "d"'])
def test_a_csv_file_is_its_table(delimiter, header, made, tmp_path):
    head = header and header.replace(" ", delimiter)
    path = _csv(tmp_path / "z.csv", made[0], header=head, delimiter=delimiter)
    np.testing.assert_array_equal(open_source(path).whole(), made[0])
    assert float(tepid.from_labels(path, made[1])) == float(tepid.from_labels(*made))


@pytest.mark.parametrize("name", ["label", "labels", "Label"])
def test_a_column_of_labels_is_set_apart(name, made, tmp_path):
    z, y = made
    path = _csv(tmp_path / "z.csv", z, header=f"a,b,c,d,{name}", labels=y)
    np.testing.assert_array_equal(open_source(path).whole(), z)
    np.testing.assert_array_equal(open_column(path, "labels"), y)
    assert float(tepid.from_labels(path, path)) == float(tepid.from_labels(z, y))
    assert tepid.from_logits(path).classes == 4


@pytest.mark.parametrize(
    "text",
    [
        "0,1,2\n1.5,2,3\n4,5,6\n",
        ",a,b,c\n0,1.5,2,3\n1,4,5,6\n",
        ",0,1,2,label\n0,1.5,2,3,1\n1,4,5,6,0\n",
        "id,a,b,c\n17,1.5,2,3\n18,4,5,6\n",
        "a,b,c,Weight,group\n1.5,2,3,9,8\n4,5,6,9,8\n",
        "Unnamed: 0,a,b,c,label\n0,1.5,2,3,7\n1,4,5,6,7\n",
        "en,id,fr\n1.5,2,3\n4,5,6\n",
        "id,en,fr\n1.5,2,3\n4,5,6\n",
    ],
)
def test_a_table_with_counted_columns_or_an_index_is_read_without_them(text, tmp_path):
    path = _text(tmp_path / "z.csv", text)
    np.testing.assert_array_equal(open_source(path).whole(), [[1.5, 2, 3], [4, 5, 6]])


def test_a_column_is_named_like_a_member(made, tmp_path):
    for header in ('"a","b","truth","d"', "a,b,truth,d"):
        path = _csv(tmp_path / "z.csv", made[0], header=header)
        np.testing.assert_array_equal(open_column(f"{path}#truth", "labels"), made[0][:, 2])
    said = r"z.csv must have a column 'x', got a, b, truth, d"
    with pytest.raises(tepid.InputError, match=said):
        open_column(f"{path}#x", "labels")


def test_a_csv_file_of_one_column_is_a_column(made, tmp_path):
    for header in (None, "weight"):
        path = _csv(tmp_path / "u.csv", made[1][:, None], header=header)
        np.testing.assert_array_equal(open_column(path, "sample_weight"), made[1])


@pytest.mark.parametrize("header", ["id,label", "index,weight", "label"])
def test_a_table_that_has_no_logits_is_refused(header, tmp_path):
    path = _text(tmp_path / "z.csv", f"{header}\n17,1\n18,0\n")
    said = rf"^z.csv must have columns of logits, got {header.replace(',', ', ')}$"
    with pytest.raises(tepid.InputError, match=said):
        open_source(path)
    with pytest.raises(tepid.InputError, match=said):
        open_source(tmp_path)


@pytest.mark.parametrize(
    ("header", "role"),
    [
        ("id,weight", "sample_weight"),
        ("id,truth", "labels"),
        ("index,label", "labels"),
        ("id,group", "groups"),
    ],
)
def test_a_column_is_found_beside_the_one_that_numbers_the_rows(header, role, tmp_path):
    path = _text(tmp_path / "u.csv", f"{header}\n17,1\n18,0\n")
    np.testing.assert_array_equal(open_column(path, role), [1, 0])


@pytest.mark.parametrize(
    "text",
    [
        "1,2\n\n3,4\n5,6\n",
        "\n\n1,2\n3,4\n5,6\n\n\n",
        "1,2\n3,4\n\n\n\n\n\n\n5,6\n",
        "a,b\n\n1,2\n   \n3,4\n5,6",
        "\na,b\n1,2\n3,4\n5,6",
        "\n1;2\n3;4\n5;6\n",
        "1,2\r\n\r\n3,4\r\n5,6\r\n",
        "\ufeff1,2\n3,4\n5,6\n",
        " 1, 2\n3 ,4\n5,6e0\n",
    ],
)
@pytest.mark.parametrize("rows", [1, 100])
def test_blank_lines_and_spaces_say_nothing(text, rows, tmp_path):
    path = _text(tmp_path / "z.csv", text)
    blocks = [block.logits for block in open_source(path).blocks(rows)]
    np.testing.assert_array_equal(np.concatenate(blocks), [[1, 2], [3, 4], [5, 6]])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1,2\n3,x\n", "hold numbers, got 'x' at row 1"),
        ("a,b\n1,2\n3,\n", "hold numbers, got '' in column 'b' at row 1"),
        ("a,b\n1,2\n\n3,4\n1,2 3\n", "hold numbers, got '2 3' in column 'b' at row 2"),
        ("a,b,label\n1,2,0\n3,x,1\n", "hold numbers, got 'x' in column 'b' at row 1"),
        ("1,2\n3,1_0\n", "hold numbers, got '1_0' at row 1"),
        ("1,2\n3,4,5\n", "have 2 cells in every row, got 3 cells at row 1"),
        ("1,2\n3,4\n5\n", "have 2 cells in every row, got 1 cells at row 2"),
        ("a,b,label\n1,2,0\n3,4,1,9\n", "have 3 cells in every row, got 4 cells at row 1"),
        ("a,b,label\n1,2,0\n3,4\n", "have 3 cells in every row, got 2 cells at row 1"),
        ("a,b,c\n1,2\n3,4\n", "have 3 cells in every row, got 2 cells at row 0"),
        ("a,label,b\n1,0,2\n3,4\n", "have 3 cells in every row, got 2 cells at row 1"),
    ],
)
def test_a_bad_cell_is_named_with_its_row(text, said, tmp_path):
    path = _text(tmp_path / "z.csv", text)
    assert _refusal(path) == f"z.csv must {said}"


def test_the_row_of_a_bad_cell_is_counted_from_the_start(tmp_path):
    path = _text(tmp_path / "z.csv", "a,b\n" + 5 * "1,2\n" + "3,x\n")
    with pytest.raises(
        tepid.InputError, match=r"^z.csv must hold numbers, got 'x' in column 'b' at row 5$"
    ):
        list(open_source(path).blocks(2))


def test_a_row_that_is_ragged_where_a_block_begins_is_named(tmp_path):
    path = _text(tmp_path / "z.csv", "1,2,3\n1,2,3\n3,4\n3,4\n")
    with pytest.raises(tepid.InputError, match=r"z.csv must have 3 .* at row 2$"):
        list(open_source(path).blocks(2))


def test_a_table_that_is_no_text_is_refused_by_its_name(tmp_path):
    for content in (b"caf\xe9,b\n1,2\n", b"a,b\n1,2\n\xe9,2\n"):
        (tmp_path / "z.csv").write_bytes(content)
        assert _refusal(tmp_path / "z.csv").startswith("z.csv must ")


def test_infinities_and_nan_are_numbers_in_a_table(tmp_path):
    path = _text(tmp_path / "z.csv", "1,-inf,0\n2,-Infinity,1\n")
    t = tepid.from_labels(path, [0, 2])
    assert float(t) == float(tepid.from_labels([[1, -np.inf, 0], [2, -np.inf, 1]], [0, 2]))
    path = _text(tmp_path / "z.csv", "1,2\nnan,0\n")
    with pytest.raises(tepid.InputError, match="got nan for class 0 at row 1"):
        tepid.from_logits(path)


def test_a_class_axis_counts_for_every_file_or_is_refused(made, tmp_path):
    z = made[0].T
    np.save(tmp_path / "z.npy", z)
    np.savez(tmp_path / "z.npz", logits=z)
    _csv(tmp_path / "z.csv", z)
    for suffix in SUFFIXES:
        try:
            t = tepid.from_logits(tmp_path / f"z.{suffix}", class_axis=0)
        except tepid.InputError as error:
            assert "class_axis" in str(error)  # noqa: PT017  # either is right
        else:
            assert (t.samples, t.classes) == (301, 4)


def test_a_table_without_labels_does_not_stand_in_for_them(made, tmp_path):
    for header in (None, "a,b,c,d"):
        path = _csv(tmp_path / "z.csv", made[0], header=header)
        with pytest.raises(tepid.InputError, match=r"z.csv must have a (column|member) 'labels'"):
            open_column(path, "labels")


# --- functions, lists and iterators


def _cut(z, where):
    return np.split(z, where)


@given(data=st.data())
def test_the_blocks_of_a_function_are_the_whole(made, data):
    z, y = made
    blocks = _cut(z, data.draw(strategies.cuts(len(z))))
    rows = data.draw(st.sampled_from([1, 7, 64, 1000]))
    for given_as in (lambda: blocks, lambda: iter(blocks), blocks, tuple(blocks)):
        source = open_source(given_as, labels=y)
        read = list(source.blocks(rows))
        np.testing.assert_array_equal(np.concatenate([b.logits for b in read]), z)
        np.testing.assert_array_equal(np.concatenate([b.labels for b in read]), y)
        assert [b.start for b in read] == np.cumsum([0, *(len(b.logits) for b in read)])[
            :-1
        ].tolist()
        assert max(len(b.logits) for b in read) <= rows


def test_a_function_is_asked_for_its_blocks_afresh(made):
    calls = []

    def blocks():
        calls.append(1)
        yield from _cut(made[0], [0, 0, 17, 200, 301])

    t = tepid.from_logits(blocks)
    assert float(t) == pytest.approx(float(tepid.from_logits(made[0])), rel=1e-9)
    assert len(calls) >= 2


def test_blocks_may_be_of_different_types(made):
    z = made[0]
    blocks = [z[:50].astype(np.float32), z[50:90].tolist(), np.asfortranarray(z[90:])]
    t = tepid.from_logits(lambda: blocks)
    assert float(t) == pytest.approx(float(tepid.from_logits(z)), rel=1e-9)


def test_blocks_may_be_binary_or_have_a_class_axis(rng):
    z = 3 * rng.normal(size=90)
    t = tepid.from_logits(lambda: iter([z[:10, None], z[:0], z[10:, None]]))
    assert float(t) == pytest.approx(float(tepid.from_logits(z)), rel=1e-9)
    with pytest.raises(tepid.InputError, match=r"blocks of two .* got a block of shape \(4,\)$"):
        tepid.from_logits(lambda: iter(np.eye(4)))
    grid = 3 * rng.normal(size=(6, 4, 5))
    t = tepid.from_logits(lambda: iter([grid[:1], grid[1:]]), class_axis=1)
    assert float(t) == pytest.approx(float(tepid.from_logits(grid, class_axis=1)), rel=1e-9)


def test_a_block_with_another_number_of_classes_is_named():
    blocks = [np.zeros((3, 4)), np.zeros((2, 4)), np.zeros((2, 5))]
    said = "must have 4 classes in every block, got 5 in the block that starts at row 5"
    assert _refusal(lambda: blocks) == f"logits {said}"
    assert _refusal(blocks) == f"logits {said}"
    assert _refusal(iter(blocks)) == f"logits {said}"


def test_an_empty_block_may_have_any_shape():
    blocks = [np.zeros((0, 7)), np.ones((2, 3)), np.zeros(0)]
    assert open_source(lambda: blocks).whole().shape == (2, 3)


@pytest.mark.parametrize("blocks", [[], [np.zeros((0, 3))], 3 * [np.zeros((0, 3))]])
def test_a_function_without_rows_is_refused(blocks):
    assert _refusal(lambda: blocks) == "logits must have at least one row, got none"
    assert _refusal(iter(blocks)) == "logits must have at least one row, got none"


@pytest.mark.parametrize("value", [3.0, None])
def test_a_function_that_yields_nothing_is_named_with_what_it_gives(value):
    said = "logits must be a function that yields blocks, got one giving"
    assert _refusal(lambda: value) == f"{said} {type(value).__name__}"


def test_a_function_that_gives_an_array_gives_one_block_or_is_refused(made):
    """Its rows are not blocks of binary logits."""
    try:
        t = tepid.from_logits(lambda: made[0])
    except tepid.InputError as error:
        assert "function" in str(error)  # noqa: PT017  # either is right
    else:
        assert (t.samples, t.classes) == (301, 4)


def test_a_function_that_gives_the_same_iterator_again_is_refused(made):
    spent = iter([made[0]])
    with pytest.raises(tepid.InputError, match="afresh"):
        tepid.from_logits(lambda: spent)


def test_a_bad_row_is_counted_over_the_blocks_of_a_function():
    blocks = [np.zeros((3, 2)), np.zeros((0, 2)), np.array([[0.0, 1.0], [np.nan, 0.0]])]
    with pytest.raises(tepid.InputError, match=r"^logits must .* got nan for class 0 at row 4$"):
        tepid.from_logits(lambda: blocks)


def test_what_a_function_raises_comes_through():
    def blocks():
        yield np.eye(3)
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError, match="the disk is gone"):
        tepid.from_logits(blocks)


@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_a_one_shot_iterator_is_read_once_to_the_precision_it_states(blocks, made):
    z, y = made
    parts = np.array_split(z, blocks)
    for once, again in (
        (tepid.from_labels(iter(parts), y), tepid.from_labels(z, y)),
        (tepid.from_labels((part for part in parts), y), tepid.from_labels(z, y)),
        (tepid.from_accuracy(iter(parts), 0.7), tepid.from_accuracy(z, 0.7)),
    ):
        assert once.precision > again.precision
        assert abs(once.value / again.value - 1) <= once.precision
        assert (once.samples, once.classes, once.status) == (301, 4, "ok")


def test_uts_must_read_its_logits_more_than_once(made):
    said = (
        "logits must be readable more than once, got an iterator; "
        "pass a function that yields the blocks afresh"
    )
    for once in (iter([made[0]]), (block for block in [made[0]])):
        with pytest.raises(tepid.InputError) as caught:
            tepid.from_logits(once)
        assert str(caught.value) == said


# --- what stands beside the logits


@pytest.mark.parametrize("name", ["labels", "sample_weight"])
@pytest.mark.parametrize("n", [0, 100, 300, 302])
@pytest.mark.parametrize("kind", ["array", "function", "iterator", "file"])
def test_a_column_of_the_wrong_length_is_named_with_both_lengths(name, n, kind, made, tmp_path):
    z = made[0]
    np.save(tmp_path / "z.npy", z)
    logits = {
        "array": z,
        "function": lambda: np.array_split(z, 3),
        "iterator": iter(np.array_split(z, 3)),
        "file": tmp_path / "z.npy",
    }[kind]
    columns = {"labels": np.zeros(301, int), "sample_weight": np.ones(301)}
    columns[name] = np.zeros(n, int)
    with pytest.raises(tepid.InputError) as caught:
        tepid.from_labels(logits, columns["labels"], sample_weight=columns["sample_weight"])
    must = f"{name} must have one entry for each of the"
    known = kind in ("array", "file") or n > 301
    if known:
        assert str(caught.value) == f"{must} 301 rows, got {n}"
    else:
        assert str(caught.value).startswith(must)
        assert str(caught.value).endswith(f"rows, got {n}")


def test_columns_come_from_files_too(made, rng, tmp_path):
    z, y = made
    u = rng.random(301)
    np.save(tmp_path / "y.npy", y)
    np.savez(tmp_path / "u.npz", sample_weight=u, other=y)
    _csv(tmp_path / "y.csv", y[:, None])
    known = float(tepid.from_labels(z, y, sample_weight=u))
    for labels in ("y.npy", "y.csv"):
        t = tepid.from_labels(z, tmp_path / labels, sample_weight=tmp_path / "u.npz")
        assert float(t) == known


def test_a_source_brings_its_own_labels_and_weights(made, rng):
    z, y = made
    u = rng.random(301)
    source = open_source(z, labels=y, sample_weight=u)
    assert float(tepid.from_labels(source)) == float(tepid.from_labels(z, y, sample_weight=u))
    assert float(tepid.from_logits(source)) == float(tepid.from_logits(z, sample_weight=u))
    assert float(tepid.from_labels(source, (y + 1) % 4)) != float(tepid.from_labels(source))


def test_probabilities_are_taken_by_their_logarithm_where_the_caller_says_so(made, tmp_path):
    p = np.exp(made[0]) / np.exp(made[0]).sum(axis=1, keepdims=True)
    np.save(tmp_path / "p.npy", p)
    for given_as in (p, tmp_path / "p.npy", lambda: np.array_split(p, 3)):
        t = tepid.from_logits(open_source(given_as, probabilities=True))
        assert float(t) == pytest.approx(float(tepid.from_logits(made[0])), rel=1e-6)


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_binary_probabilities_are_those_of_class_one(shape, rng):
    z = 3 * rng.normal(size=200)
    p = (1 / (1 + np.exp(-z))).reshape(shape)
    t = tepid.from_logits(open_source(p, probabilities=True))
    assert float(t) == pytest.approx(float(tepid.from_logits(z)), rel=1e-6)


def test_a_probability_that_is_none_is_named_with_its_row():
    p = np.full((200, 2), 0.5)
    p[150, 1] = 0.75
    source = open_source(lambda: np.array_split(p, 3), probabilities=True)
    said = "probabilities must sum to one over the classes, got a sum of 1.25 at row 150"
    with pytest.raises(tepid.InputError, match=f"^{said}$"):
        tepid.from_logits(source)


# --- halves and other shapes


@given(data=st.data())
def test_halves_are_the_even_and_the_odd_rows_whatever_the_blocks(made, data):
    z = made[0]
    u = np.arange(301.0)
    blocks = _cut(z, data.draw(strategies.cuts(len(z))))
    rows = data.draw(st.sampled_from([1, 2, 3, 64, 1000]))
    for given_as in (z, lambda: blocks):
        source = open_source(given_as, sample_weight=u, labels=made[1])
        for parity in (0, 1):
            read = [b.part(b.half(parity)) for b in source.blocks(rows)]
            # A half of a part is a half of the whole.
            again = [b.part(np.arange(len(b.logits))[::2]) for b in source.blocks(2)]
            assert all(len(b.half(0)) + len(b.half(1)) == len(b.logits) for b in again)
            np.testing.assert_array_equal(np.concatenate([b.logits for b in read]), z[parity::2])
            np.testing.assert_array_equal(np.concatenate([b.weight for b in read]), u[parity::2])
            np.testing.assert_array_equal(
                np.concatenate([b.labels for b in read]), made[1][parity::2]
            )


@pytest.mark.parametrize("shape", [(7, 4, 43), (1, 4, 301), (301, 4, 1), (7, 4, 1, 43)])
def test_segmentation_arrays_equal_their_flattened_rows(shape, made, rng):
    z, y = made
    u = rng.random(301)
    grid = np.moveaxis(z.reshape(shape[0], *shape[2:], 4), -1, 1)
    assert grid.shape == shape
    labels, weight = y.reshape(shape[0], *shape[2:]), u.reshape(shape[0], *shape[2:])
    for rows in (1, 10, 50, 1000):
        source = open_source(grid, labels=labels, class_axis=1)
        assert (source.rows, source.classes) == (301, 4)
        read = list(source.blocks(rows))
        np.testing.assert_array_equal(np.concatenate([b.logits for b in read]), z)
        assert max(len(b.logits) for b in read) <= rows
    mine = tepid.from_labels(grid, labels, sample_weight=weight, class_axis=1)
    assert float(mine) == pytest.approx(float(tepid.from_labels(z, y, sample_weight=u)), rel=1e-9)
    assert float(tepid.from_logits(grid, class_axis=1)) == pytest.approx(
        float(tepid.from_logits(z)), rel=1e-9
    )
    assert (mine.samples, mine.classes) == (301, 4)


def test_segmentation_files_equal_their_flattened_rows(made, tmp_path):
    np.save(tmp_path / "z.npy", np.moveaxis(made[0].reshape(7, 43, 4), -1, 1))
    t = tepid.from_logits(tmp_path / "z.npy", class_axis=1)
    assert float(t) == pytest.approx(float(tepid.from_logits(made[0])), rel=1e-9)


# --- blocks into files


def _read(path):
    if path.suffix == ".csv":
        return np.loadtxt(path, delimiter=",", ndmin=2)
    if path.suffix == ".npz":
        with np.load(path) as archive:
            return archive["probabilities"]
    return np.load(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("where", [[], [1], [0, 0, 5, 5, 300, 301], [301]])
def test_written_blocks_are_the_whole(suffix, dtype, where, made, tmp_path):
    z = made[0].astype(dtype)
    path = tmp_path / f"p.{suffix}"
    assert write_blocks(path, iter(_cut(z, where))) == 301
    written = _read(path)
    np.testing.assert_array_equal(written, z)
    assert suffix == "csv" or written.dtype == dtype
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_written_blocks_can_be_read_as_a_source(suffix, rng, tmp_path):
    p = rng.dirichlet(np.ones(3), size=100).astype(np.float32)
    path = tmp_path / f"p.{suffix}"
    write_blocks(path, iter([np.asfortranarray(p[:40]), p[40:]]))
    t = tepid.from_logits(open_source(path, probabilities=True))
    assert float(t) == pytest.approx(float(tepid.from_logits(tepid.logits_of(p))), rel=1e-5)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_crash_while_writing_leaves_the_old_file_whole(suffix, made, tmp_path):
    path = tmp_path / f"p.{suffix}"
    write_blocks(path, iter([made[0][:20]]))

    def torn():
        yield made[0]
        raise OSError(28, "no space left")

    with pytest.raises(OSError, match="no space left"):
        write_blocks(path, torn())
    np.testing.assert_array_equal(_read(path), made[0][:20])
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    path.unlink()
    with pytest.raises(OSError, match="no space left"):
        write_blocks(path, torn())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_blocks_write_no_file(suffix, tmp_path):
    with pytest.raises(tepid.InputError, match="at least one row"):
        write_blocks(tmp_path / f"p.{suffix}", iter([]))
    assert list(tmp_path.iterdir()) == []


def test_another_kind_of_output_is_refused_by_its_name(made, tmp_path):
    with pytest.raises(
        tepid.InputError, match=r"^output must end in .npy, .npz, .csv or .parquet, got p.txt$"
    ):
        write_blocks(tmp_path / "p.txt", iter([made[0]]))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_no_ordinary_file_is_not_replaced(suffix, made, tmp_path):
    path = tmp_path / f"p.{suffix}"
    os.mkfifo(path)
    with pytest.raises(tepid.InputError, match="must be a file"):
        write_blocks(path, iter([made[0]]))
    assert path.is_fifo()
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_headers_are_parsed_one_at_a_time(tmp_path, monkeypatch):
    # CPython 3.11 now and then raises SystemError where two threads parse Python at once.
    opened, inside, most = np.lib.format.open_memmap, [], []

    def watched(*args, **options):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.001)
        inside.pop()
        return opened(*args, **options)

    monkeypatch.setattr(np.lib.format, "open_memmap", watched)
    for number in range(20):
        np.save(tmp_path / f"{number}.npy", np.eye(3))
    assert open_source(tmp_path).rows == 60
    assert len(most) == 20
    assert max(most) == 1
