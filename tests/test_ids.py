"""Ids of rows, alignment by id, answers that people gave, and other models for some of the rows."""

import pickle

import numpy as np
import pytest

import tepid
from tepid.sources import attach, match_ids, open_peer, open_source, read_answers, read_ids
from tests import containers
from tests.containers import Table, made
from tests.needs import needed

CLASSES = ["cat", "cow", "dog", "hen"]


@pytest.fixture(scope="module")
def table() -> Table:
    return made()


# Ids ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("container", containers.every("archive", "lists", "numbered", "integers"))
def test_ids_are_a_column_of_the_table(container, table, tmp_path):
    ids = read_ids(container.write(tmp_path, table), "id")
    assert sorted(ids) == [str(each) for each in range(1000, 1000 + len(ids))]


@pytest.mark.parametrize("container", containers.every("array", "archive", "lists", "numbered"))
def test_ids_are_an_array_or_the_numbers_of_the_rows(container, table, tmp_path):
    data = container.write(tmp_path, table)
    assert read_ids(data).tolist() == [str(row) for row in range(len(table.logits))]
    names = [f"row {row}" for row in range(len(table.logits))]
    assert read_ids(data, names).tolist() == names


def test_ids_are_a_file(table, tmp_path):
    ids = np.array([f"a{row}" for row in range(320)])
    np.save(tmp_path / "ids.npy", ids)
    (tmp_path / "ids.csv").write_text("ids\n" + "\n".join(ids))
    pa = needed("pyarrow")
    containers.write_parquet(tmp_path / "ids.parquet", pa.table({"ids": ids, "x": ids}))
    for ending in ("npy", "csv", "parquet"):
        assert (read_ids(table.logits, tmp_path / f"ids.{ending}") == ids).all()


def test_a_source_may_have_its_ids_already(table, tmp_path):
    path = containers.write_csv(tmp_path / "z.csv", table)
    source = open_source(path, ids="id", labels="y")
    assert (read_ids(source) == table.beside["id"].astype(str)).all()
    assert source.select().whole().id is None
    with pytest.raises(tepid.InputError, match=r"ids must be named when the source is opened"):
        read_ids(open_source(path), "id")


@pytest.mark.parametrize(
    ("ids", "match"),
    [
        (["a", "b", "a", "b"], "^ids must be different in every row, got 'a' at rows 0 and 2$"),
        ([1, 2, 3, 1.0], "^ids must be different in every row, got '1' at rows 0 and 3$"),
        (["x", " x", "y", "z"], "got 'x' at rows 0 and 1$"),
        ([1, 2, 3], "^ids must have one entry for each of the 4 rows, got 3$"),
        ([1, 2, None, 3], "^ids must be names or whole numbers, got None at row 2$"),
        ([1, 2.5, 4, 3], "^ids must be names or whole numbers, got 2.5 at row 1$"),
        (np.zeros(4, "M8[s]"), "^ids must be names or whole numbers, got datetime64"),
        ([[1, 2], [3], [4], [5]], "^ids must be one name per row"),
        ("id", "^ids must be an array or a file, since these logits have no named columns"),
    ],
)
def test_ids_that_cannot_be_used_are_refused(ids, match):
    with pytest.raises(tepid.InputError, match=match):
        read_ids(np.eye(4), ids)


def test_a_column_of_ids_that_cannot_be_used_is_refused(table, tmp_path):
    path = tmp_path / "z.csv"
    path.write_text("id,z0,z1\n1,2,0\n1.0,1,0\n")
    with pytest.raises(tepid.InputError, match=r"got '1' at rows 0 and 1"):
        read_ids(path, "id")
    path.write_text("id,z0,z1\n1,2,0\n,1,0\n")
    with pytest.raises(tepid.InputError, match=r"ids of z.csv must .* an empty cell at row 1"):
        read_ids(path, "id")
    with pytest.raises(tepid.InputError, match=r"ids must name a column of z.csv"):
        read_ids(path, "key")
    with pytest.raises(tepid.InputError, match=r"ids must be given, since the rows of an iterator"):
        read_ids(iter([table.logits]))


