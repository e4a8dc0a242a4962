"""Sources over arrays, CSV text, functions and iterators; batches written to files."""

import os
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tepid
from tepid.sources import open_column, open_source, write_batches
from tests import strategies
from tests.needs import needed

SUFFIXES = ("npy", "npz", "csv", "parquet")


@pytest.fixture(scope="module")
def made():
    """Float64 logits that float16 holds exactly, with labels."""
    rng = np.random.default_rng(5)
    posterior = rng.integers(-12, 13, size=(301, 4)) / 4
    labels = (posterior + rng.gumbel(size=posterior.shape)).argmax(axis=1)
    return 2 * posterior, labels


def _csv(path, z, *, header=None, delimiter=","):
    lines = [delimiter.join(map(str, row)) for row in z.tolist()]
    return _text(path, "\n".join([header, *lines] if header else lines) + "\n")


def _text(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def _refusal(*args, **options):
    """The message of the error when a source is opened and read to its end."""
    with pytest.raises(tepid.InputError) as caught:
        list(open_source(*args, **options).batches(64))
    return str(caught.value)


def _close(t, known, rel=1e-9):
    assert t.value == pytest.approx(known.value, rel=rel)


# --- arrays in files


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", ">f8", "i1", "i8", "u2", "?"])
def test_an_npy_file_is_its_array(dtype, order, made, tmp_path):
    z = np.asarray(made[0] > 0 if dtype == "?" else made[0] + 12, dtype, order=order)
    np.save(tmp_path / "z.npy", z)
    source = open_source(str(tmp_path / "z.npy"))
    assert (source.rows, source.classes, source.shape) == (301, 4, (301,))
    assert (source.name, source.binary, source.repeatable) == ("z.npy", False, True)
    whole = source.whole()
    np.testing.assert_array_equal(whole.logits, z)
    assert whole.logits.dtype == z.dtype
    assert (
        tepid.temperature_scaling(source, made[1]).value
        == tepid.temperature_scaling(z, made[1]).value
    )


def test_an_npz_file_has_members(made, tmp_path):
    z, y = made
    both, one = tmp_path / "both.npz", tmp_path / "one.npz"
    np.savez(both, logits=z, labels=y, other=-z)
    np.savez_compressed(one, anything=z)
    for path, known in ((both, z), (f"{both}#logits", z), (f"{both}#other", -z), (one, z)):
        np.testing.assert_array_equal(open_source(path).whole().logits, known)
    known = tepid.temperature_scaling(z, y).value
    for labels in (both, f"{both}#labels", "labels"):  # of a file of labels, the member `labels`
        assert tepid.temperature_scaling(both, labels).value == known
    np.savez(tmp_path / "z.npz", scores=z, answers=y)
    got = "or name one after #, got scores, answers"
    assert _refusal(tmp_path / "z.npz") == f"z.npz must have a member 'logits', {got}"
    with pytest.raises(tepid.InputError, match=rf"^z\.npz must have a member 'labels', {got}$"):
        open_column(tmp_path / "z.npz", "labels")
    np.save(tmp_path / "z.npy", z)
    said = "z.npy must be an archive such as .npz to have a member, got 'logits'"
    assert _refusal(f"{tmp_path}/z.npy#logits") == said
    with pytest.raises(tepid.InputError, match=r"^labels must name a member of z\.npy"):
        open_source(tmp_path / "z.npy", labels="y")


@pytest.mark.parametrize("name", ["no.npy", "no.npz", "no.csv", "no.parquet"])
def test_a_missing_file_is_named(name, tmp_path):
    path = tmp_path / name
    assert _refusal(path) == f"logits file must exist, got {path}"
    assert _refusal(f"{path}#x") == f"logits file must exist, got {path}"
    for argument in ("labels", "sample_weight", "groups"):
        said = f"{argument} file must exist, got {path}"
        assert _refusal(np.eye(3), **{argument: path}) == said
        assert _refusal(np.eye(3), **{argument: str(path)}) == said


def test_what_is_no_file_of_data_is_refused(tmp_path):
    said = "logits file must be a file, or a folder or glob with files, got"
    assert _refusal(tmp_path) == f"{said} {tmp_path}"
    assert _refusal(f"{tmp_path}/*.npy") == f"{said} {tmp_path}/*.npy"
    path = _text(tmp_path / "z.txt", "1,2\n")
    said = r"file must end in one of .npy, .npz, .csv, .parquet, .* and .jsonl, got z.txt$"
    assert re.match(f"logits {said}", _refusal(path))
    with pytest.raises(tepid.InputError, match=f"^labels {said}"):
        open_column(path, "labels")


# --- CSV


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("header", [None, "z0 z1 z2 z3", '"z0" "z1" "z2" "z3"'])
def test_a_csv_file_is_its_table(delimiter, header, made, tmp_path):
    head = header and header.replace(" ", delimiter)
    z = np.where(np.arange(4) == (made[1][:, None] + 1) % 4, -np.inf, made[0])
    path = _csv(tmp_path / "z.csv", z, header=head, delimiter=delimiter)
    np.testing.assert_array_equal(open_source(path).whole().logits, z)
    assert _refusal(path, class_axis=0) == "class_axis must be left out for a table, got 0"
    _close(tepid.temperature_scaling(path, made[1]), tepid.temperature_scaling(z, made[1]))


@pytest.mark.parametrize(
    "text",
    [
        "1,2\n\n3,4\n5,6\n",
        "\n\n1,2\n3,4\n5,6\n\n\n",
        "1,2\n3,4\n\n\n\n\n\n\n5,6\n",
        "z0,z1\n\n1,2\n   \n3,4\n5,6",
        "\n1;2\n3;4\n5;6\n",
        "z0,z1\r\n1,2\r\n\r\n3,4\r\n5,6\r\n",
        "\ufeffz0,z1\n1,2\n3,4\n5,6\n",
        " z0, z1\n 1, 2\n3 ,4\n5,6e0\n",
        ",z1,z0\n0,2,1\n1,4,3\n2,6,5\n",
        'z0,note,z1\n1,"a, b",2\n3,,4\n5,"""",6\n',
    ],
)
@pytest.mark.parametrize("rows", [1, 100])
def test_blank_lines_spaces_and_other_columns_do_not_matter(text, rows, tmp_path):
    header = None if "z" in text else False
    source = open_source(_text(tmp_path / "z.csv", text), header=header)
    batches = [batch.logits for batch in source.batches(rows)]
    np.testing.assert_array_equal(np.concatenate(batches), [[1, 2], [3, 4], [5, 6]])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2,1\n3,x\n", "hold numbers, got 'x' at row 1"),
        ("z0,z1\n1,2\n3,\n", "hold numbers, got '' in column 'z1' at row 1"),
        ("z0,z1\n1,2\n\n3,4\n1,2 3\n", "hold numbers, got '2 3' in column 'z1' at row 2"),
        ("z0,z1,y\n1,2,0\n3,x,1\n", "hold numbers, got 'x' in column 'z1' at row 1"),
        ("z0,z1\n" + 70 * "1,2\n" + "3,x\n", "hold numbers, got 'x' in column 'z1' at row 70"),
        ("2,1\n3,1_0\n", "hold numbers, got '1_0' at row 1"),
        ("2,1\n3,4,5\n", "have 2 cells in every row, got 3 cells at row 1"),
        ("2,1\n3,4\n5\n", "have 2 cells in every row, got 1 cells at row 2"),
        ("z0,z1,y\n1,2,0\n3,4,1,9\n", "have 3 cells in every row, got 4 cells at row 1"),
        ("z0,z1,z2\n1,2\n3,4\n", "have 3 cells in every row, got 2 cells at row 0"),
        ("3,2,1\n" * 64 + "3,4\n", "have 3 cells in every row, got 2 cells at row 64"),
        ("z0,z1,z0\n1,2,3\n", "have a different name for each column, got 'z0' twice"),
    ],
)
def test_a_bad_cell_is_named_with_its_row(text, said, tmp_path):
    assert _refusal(_text(tmp_path / "z.csv", text)) == f"z.csv must {said}"


