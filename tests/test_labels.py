"""Labels may be unknown, and may be names of classes, in every container."""

import datetime
import pickle

import numpy as np
import pytest

import tepid
from tepid.sources import open_source
from tests import containers
from tests.containers import Table, made
from tests.needs import needed

CLASSES = ("cat", "cow", "dog", "hen")


def read_labels(data, labels, **options):
    return open_source(data, labels=labels, **options).column("labels")


@pytest.fixture(scope="module")
def table() -> Table:
    """Labels as numbers and as names; every fifth is unknown."""
    rows = made()
    labels = np.where(np.arange(len(rows.logits)) % 5 == 3, -1, rows.beside["y"])
    names = [None if label < 0 else CLASSES[label] for label in labels.tolist()]
    return Table(rows.logits, {"y": labels.astype(float), "name": names}, rows.names)


@pytest.mark.parametrize("container", containers.every())
def test_an_unknown_number_is_minus_one_in_every_container(container, table, tmp_path):
    marked = Table(
        table.logits, {"y": np.where(table.beside["y"] < 0, np.nan, table.beside["y"])}, table.names
    )
    for one in (table.without("name"), marked):
        folder = tmp_path / str(one is marked)
        folder.mkdir()
        found = read_labels(container.write(folder, one), container.labels(one))
        assert found.dtype == np.int64
        # Spark keeps no order of rows.
        assert sorted(found) == sorted(table.beside["y"])


@pytest.mark.parametrize("container", containers.every())
def test_true_and_false_are_no_labels_of_four_classes_in_any_container(container, table, tmp_path):
    right = Table(
        table.logits, {"y": table.logits.argmax(axis=1) == table.beside["y"]}, table.names
    )
    with pytest.raises(tepid.InputError, match=r"got (True and False at|'?(True|False)'? at)"):
        read_labels(container.write(tmp_path, right), container.labels(right))


@pytest.mark.parametrize("unknown", [False, True])
def test_true_and_false_are_labels_of_two_classes_alone(unknown, rng):
    z = rng.normal(size=(40, 3))
    right = (z.argmax(axis=1) == 0).tolist()
    right = [None, *right[1:]] if unknown else right
    wanted = [-1 if label is None else int(label) for label in right]
    forms = [right, tuple(right), np.array(right, object if unknown else bool)]
    for name, form in (("pyarrow", "array"), ("polars", "Series"), ("pandas", "Series")):
        if needed(name):
            forms.append(getattr(pytest.importorskip(name), form)(right))
    for labels in forms:
        assert read_labels(z[:, 0], labels).tolist() == wanted
        for use in (
            tepid.temperature_scaling,
            lambda z, y: tepid.calibrate(z, labels=y),
            lambda z, y: tepid.calibrate(z, labeled=(z, y)),
            lambda z, y: tepid.calibrate(z, source=(z, y)),
            lambda z, y: tepid.calibrate(z, reference=y),
            tepid.compare,
            tepid.summaries.Reliability.of_logits,
        ):
            with pytest.raises(tepid.InputError, match="class numbers or names, got True and Fals"):
                use(z, labels)
    three = [label if label is None else bool(label) for label in right]
    assert read_labels(z, three, classes=[False, True, "both"]).tolist() == wanted


@pytest.mark.parametrize("container", containers.every("array", "lists", "numbered"))
def test_names_are_matched_with_the_classes_in_every_container(container, table, tmp_path):
    named = table.beside["name"] if container.holds == "array" else "name"
    found = read_labels(container.write(tmp_path, table), named, classes=CLASSES)
    assert found.dtype == np.int64
    assert sorted(found) == sorted(table.beside["y"])


