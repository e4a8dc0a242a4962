"""Which rows of a table are wanted, in words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tepid
from tepid.sources import filters, open_source, parquet
from tests import written

COLUMNS = {
    "site": np.array([1, 2, 3, 3, 2]),
    "score": np.array([0.5, np.nan, -1.0, 2.0, 0.5]),
    "split": np.array(["test", "train", None, "test", "val"], object),
    "held": np.array([True, False, True, False, False]),
}


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("site == 3", [2, 3]),
        ("site != 3", [0, 1, 4]),
        ("3 == site", [2, 3]),
        ("site < 2", [0]),
        ("site <= 2", [0, 1, 4]),
        ("site > 2", [2, 3]),
        ("site >= 2", [1, 2, 3, 4]),
        ("1 < site <= 2", [1, 4]),
        ("site in (1, 3)", [0, 2, 3]),
        ("site not in [1, 3]", [1, 4]),
        ("split == 'test'", [0, 3]),
        ("split != 'test'", [1, 2, 4]),
        ("split < 'train'", [0, 3]),
        ("split in {'test', 'val'}", [0, 3, 4]),
        ("score == 0.5", [0, 4]),
        ("score != 0.5", [1, 2, 3]),
        ("score < 1", [0, 2, 4]),
        ("score > -1.5", [0, 2, 3, 4]),
        ("held", [0, 2]),
        ("not held", [1, 3, 4]),
        ("held == True", [0, 2]),
        ("split == 'test' and site != 3", [0]),
        ("split == 'val' or site == 1 and held", [0, 4]),
        ("(split == 'val' or site == 1) and held", [0]),
        ("not (site == 3 or site == 2)", [0]),
        ("site > score", [0, 2, 3, 4]),
    ],
)
def test_a_condition_keeps_its_rows(text, rows):
    assert np.flatnonzero(filters.parsed(text).kept(COLUMNS)).tolist() == rows


@given(st.integers(-3, 3), st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), st.data())
def test_a_comparison_is_that_of_python(value, sign, data):
    cells = data.draw(st.lists(st.integers(-3, 3), min_size=1, max_size=20))
    kept = filters.parsed(f"x {sign} {value}").kept({"x": np.array(cells)})
    as_text = {"x": np.array([str(cell) for cell in cells], object)}
    expected = [eval(f"{cell} {sign} {value}") for cell in cells]
    assert kept.tolist() == expected
    assert filters.parsed(f"x {sign} {value}").kept(as_text).tolist() == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "1", "'a'", "1 == 1", "x +", "x + 1 == 2", "f(x) == 1", "x.y == 1", "x[0] == 1",
        "__import__('os').system('true')", "x == None", "x is 1", "x == (1, 2)", "x in 'abc'",
        "x in ()", "x in (y, 1)", "lambda: 1", "[x for x in y]", "x if y else z", "x := 1",
        "x == f'{y}'", "~x == 1", "-x == 1", "x == b'1'", "x == 1j", "await x", "x == ...",
        "x; y", "(" * 300 + "x",
    ],
)  # fmt: skip
def test_what_is_no_condition_is_refused(text):
    with pytest.raises(tepid.InputError, match=r"^filter must "):
        filters.parsed(text)


def test_a_column_compared_with_what_it_does_not_hold_is_refused():
    with pytest.raises(
        tepid.InputError, match=r"^filter must compare .*'site'.* a number, got '3'"
    ):
        filters.parsed("site == '3'").kept(COLUMNS)
    with pytest.raises(tepid.InputError, match=r"^filter must .*'split' .* holds 'test' at row 0$"):
        filters.parsed("split == 3").kept(COLUMNS)
    with pytest.raises(
        tepid.InputError, match=r"^filter must compare column 'site' with something"
    ):
        filters.parsed("site").kept(COLUMNS)


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(301, 4)).astype(np.float32)
    labels = rng.integers(0, 4, 301)
    split = np.where(rng.random(301) < 0.5, "test", "train")
    return logits, labels, split, rng.integers(0, 5, 301)


@pytest.mark.parametrize("kind", [*written.TABLES, "csv", "csv.gz"])
@pytest.mark.parametrize("rows", [10, 1000])
def test_the_rows_of_a_table_are_filtered_with_all_beside_them(kind, rows, made, tmp_path):
    z, y, split, site = made
    for i in (0, 1):
        path = tmp_path / f"part-{i}.{kind}"
        written.write(path, z[i::2], y[i::2], split=split[i::2], site=site[i::2], u=site[i::2] + 1)
    source = open_source(
        tmp_path,
        filter="split == 'test' and site != 3",
        labels="label",
        groups="split",
        sample_weight="u",
    )
    order = np.r_[0:301:2, 1:301:2]
    wanted = order[(split[order] == "test") & (site[order] != 3)]
    blocks = list(source.blocks(rows))
    np.testing.assert_array_equal(np.concatenate([b.logits for b in blocks]), z[wanted])
    np.testing.assert_array_equal(np.concatenate([b.labels for b in blocks]), y[wanted])
    np.testing.assert_array_equal(np.concatenate([b.weight for b in blocks]), site[wanted] + 1)
    assert set(np.concatenate([b.groups for b in blocks])) == {"test"}
    assert source.classes == 4
    known = tepid.from_labels(z[wanted], y[wanted], sample_weight=site[wanted] + 1)
    assert tepid.from_labels(source).value == pytest.approx(known.value, rel=1e-9)


def test_a_bad_row_is_named_by_its_place_in_the_file(made, tmp_path):
    z, y, split, site = made
    bad = int(np.flatnonzero(split == "test")[70])
    z = z.copy()
    z[bad, 2] = np.nan
    z[split == "train"] = np.nan  # which nobody wants
    for kind in ("parquet", "csv", "arrow"):
        path = written.write(tmp_path / f"z.{kind}", z, y, split=split, site=site)
        with pytest.raises(tepid.InputError, match=rf"^z.{kind} must .* class 2 at row {bad}$"):
            tepid.from_logits(open_source(path, filter="split == 'test'"))
    y = y.copy()
    y[bad] = 7
    path = written.write(tmp_path / "z.parquet", made[0], y, split=split)
    with pytest.raises(tepid.InputError, match=rf"^labels of z.parquet .* 7 at row {bad}$"):
        tepid.from_labels(open_source(path, filter="split == 'test'"))


def test_labels_of_another_file_are_filtered_too(made, tmp_path):
    z, y, split, _ = made
    path = written.write(tmp_path / "z.parquet", z, split=split)
    np.save(tmp_path / "y.npy", y)
    source = open_source(path, labels=tmp_path / "y.npy", filter="split == 'test'")
    np.testing.assert_array_equal(np.asarray(source.labels), y[split == "test"])


def test_row_groups_of_which_nothing_is_wanted_are_not_decoded(made, tmp_path, monkeypatch):
    z, y, _, _ = made
    path = written.write(tmp_path / "z.parquet", z, y, part=np.arange(301) // 60)
    read, real = [], parquet.batches

    def watched(opened, file, groups, columns, rows):
        read.append((groups, columns))
        return real(opened, file, groups, columns, rows)

    monkeypatch.setattr(parquet, "batches", watched)
    source = open_source(path, filter="part == 3")
    read.clear()
    np.testing.assert_array_equal(source.whole(), z[180:240])
    assert [groups for groups, columns in read if "logits" in columns] == [[3]]


def test_only_the_columns_that_are_wanted_are_decoded(made, tmp_path, monkeypatch):
    z, y, split, _ = made
    path = written.write(tmp_path / "z.parquet", z, y, split=split, heavy=[b"x" * 99] * 301)
    seen, real = set(), parquet.batches

    def watched(opened, file, groups, columns, rows):
        seen.update(columns)
        return real(opened, file, groups, columns, rows)

    monkeypatch.setattr(parquet, "batches", watched)
    open_source(path).whole()
    assert seen == {"logits", "label"}


def test_an_unknown_column_is_refused_with_those_there_are(made, tmp_path):
    z, y, split, _ = made
    for kind in ("parquet", "csv"):
        path = written.write(tmp_path / f"z.{kind}", z, y, split=split)
        with pytest.raises(tepid.InputError) as caught:
            open_source(path, filter="slpit == 'test'")
        assert f"filter must name columns of z.{kind}, which has " in str(caught.value)
        assert str(caught.value).endswith("label, split, got slpit")


def test_a_filter_that_keeps_nothing_is_refused(made, tmp_path):
    path = written.write(tmp_path / "z.parquet", made[0], made[1])
    with pytest.raises(tepid.InputError, match=r"z.parquet must have at least one row, got none"):
        tepid.from_logits(open_source(path, filter="label == 99"))


def test_what_has_no_columns_cannot_be_filtered(made, tmp_path):
    np.save(tmp_path / "z.npy", made[0])
    with pytest.raises(tepid.InputError, match=r"^filter must go with tables, .* got z.npy$"):
        open_source(tmp_path / "z.npy", filter="a == 1")
    with pytest.raises(tepid.InputError, match=r"^filter must go with tables"):
        open_source(made[0], filter="a == 1")
    path = written.write(tmp_path / "z.parquet", *made[:2])
    with pytest.raises(tepid.InputError, match=r"^labels must be a column, or a file .* filtered"):
        open_source(path, labels=made[1], filter="label == 1")


def test_columns_without_rows_are_of_no_kind():
    kept = filters.parsed("site == 'here'").kept({"site": np.zeros(0)})
    assert kept.dtype == bool
    assert len(kept) == 0