def test_ids_of_other_data_are_found():
    assert match_ids(["a", "b", "c"], ["c", "x", "a"], "judge").tolist() == [2, -1, 0]
    assert match_ids([1, 2], np.array([2.0, 5.0]), "judge").tolist() == [-1, 0]
    assert match_ids(["1"], [], "judge").tolist() == [-1]
    found = match_ids([], ["1"], "judge")
    assert found.dtype == np.int64
    assert found.shape == (0,)
    with pytest.raises(tepid.InputError, match=r"^ids of judge .* got 'b' at rows 1 and 2$"):
        match_ids(["a"], ["a", "b", "b", "a"], "judge")


# Answers ------------------------------------------------------------------------------------------

ANSWERS = "id,prediction,label,note\n7,cat,dog,\nx 1,cat,,\n8.0,dog, cat ,sure\n"


def _answer_tables(folder):
    pd, pl, pa = needed("pandas"), needed("polars"), needed("pyarrow")
    (folder / "answers.csv").write_text(ANSWERS)
    yield folder / "answers.csv"
    (folder / "semicolon.csv").write_text(
        "\ufeff" + ANSWERS.replace(",", ";").replace("\n", "\r\n")
    )
    yield str(folder / "semicolon.csv")
    (folder / "short.csv").write_text(ANSWERS.replace("x 1,cat,,", '\n"x 1"') + ",,,\n\n")
    yield folder / "short.csv"
    columns = {"id": ["7", "x 1", "8"], "label": ["dog", None, "cat"]}
    yield pd.DataFrame(columns)
    yield pd.DataFrame({"id": [7, "x 1", 8.0], "label": ["dog", np.nan, "cat "]})
    yield pl.DataFrame(columns)
    yield pl.LazyFrame(columns)
    yield pa.table(columns)
    containers.write_parquet(folder / "answers.parquet", pa.table(columns))
    yield folder / "answers.parquet"
    (folder / "one.csv").write_text("id,label\n7,dog\n")
    (folder / "two.csv").write_text("label,id\n,x 1\ncat,8\n")
    yield [folder / "one.csv", folder / "two.csv"]


def test_answers_are_read_from_every_table(tmp_path):
    for given in _answer_tables(tmp_path):
        ids, labels, _ = read_answers(given)
        assert ids.tolist() == ["7", "x 1", "8"]
        assert labels.tolist() == ["dog", "", "cat"]