@pytest.mark.parametrize("container", containers.every("numbered"))
def test_names_are_matched_with_named_columns(container, table, tmp_path):
    renamed = Table(table.logits, table.beside, CLASSES)
    data = container.write(tmp_path, renamed)
    source = open_source(data, labels="name", columns=list(CLASSES))
    assert source.names == CLASSES
    assert sorted(source.column("labels")) == sorted(table.beside["y"])
    # Given classes outweigh the names of columns.
    with pytest.raises(tepid.InputError, match=r"one of the classes 'a', 'b', 'c', 'd', got"):
        read_labels(data, "name", columns=list(CLASSES), classes=["a", "b", "c", "d"])


@pytest.mark.parametrize("container", containers.every("lists", "numbered"))
def test_names_without_classes_are_one_clear_error(container, table, tmp_path):
    data = container.write(tmp_path, table)
    with pytest.raises(tepid.InputError, match=r"classes= must give .*, got '\w+' at row \d+$"):
        read_labels(data, "name")


@pytest.mark.parametrize("container", containers.every("lists", "numbered"))
def test_a_name_that_is_no_class_is_named_with_its_row(container, table, tmp_path):
    data = container.write(tmp_path, table)
    with pytest.raises(tepid.InputError, match=r"one of the classes .*, got 'hen' at row \d+$"):
        read_labels(data, "name", classes=("cat", "cow", "dog", "owl"))


@pytest.mark.parametrize("container", containers.every("lists", "numbered"))
def test_labels_that_were_not_selected_are_not_matched(container, table, tmp_path):
    source = open_source(container.write(tmp_path, table), labels="name").select()
    assert source.whole().labels is None


def _hdf5(path, names):
    with needed("h5py").File(path, "a") as file:
        file["name"] = ["" if name is None else name for name in names]


def _zarr(path, names):
    group = needed("zarr").open_group(str(path), mode="a")
    group.create_array("name", data=np.array(["" if n is None else n for n in names], "<U3"))


def _npz(path, names):
    with np.load(path) as members:
        every = dict(members)
    np.savez(path, **every, name=np.array(["" if n is None else n for n in names]))


@pytest.mark.parametrize(("ending", "add"), [("h5", _hdf5), ("zarr", _zarr), ("npz", _npz)])
@pytest.mark.filterwarnings("ignore")
def test_names_in_an_archive(ending, add, table, tmp_path):
    path = containers.ARCHIVES[ending](tmp_path, table)
    add(path, table.beside["name"])
    assert (read_labels(path, "name", classes=CLASSES) == table.beside["y"]).all()


def _label_files(folder, names):
    text = "\n".join(["name", *('""' if name is None else name for name in names)])
    (folder / "y.csv").write_text(text)
    yield folder / "y.csv"
    (folder / "two.csv").write_text(text.replace("\n", ",1\n") + ",1")
    yield f"{folder / 'two.csv'}#name"
    pa = needed("pyarrow")
    yield containers.write_parquet(folder / "y.parquet", pa.table({"name": names}))
    codes = pa.table({"labels": pa.array(names).dictionary_encode(), "id": range(len(names))})
    yield containers.write_feather(folder / "y.feather", codes)
    yield containers.write_npy(folder / "y.npy", np.array(["" if n is None else n for n in names]))


def test_names_in_a_file_beside_the_logits(table, tmp_path):
    for file in _label_files(tmp_path, table.beside["name"]):
        for labels in (file, str(file)):
            found = read_labels(table.logits, labels, classes=CLASSES)
            assert (found == table.beside["y"]).all(), file


def _forms(names):
    """The same names in every kind of column."""
    pd, pl, pa = needed("pandas"), needed("polars"), needed("pyarrow")
    yield names
    yield tuple(names)
    yield np.array(names, object)
    yield np.array(["" if name is None else f" {name} " for name in names])
    yield np.array(["" if name is None else name for name in names], bytes)
    yield [np.nan if name is None else name for name in names]
    yield [pd.NA if name is None else name for name in names]
    yield [pd.NaT if name is None else name for name in names]
    for form in (object, "string", "category"):
        yield pd.Series(names, dtype=form, index=range(5, 5 + len(names)))
    for form in (pl.String, pl.Categorical, pl.Enum(sorted(CLASSES))):
        yield pl.Series(names, dtype=form)
    yield pa.array(names)
    yield pa.chunked_array([names[:7], names[7:]])
    yield pa.array(names).dictionary_encode()
    yield needed("dask.array").from_array(np.array(names, object), chunks=9).compute()