def test_a_column_of_a_file_is_the_only_one_or_is_named(made, tmp_path):
    pq, pa = needed("pyarrow.parquet"), needed("pyarrow")
    for header in (None, "weight"):
        path = _csv(tmp_path / "u.csv", made[1][:, None], header=header)
        np.testing.assert_array_equal(open_column(path, "sample_weight"), made[1])
    rows = np.column_stack([np.arange(301), made[1]])
    _csv(tmp_path / "y.csv", rows, header="id,labels")
    pq.write_table(pa.table({"id": rows[:, 0], "labels": rows[:, 1]}), tmp_path / "y.parquet")
    for path in (tmp_path / "y.csv", tmp_path / "y.parquet"):
        for given_as in (path, f"{path}#labels"):  # the argument's own name need not be given
            np.testing.assert_array_equal(open_column(given_as, "labels"), made[1])
        for given_as, name in ((f"{path}#x", "x"), (path, "sample_weight")):
            with pytest.raises(tepid.InputError) as caught:
                open_column(given_as, "sample_weight")
            said = f"{path.name} must have a column '{name}', or name one after #, got id, labels"
            assert str(caught.value) == said


# --- functions, lists and iterators


@given(data=st.data())
def test_the_batches_of_a_function_are_the_whole(made, data):
    z, y = made
    batches = np.split(z, data.draw(strategies.cuts(len(z))))
    rows = data.draw(st.sampled_from([1, 7, 64, 1000]))
    for given_as in (lambda: batches, lambda: iter(batches), batches, tuple(batches)):
        read = list(open_source(given_as, labels=y).batches(rows))
        np.testing.assert_array_equal(np.concatenate([b.logits for b in read]), z)
        np.testing.assert_array_equal(np.concatenate([b.labels for b in read]), y)
        starts = np.cumsum([0, *(len(b.logits) for b in read)])[:-1].tolist()
        assert [b.start for b in read] == starts
        assert max(len(b.logits) for b in read) <= rows