def test_answers_may_be_numbers(tmp_path):
    frame = needed("pandas").DataFrame({"id": [1, 2, 3], "label": [0, np.nan, 2]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    for given in (frame, tmp_path / "a.csv", tmp_path / "a.parquet"):
        ids, labels, _ = read_answers(given)
        assert ids.tolist() == ["1", "2", "3"]
        column = tepid.validation.partial_labels(labels, 3, 3)
        assert column.tolist() == [0, -1, 2]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "a.csv must have the columns id and label, got none|unnamed"),
        (
            "id,prediction\n1,cat\n",
            "^a.csv must have the columns id and label, got id, prediction$",
        ),
        ("1,cat\n2,dog\n", "^a.csv must have the columns id and label, got 1, cat$"),
        ("id,label\n1,cat\n\n,dog\n", "^a.csv must have an id in every row, got none at line 4$"),
        ("id,label\n1,cat\n1,dog\n", "'1' at line 2 of a.csv and at line 3 of a.csv$"),
        ('id,label\n"1\n",cat\n1.0,dog\n', "'1' at line 3 of a.csv and at line 4 of a.csv$"),
        ("id,label\n1,cat,7\n", "^a.csv must have at most 2 cells in every row, got 3 at line 2$"),
        ('id,label\n1,"cat\n', "^a.csv cannot be read"),
        ("id,label,label\n1,2,3\n", "a different name for each column, got 'label' twice"),
    ],
)
def test_a_file_that_holds_no_answers_is_refused(text, match, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(tepid.InputError, match=match):
        read_answers(tmp_path / "a.csv")


def test_data_that_holds_no_answers_is_refused(tmp_path):
    pd = needed("pandas")
    with pytest.raises(
        tepid.InputError, match=r"^judge must have the columns id and label, got id$"
    ):
        read_answers(pd.DataFrame({"id": [1]}), "judge")
    with pytest.raises(tepid.InputError, match=r"'1' at row 0 and at row 1$"):
        read_answers(pd.DataFrame({"id": [1, 1], "label": ["a", "b"]}))
    with pytest.raises(tepid.InputError, match=r"ids of answers must be names .* at row 1$"):
        read_answers(pd.DataFrame({"id": ["1", None], "label": ["a", "b"]}))
    with pytest.raises(tepid.InputError, match=r"answers file must exist"):
        read_answers(tmp_path / "none.csv")
    with pytest.raises(tepid.InputError, match=r"must be a data frame or a file .*, got list"):
        read_answers([("1", "a")])
    np.save(tmp_path / "a.npy", np.eye(2))
    with pytest.raises(tepid.InputError, match=r"must be a table with the columns"):
        read_answers(tmp_path / "a.npy")
    empty = tmp_path / "empty.csv"
    empty.write_text("id,label\n")
    assert [len(column) for column in read_answers(empty)] == [0, 0, 0]


# Other models -------------------------------------------------------------------------------------


def peers_of(source, *peers, size=70):
    """The peers of every batch, and the rows they are beside."""
    batches = list(attach(source, {}, peers).batches(size))
    return [np.concatenate([batch.peers[i] for batch in batches]) for i in range(len(peers))]


@pytest.mark.parametrize(
    "container", [each for each in containers.every() if "spark" not in each.id]
)
def test_another_model_for_some_of_the_rows(container, table, tmp_path):
    source = open_source(container.write(tmp_path, table))
    other = -table.logits[[5, 300, 17]]
    index = np.full(len(table.logits), -1)
    index[[300, 5, 200]] = [1, 0, 2]
    peer = open_peer(other, rows_of=source, index=index, name="reference")
    judge = open_peer(
        ["hen", "cat", None], rows_of=source, index=index, name="judge", classes=CLASSES
    )
    for again in range(2):
        logits, classes = peers_of(source, peer, judge)
        wanted = np.full_like(table.logits, np.nan)
        wanted[[300, 5, 200]] = other[[1, 0, 2]]
        np.testing.assert_array_equal(logits, wanted, err_msg=str(again))
        assert classes.dtype == np.int64
        assert np.flatnonzero(classes + 1).tolist() == [5, 300]
        assert classes[[5, 300]].tolist() == [3, 0]


@pytest.mark.parametrize("container", [c for c in containers.every() if "spark" not in c.id])
def test_another_model_in_order_is_any_container(container, table, tmp_path):
    shown = table.logits.copy()
    if container.holds != "array" or container.write is not containers.ARRAYS["list of lists"]:
        shown[[0, 100, 319]] = np.nan
    source = open_source(table.logits)
    data = container.write(tmp_path, Table(shown, {}, table.names))
    (found,) = peers_of(source, open_peer(data, rows_of=source, name="model 1"))
    np.testing.assert_array_equal(found, shown)


@pytest.mark.parametrize(
    "classes",
    [
        np.array([0, 3, -1, 1]),
        [0, 3, None, 1],
        ["cat", "hen", "", "cow"],
        [0.0, 3.0, np.nan, 1.0],
        ["0", "3", "-1", "1"],
    ],
)
def test_a_judge_without_probabilities(classes, rng, tmp_path):
    source = open_source(rng.normal(size=(4, 4)), classes=CLASSES)
    (found,) = peers_of(source, open_peer(classes, rows_of=source, name="judge"), size=3)
    assert found.dtype == np.int64
    assert found.tolist() == [0, 3, -1, 1]
    column = np.asarray(classes)
    if column.dtype.kind in "iU":
        np.save(tmp_path / "judge.npy", column)
        np.savez(tmp_path / "judge.npz", labels=column, x=column)
        for ending in ("npy", "npz"):
            file = tmp_path / f"judge.{ending}"
            (found,) = peers_of(source, open_peer(file, rows_of=source, name="judge"))
            assert found.tolist() == [0, 3, -1, 1]


def test_probabilities_of_another_model(rng):
    source = open_source(rng.normal(size=(4, 2)))
    p = np.array([[0.5, 0.5], [np.nan, np.nan], [1.0, 0.0], [0.25, 0.75]])
    for index, wanted in ((None, p), ([3, -1, -1, 0], p[[3, 1, 1, 0]])):
        peer = open_peer(p, rows_of=source, name="model 1", probabilities=True, index=index)
        (found,) = peers_of(source, peer)
        np.testing.assert_allclose(np.exp(found), wanted)
    opened = open_source(p[[0, 2, 3]], probabilities=True)
    for data, said in ((opened, False), (p[[0, 2, 3]], True)):
        index = [2, -1, 1, -1]
        peer = open_peer(data, rows_of=source, name="model 1", probabilities=said, index=index)
        (found,) = peers_of(source, peer)
        np.testing.assert_allclose(np.exp(found), p[[3, 1, 2, 1]])
    p[3] = [0.5, 0.6]
    for index in (None, [0, 1, 2, 3]):
        with pytest.raises(tepid.InputError, match=r"^model 1 must sum to one .* at row 3$"):
            peers_of(
                source,
                open_peer(p, rows_of=source, name="model 1", probabilities=True, index=index),
            )


def test_binary_logits_of_another_model(rng):
    source = open_source(rng.normal(size=4))
    other = np.array([0.5, np.nan, -1.5, 2.0])
    (found,) = peers_of(source, open_peer(other, rows_of=source, name="model 1"))
    np.testing.assert_array_equal(found, [[0, 0.5], [np.nan] * 2, [0, -1.5], [0, 2.0]])
    cut = open_source(lambda: (other[i : i + 1, None] for i in range(4)))
    (found,) = peers_of(source, open_peer(cut, rows_of=source, name="model 1"), size=3)
    assert np.isnan(found[1]).all()
    with pytest.raises(tepid.InputError, match=r"must be integers for classes .* could be either"):
        open_peer([0.0, 1.0, np.nan, 1.0], rows_of=source, name="judge")


def test_columns_that_come_later_leave_the_other_models_in_place(rng):
    source = open_source(rng.normal(size=(4, 3)))
    both = attach(source, {}, (open_peer([0, 1, 2, -1], rows_of=source, name="judge"),))
    labeled = open_source(both, labels=[0, 0, 1, None])
    more = attach(labeled, {}, (open_peer([2, 2, 2, 2], rows_of=source, name="other"),))
    first, second = more.whole().peers
    assert first.tolist() == [0, 1, 2, -1]
    assert second.tolist() == [2, 2, 2, 2]
    assert labeled.whole().labels.tolist() == [0, 0, 1, -1]


Z = np.arange(12.0).reshape(4, 3)


@pytest.mark.parametrize(
    ("data", "options", "match"),
    [
        (Z[:3], {}, r"^reference must have one entry for each of the 4 rows, got 3$"),
        ([0, 1, 2], {}, r"^reference must have one entry for each of the 4 rows, got 3$"),
        (Z[:, :2], {}, r"^reference must have the 3 classes of logits, got 2$"),
        (
            Z[:, :2],
            {"index": [0, 1, 2, 3]},
            r"^reference must have the 3 classes of logits, got 2$",
        ),
        ([0, 1, 3, 0], {}, r"^reference must be in 0..2, got 3 at row 2$"),
        (["a", "b", "x", "a"], {}, r"^reference must be one of the classes .* got 'x' at row 2$"),
        (["a", "b", 7, "a"], {}, r"^reference must be one of the classes .* got 7 at row 2$"),
        (
            Z,
            {"index": [0, 1, 2]},
            r"^index of reference must have one entry for each of the 4 rows",
        ),
        (Z, {"index": [0, 1, 2, 4]}, r"^index of reference must be in -1..3, got 0 to 4$"),
        (Z, {"index": [0, 1, 2, -2]}, r"^index of reference must be in -1..3, got -2 to 2$"),
        (Z, {"index": [0.5] * 4}, r"^index of reference must be whole numbers"),
        (iter([Z]), {}, r"^reference must be readable more than once, got an iterator$"),
        (Z, {"classes": ["a", "b"]}, r"classes must name the 3 classes"),
        ([[0, 1], [2]], {}, r"must be one rectangular array"),
        ("none.npy", {}, r"^reference file must exist"),
        (
            np.where(Z == 4, np.nan, Z),
            {},
            r"^reference must be finite, .* nan for class 1 at row 1$",
        ),
        (
            np.where(Z == 4, np.inf, Z),
            {"index": [0, 1, -1, -1]},
            r"^reference must be finite, .* inf for class 1 at row 1$",
        ),
    ],
)
def test_another_model_that_cannot_be_used_is_refused(data, options, match):
    source = open_source(Z, classes=["a", "b", "c"])
    with pytest.raises(tepid.InputError, match=match):
        peers_of(source, open_peer(data, rows_of=source, name="reference", **options))


def test_rows_that_are_counted_late_are_compared_in_the_end(tmp_path):
    containers.write_csv(tmp_path / "z.csv", Table(Z, {}, ("z0", "z1", "z2")))
    source = open_source(tmp_path / "z.csv")
    for data in ([0, 1, 2], [0, 1, 2, 0, 1]):
        with pytest.raises(
            tepid.InputError, match=r"^judge must have one entry for each of the \d"
        ):
            peers_of(source, open_peer(data, rows_of=source, name="judge"))


def test_a_row_of_weight_zero_may_have_any_answer():
    source = open_source(Z, sample_weight=[1, 0, 1, 1])
    (found,) = peers_of(
        source, open_peer(np.where(Z == 4, np.nan, Z), rows_of=source, name="reference")
    )
    np.testing.assert_array_equal(found[2:], Z[2:])


def test_the_number_of_classes_of_lists_is_read_where_it_is_needed(table, tmp_path):
    path = containers.write_parquet(tmp_path / "z.parquet", containers.arrow_list(table))
    source = open_source(path)
    judge = open_peer(np.zeros(320, int), rows_of=source, name="judge")
    assert (peers_of(source, judge)[0] == 0).all()


def test_a_part_on_a_worker_holds_only_its_own_answers(table):
    da = needed("dask.array")
    source = open_source(da.from_array(table.logits, chunks=(80, -1)))
    index = np.full(320, -1)
    index[::10] = np.arange(32)[::-1]
    peer = open_peer(-table.logits[:32], rows_of=source, name="model 1", index=index)
    both = attach(source, {}, (peer,))
    assert len(both.parts) == 4
    assert all(part.portable for part in both.parts)
    assert all(len(pickle.dumps(part.peers)) < 2000 for part in both.parts)
    (found,) = peers_of(source, peer)
    np.testing.assert_array_equal(found[::10], -table.logits[:32][::-1])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_another_model_beside_spark_is_refused(table, tmp_path):
    engines = pytest.importorskip("tepid.engines.spark")
    source = open_source(containers.SPARK_NUMBERED["spark"](tmp_path, table))
    peer = open_peer(np.zeros(320, int), rows_of=source, name="judge")
    with pytest.raises(tepid.InputError, match=r"other models must be columns in Spark"):
        engines.Spark().total(lambda batch: 1, attach(source, {}, (peer,)), "counting")