def test_names_in_every_kind_of_column(table):
    names, classes = table.beside["name"], list(CLASSES)
    for form in _forms(names):
        found = read_labels(table.logits, form, classes=classes)
        assert (found == table.beside["y"]).all(), type(form)
    pd, pl = needed("pandas"), needed("polars")
    logits = dict(zip(table.names, table.logits.T, strict=True))
    for column in _forms(names):
        if isinstance(column, pd.Series):
            frame = (
                pd.DataFrame(logits).assign(name=column.to_list()).astype({"name": column.dtype})
            )
        elif isinstance(column, pl.Series):
            frame = pl.DataFrame(logits).with_columns(column.alias("name"))
        else:
            continue
        assert (read_labels(frame, "name", classes=classes) == table.beside["y"]).all(), frame


def test_names_in_dask_columns(table):
    da = needed("dask.array")
    logits = da.from_array(table.logits, chunks=(90, -1))
    names = table.beside["name"]
    for labels in (names, da.from_array(np.array(names, object), chunks=70)):
        source = open_source(logits, labels=labels, classes=CLASSES)
        assert (source.column("labels") == table.beside["y"]).all()


@pytest.mark.parametrize("container", containers.every("numbered"))
def test_a_fit_on_names_is_the_fit_on_numbers(container, table, tmp_path):
    known = table.beside["y"] >= 0
    names = np.array(table.beside["name"], object)[known]
    rows = Table(table.logits[known], {"name": names}, table.names)
    data = container.write(tmp_path, rows)
    source = open_source(data, labels="name", classes=CLASSES)
    wanted = tepid.temperature_scaling(rows.logits, table.beside["y"][known])
    assert float(tepid.temperature_scaling(source)) == pytest.approx(float(wanted), rel=1e-9)


@pytest.mark.parametrize(
    ("labels", "classes", "wanted"),
    [
        (["0", "2", " 1 ", ""], None, [0, 2, 1, -1]),
        (["0.0", "2.0", "nan", "-1"], None, [0, 2, -1, -1]),
        ([0, "2", None, np.float32(1)], None, [0, 2, -1, 1]),
        ([10, 30, 20, -1], [10, 20, 30], [0, 2, 1, -1]),
        ([10.0, 30.0, np.nan, 20.0], [10, 20, 30], [0, 2, -1, 1]),
        (["10", "30", "20.0", ""], [10, 20, 30], [0, 2, 1, -1]),
        ([10, 30, 20, -1], ["10", "20", "30"], [0, 2, 1, -1]),
        ([-1, 0, 1, None], [-1, 0, 1], [0, 1, 2, -1]),
        ([0.5, 1.5, 2.5, None], [0.5, 1.5, 2.5], [0, 1, 2, -1]),
        ([0, 2, 1, -1], ["a", "b", "c"], [0, 2, 1, -1]),
        ([False, True, True, None], [False, True, "maybe"], [0, 1, 1, -1]),
        (["x", "y", "x", "z"], np.array(["x", "y", "z"]), [0, 1, 0, 2]),
        (
            [datetime.date(2024, 1, 2), None, datetime.date(2023, 1, 2), None],
            [datetime.date(2023, 1, 2), datetime.date(2024, 1, 2), "later"],
            [1, -1, 0, -1],
        ),
        ([None] * 4, None, [-1] * 4),
        ([""] * 4, ["a", "b", "c"], [-1] * 4),
        (np.full(4, "NaT", "M8[ns]"), None, [-1] * 4),
    ],
)
def test_how_labels_are_matched(labels, classes, wanted):
    z = np.arange(12.0).reshape(4, 3) * 2
    found = read_labels(z, labels, classes=classes)
    assert found.dtype == np.int64
    assert found.tolist() == wanted