@pytest.mark.slow
@given(data=st.data())
def test_halves_are_the_even_and_the_odd_rows_whatever_the_batches(made, data):
    z, y = made
    u = np.arange(301.0)
    batches = np.split(z, data.draw(strategies.cuts(len(z))))
    rows = data.draw(st.sampled_from([1, 2, 3, 64, 1000]))
    for given_as in (z, lambda: batches):
        source = open_source(given_as, sample_weight=u, labels=y)
        for parity in (0, 1):
            read = [b.take(np.flatnonzero(b.numbers() % 2 == parity)) for b in source.batches(rows)]
            for name, known in (("logits", z), ("weight", u), ("labels", y)):
                found = np.concatenate([getattr(b, name) for b in read])
                np.testing.assert_array_equal(found, known[parity::2])
            # A half of a half counts the rows of the whole.
            again = [b.take(np.arange(0, len(b.logits), 2)).numbers() for b in read]
            assert all((numbers % 2 == parity).all() for numbers in again)


def test_a_function_may_yield_the_same_memory_again(made):
    z, y = made

    def batches():
        buffer = np.empty((7, 4))
        for start in range(0, 301, 7):
            buffer[:] = z[start : start + 7]
            yield buffer

    _close(tepid.temperature_scaling(batches, y), tepid.temperature_scaling(z, y))
    _close(tepid.uts(batches), tepid.uts(z))


def test_batches_may_be_of_different_types_and_empty(made):
    z = made[0]
    mixed = [np.zeros((0, 7)), z[:50].astype(np.float32), z[50:90].tolist(), np.zeros(0), z[90:]]
    _close(tepid.uts(lambda: mixed), tepid.uts(z))