@pytest.mark.parametrize("classes", [[10, 20, 30], ["07", "1e1", "x"], ["b", "2", "a"]])
def test_a_csv_file_has_the_labels_of_a_typed_table(classes, tmp_path):
    pd = needed("pandas")
    labels = [classes[position] for position in (2, 0, 1, 1)]
    z = np.arange(12.0).reshape(4, 3) * 2
    frame = pd.DataFrame(z, columns=["z0", "z1", "z2"]).assign(y=labels)
    frame.to_csv(tmp_path / "z.csv", index=False)
    frame.to_parquet(tmp_path / "z.parquet")
    for data in (frame, tmp_path / "z.csv", tmp_path / "z.parquet"):
        assert read_labels(data, "y", classes=classes).tolist() == [2, 0, 1, 1]


@pytest.mark.parametrize(
    ("labels", "classes", "match"),
    [
        ([0, 1, 3, 0], None, r"^labels must be in 0..2, got 3 at row 2$"),
        ([0, 1, -2, 0], None, r"^labels must be in 0..2, got -2 at row 2$"),
        ([0, 1, 0.5, 0], None, r"^labels must be whole numbers in 0..2, got 0.5 at row 2$"),
        ([0, 1, None, 7], None, r"^labels must be in 0..2, got 7 at row 3$"),
        ([0, 1, "3", 0], None, r"^labels must be in 0..2, got '3' at row 2$"),
        ([0, 1, "cat", 0], None, r"classes= must give .* got 'cat' at row 2$"),
        (["a", "b", "d", "a"], ["a", "b", "c"], r"classes 'a', 'b', 'c', got 'd' at row 2$"),
        ([1, 2, 0, 1], [1, 2, 3], r"^labels must be one of the classes 1, 2, 3, got 0 at row 2$"),
        ([0, 1], None, r"one entry for each of the 4 rows, got 2"),
        ([], None, r"one entry for each of the 4 rows, got 0"),
        ([["a", "b"], ["a"], ["a"], ["b"]], None, r"labels must be one label per row"),
        ([[0, 1]] * 4, None, r"labels must have the shape \(4,\), got \(4, 2\)"),
        (np.zeros(4, complex), None, r"labels must be class numbers or names, got an array of"),
        (np.ma.masked_array([0, 1, 1, 0]), None, "labels must be a plain array, with -1"),
        ([0, 1, 1, 0], ["a", "b"], "classes must name the 3 classes of the logits, got 2 names"),
        ([0, 1, 1, 0], ["a", "b", "b "], "classes must have different names, got 'b ' twice"),
        ([0, 1, 1, 0], [1, 1.0, 2], "classes must have different names, got 1.0 twice"),
        ([0, 1, 1, 0], ["a", None, "b"], "classes must each have a name, got none at position 1"),
        ([0, 1, 1, 0], "abc", "classes must be a list of the names .*, got 'abc'"),
        ([0, 1, 1, 0], {"a", "b", "c"}, "classes must be a list of the names"),
        ([0, 1, 1, 0], 3, "classes must be a list of the names .*, got 3"),
        ([0, 1, 1, 0], [["a"], ["b"], ["c"]], "classes must be text or numbers, got a list"),
    ],
)
def test_labels_that_cannot_be_matched_are_refused(labels, classes, match):
    z = np.arange(12.0).reshape(4, 3) * 2
    with pytest.raises(tepid.InputError, match=match):
        read_labels(z, labels, classes=classes)


def test_an_object_that_is_no_label_is_refused():
    column = np.empty(2, object)
    column[:] = [["a"], {"b": 1}]
    with pytest.raises(tepid.InputError, match=r"class numbers or names, got \['a'\] at row 0$"):
        read_labels([[2.0, 0.0], [0.0, 1.0]], column)