def test_batches_may_be_binary_or_have_a_class_axis(rng):
    z = 3 * rng.normal(size=90)
    t = tepid.uts(lambda: iter([z[:10, None], z[:0], z[10:, None]]))
    _close(t, tepid.uts(z))
    grid = 3 * rng.normal(size=(6, 4, 5))
    t = tepid.uts(lambda: iter([grid[:1], grid[1:]]), class_axis=1)
    _close(t, tepid.uts(grid, class_axis=1))


_WIDE = [np.zeros((3, 4)), np.zeros((2, 4)), np.zeros((2, 5))]


@pytest.mark.parametrize(
    ("logits", "said"),
    [
        (lambda: 3.0, "be a function that yields batches, got one giving float"),
        (lambda: None, "be a function that yields batches, got one giving NoneType"),
        (lambda: np.eye(3), "be a function that yields batches, got one giving ndarray"),
        (lambda: iter(np.eye(4)), r"come in batches of two .* got a batch of shape \(4,\)"),
        (lambda: iter([1.0, 2.0]), "have one row per sample, got a single number"),
        (lambda: _WIDE, "have 4 classes in every row, got 5 from row 5"),
        (_WIDE, "have 4 classes in every row, got 5 from row 5"),
        (iter(_WIDE), "have 4 classes in every row, got 5 from row 5"),
        (list, "have at least one row, got none"),
        (lambda: 3 * [np.zeros((0, 3))], "have at least one row, got none"),
        (iter([]), "have at least one row, got none"),
    ],
)
def test_what_yields_no_batches_is_refused(logits, said):
    assert re.fullmatch(f"logits must {said}", _refusal(logits))


def test_a_function_that_gives_the_same_iterator_again_is_refused(made):
    spent = iter([made[0]])
    with pytest.raises(tepid.InputError, match="afresh"):
        tepid.uts(lambda: spent)


def test_a_bad_row_is_counted_over_the_batches_of_a_function():
    batches = [np.zeros((3, 2)), np.zeros((0, 2)), np.array([[0.0, 1.0], [np.nan, 0.0]])]
    with pytest.raises(tepid.InputError, match=r"^logits must .* got nan for class 0 at row 4$"):
        tepid.uts(lambda: batches)


def test_what_a_function_raises_comes_through():
    def batches():
        yield np.eye(3)
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError, match="the disk is gone"):
        tepid.uts(batches)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_an_iterator_is_read_once_to_the_precision_it_states(count, made):
    z, y = made
    parts = np.array_split(z, count)
    assert not open_source(iter(parts)).repeatable
    for once, again in (
        (tepid.temperature_scaling(iter(parts), y), tepid.temperature_scaling(z, y)),
        (tepid.temperature_scaling((part for part in parts), y), tepid.temperature_scaling(z, y)),
        (tepid.match_accuracy(iter(parts), 0.7), tepid.match_accuracy(z, 0.7)),
    ):
        assert once.precision > again.precision
        assert abs(once.value / again.value - 1) <= once.precision
        assert (once.samples, once.classes, once.status) == (301, 4, "ok")
    with pytest.raises(tepid.InputError, match=r"^logits must be readable more than once, got an"):
        tepid.uts(iter(parts))  # which needs two passes


# --- labels, weights and groups


@pytest.mark.parametrize("name", ["labels", "sample_weight", "groups"])
@pytest.mark.parametrize("n", [0, 100, 300, 302])
@pytest.mark.parametrize("kind", ["array", "function", "iterator", "npy", "csv"])
def test_a_column_of_the_wrong_length_is_named_with_both_lengths(name, n, kind, made, tmp_path):
    z = made[0]
    np.save(tmp_path / "z.npy", z)
    logits = {
        "array": z,
        "function": lambda: np.array_split(z, 3),
        "iterator": iter(np.array_split(z, 3)),
        "npy": tmp_path / "z.npy",
        "csv": _csv(tmp_path / "z.csv", z),
    }[kind]
    said = _refusal(logits, **{name: np.zeros(n, int)})
    # Batches that are not counted end the reading at the first row without an entry.
    rows = "301" if kind in ("array", "npy") or n >= 300 else r"\d+"
    of = r"( of z\.\w+)?"
    assert re.fullmatch(
        f"{name}{of} must have one entry for each of the {rows} rows, got {n}", said
    )


def test_columns_come_from_files_too(made, rng, tmp_path):
    z, y = made
    u = rng.random(301)
    np.save(tmp_path / "y.npy", y)
    np.savez(tmp_path / "u.npz", sample_weight=u, other=y)
    site = _text(tmp_path / "site.csv", "site\n" + "a\n" * 100 + "b\n" * 201)
    known = tepid.temperature_scaling(z, y, sample_weight=u, groups=["a"] * 100 + ["b"] * 201)
    for labels in (tmp_path / "y.npy", _csv(tmp_path / "y.csv", y[:, None])):
        t = tepid.temperature_scaling(z, labels, sample_weight=tmp_path / "u.npz", groups=site)
        assert (t.value, t.groups["b"].value) == (known.value, known.groups["b"].value)


@pytest.mark.parametrize("name", ["labels", "sample_weight", "groups"])
def test_an_array_has_no_named_columns(name):
    said = _refusal(np.eye(3), **{name: "y"})
    assert said.startswith(f"{name} must be an array or a file, since these logits have no named")


def _labeled(made, kind, tmp_path):
    """An opened source with labels, weights and groups, and these columns."""
    z, y = made
    u, site = np.arange(1.0, 302), np.where(np.arange(301) % 3, "a", "b")
    named = {"labels": y, "sample_weight": u, "groups": site}
    if kind == "array":
        return open_source(z, **named), (y, u, site)
    if kind == "function":
        return open_source(lambda: np.array_split(z, 5), **named), (y, u, site)
    lines = [",".join(map(str, row)) for row in zip(*z.T, y, u, site, strict=True)]
    path = _text(tmp_path / "z.csv", "\n".join(["z0,z1,z2,z3,y,u,site", *lines]))
    return open_source(path, labels="y", sample_weight="u", groups="site"), (y, u, site)


@pytest.mark.parametrize("kind", ["array", "function", "csv"])
def test_a_source_carries_its_columns_and_drops_those_that_are_not_selected(kind, made, tmp_path):
    source, (y, u, site) = _labeled(made, kind, tmp_path)
    assert (source.labeled, source.weighted, source.grouped) == (True, True, True)
    for whole in (source.whole(), source.select(labels=True).whole()):
        np.testing.assert_array_equal(whole.logits, made[0])
        for found, known in zip(
            (whole.labels, whole.weight, whole.group), (y, u, site), strict=True
        ):
            np.testing.assert_array_equal(found, known)
    np.testing.assert_array_equal(source.column("group"), site)
    _close(
        tepid.temperature_scaling(source), tepid.temperature_scaling(made[0], y, sample_weight=u)
    )
    _close(tepid.uts(source), tepid.uts(made[0], sample_weight=u))
    for bare, columns in (
        (source.select(), {"weight", "group"}),
        (source.select(labels=True, weight=False, group=False), {"labels"}),
        (source.select(weight=False, group=False), set()),
    ):
        assert bare.columns == columns
        for batch in bare.batches(50):
            there = {
                name for name in ("labels", "weight", "group") if getattr(batch, name) is not None
            }
            assert there == columns
    assert source.labeled  # selecting changes nothing in place
    _close(
        tepid.temperature_scaling(source, (y + 1) % 4),
        tepid.temperature_scaling(made[0], (y + 1) % 4, sample_weight=u),
    )


@pytest.mark.parametrize("shape", [(301,), (301, 1)])
def test_binary_probabilities_are_those_of_class_one(shape, made, tmp_path):
    p = 1 / (1 + np.exp(-made[0][:, 0].reshape(shape)))
    np.save(tmp_path / "p.npy", p)
    for given_as in (p, tmp_path / "p.npy", lambda: np.split(p.reshape(-1, 1), 7)):
        t = tepid.uts(open_source(given_as, probabilities=True))
        _close(t, tepid.uts(made[0][:, 0]), rel=1e-6)