def test_a_label_or_a_group_of_too_many_digits_is_refused(rng):
    z, y = rng.normal(size=(4, 3)), [0, 1, 2, 0]
    for name, given in {
        "labels": {"labels": [10**5000] * 4},
        "groups": {"groups": [10**5000] * 4},
    }.items():
        with pytest.raises(tepid.InputError, match=f"{name} must be names or numbers, got a num"):
            tepid.temperature_scaling(z, **({"labels": y} | given))


def test_the_number_of_classes_is_checked_where_only_the_rows_tell_it():
    source = open_source(lambda: [np.ones((2, 3))], classes=["a", "b"], labels=["a", "b"])
    with pytest.raises(tepid.InputError, match="classes must name the 3 classes of the logits"):
        source.whole()


@pytest.mark.parametrize(
    "needy", [tepid.temperature_scaling, tepid.summaries.Reliability.of_logits]
)
@pytest.mark.parametrize("unknown", [-1, np.nan, None])
def test_functions_that_need_every_label_refuse_an_unknown_one(needy, unknown, rng):
    match = "^labels must be known, since this function needs a label for every row, got .* row 2$"
    with pytest.raises(tepid.InputError, match=match):
        needy(rng.normal(size=(4, 3)), [0, 1, unknown, 2])


def test_a_row_of_weight_zero_may_have_any_number(rng):
    z, weight = rng.normal(size=(4, 3)), [1, 1, 0, 1]
    for wrong in (7, -3, 0.5, np.inf, np.nan, -1):
        source = open_source(z, labels=[0, 1, wrong, 2], sample_weight=weight)
        assert source.column("labels").tolist() == [0, 1, -1, 2]
        tepid.summaries.Reliability.of_logits(z, [0, 1, wrong, 2], sample_weight=weight)
    named = {"labels": ["a", "b", 7, "c"], "classes": ["a", "b", "c"]}
    source = open_source(z, sample_weight=weight, **named)
    assert source.column("labels").tolist() == [0, 1, -1, 2]
    with pytest.raises(tepid.InputError, match="got 'cow' at row 2"):
        open_source(
            z, labels=["a", "b", "cow", "c"], sample_weight=weight, classes=["a", "b", "c"]
        ).column("labels")


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
def test_unknown_labels_survive_the_second_pass(ending, table, tmp_path):
    data = containers.NUMBERED[ending](tmp_path, table)
    source = open_source(data, labels="name", classes=CLASSES)
    once, again = source.column("labels"), source.column("labels")
    assert (once == again).all()
    assert source.rows == len(once)
    starts = [batch.start for batch in source.batches(50)]
    assert starts == [batch.start for batch in pickle.loads(pickle.dumps(source)).batches(50)]


def test_a_csv_file_with_names_labels_and_quotes(tmp_path):
    path = tmp_path / "z.csv"
    path.write_text('z0,z1,y\n2,0,"big, cat"\n0,1,dog\n"3",1,""\n1,2, dog \n')
    assert read_labels(path, "y", classes=["big, cat", "dog"]).tolist() == [0, 1, -1, 1]
    path.write_text("z0,z1,y\n2,0,dog\n0,x,dog\n")
    with pytest.raises(tepid.InputError, match="hold numbers, got 'x' in column 'z1' at row 1"):
        read_labels(path, "y", classes=["cat", "dog"])


def test_columns_that_are_numbered_are_no_names(rng):
    pd = needed("pandas")
    z = rng.normal(size=(4, 2))
    for names in (["z1", "z2"], ["0", "1"], ["1.5", "x"]):
        frame = pd.DataFrame(z, columns=names)
        assert open_source(frame, columns=names).names is None
    assert open_source(pd.DataFrame(z, columns=["no", "yes"]), columns=["yes", "no"]).names == (
        "yes",
        "no",
    )
    assert open_source(z, classes=["no", "yes"]).names == ("no", "yes")
    assert open_source(z).names is None


def test_a_source_takes_classes_later(rng):
    z = rng.normal(size=(3, 2))
    source = open_source(open_source(z), labels=["b", "a", None], classes=["a", "b"])
    assert source.column("labels").tolist() == [1, 0, -1]