@pytest.mark.parametrize("shape", [(7, 4, 43), (1, 4, 301), (301, 4, 1), (7, 4, 1, 43)])
def test_segmentation_arrays_equal_their_flattened_rows(shape, made, rng, tmp_path):
    z, y = made
    u = rng.random(301)
    lead = (shape[0], *shape[2:])
    grid = np.moveaxis(z.reshape(*lead, 4), -1, 1)
    np.save(tmp_path / "z.npy", grid)
    known = tepid.temperature_scaling(z, y, sample_weight=u)
    for given_as in (grid, tmp_path / "z.npy"):
        source = open_source(given_as, labels=y.reshape(lead), class_axis=1)
        assert (source.rows, source.classes, source.shape) == (301, 4, lead)
        for rows in (1, 10, 50, 1000):
            read = list(source.batches(rows))
            np.testing.assert_array_equal(np.concatenate([b.logits for b in read]), z)
            assert max(len(b.logits) for b in read) <= rows
        weight = u.reshape(lead)
        t = tepid.temperature_scaling(given_as, y.reshape(lead), sample_weight=weight, class_axis=1)
        _close(t, known)
        assert (t.samples, t.classes) == (301, 4)


# --- batches into files


def _read(path):
    if path.suffix == ".csv":
        return np.loadtxt(path, delimiter=",", ndmin=2)
    if path.suffix == ".parquet":
        return np.array(needed("pyarrow.parquet").read_table(path)["probabilities"].to_pylist())
    if path.suffix == ".npz":
        with np.load(path) as archive:
            return archive["probabilities"]
    return np.load(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("where", [[], [1], [0, 0, 5, 5, 300, 301], [301]])
def test_written_batches_are_the_whole(suffix, dtype, where, made, tmp_path):
    z = made[0].astype(dtype)
    path = tmp_path / f"p.{suffix}"
    batches = [np.asfortranarray(part) for part in np.split(z, where)]
    assert write_batches(path, iter(batches)) == 301
    np.testing.assert_array_equal(_read(path), z)
    read = open_source(path).whole().logits
    np.testing.assert_array_equal(read, z)
    assert suffix == "csv" or read.dtype == dtype
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_failure_while_writing_leaves_the_old_file_whole(suffix, made, tmp_path):
    def torn():
        yield made[0]
        raise OSError(28, "no space left")

    path = tmp_path / f"p.{suffix}"
    for batches, error in ((torn(), OSError), (iter([]), tepid.InputError)):
        with pytest.raises(error):
            write_batches(path, batches)
        assert list(tmp_path.iterdir()) == []
    write_batches(path, iter([made[0][:20]]))
    for batches, error in ((torn(), OSError), (iter([]), tepid.InputError)):
        with pytest.raises(error):
            write_batches(path, batches)
        np.testing.assert_array_equal(_read(path), made[0][:20])
        assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_without_rows_is_written_where_its_classes_are_known(suffix, tmp_path):
    path = tmp_path / f"p.{suffix}"
    assert write_batches(path, iter([np.zeros((0, 4))]), classes=4) == 0
    if suffix != "csv":
        assert open_source(path).rows == 0


def test_what_cannot_be_written_is_refused(made, tmp_path):
    said = r"^output must end in .npy, .npz, .csv or .parquet, got p.txt$"
    with pytest.raises(tepid.InputError, match=said):
        write_batches(tmp_path / "p.txt", iter([made[0]]))
    for suffix in ("csv", "parquet"):
        with pytest.raises(tepid.InputError, match=r"must be .npy or .npz for more than two dim"):
            write_batches(tmp_path / f"p.{suffix}", iter([np.zeros((2, 3, 4))]))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_no_ordinary_file_is_not_replaced(suffix, made, tmp_path):
    path = tmp_path / f"p.{suffix}"
    os.mkfifo(path)
    with pytest.raises(tepid.InputError, match="must be a file"):
        write_batches(path, iter([made[0]]))
    assert path.is_fifo()
