"""The same table gives the same temperature in every container, and labels are never guessed."""

import re
import zipfile
from dataclasses import replace

import numpy as np
import pytest

import tepid
from tests import containers
from tests.containers import TABLES, every
from tests.needs import needed

TABLE = containers.made()
Z, Y = TABLE.logits, TABLE.beside["y"]
PLAIN = TABLE.without("w", "site")  # y, id and latency_ms beside the logits
UNNUMBERED = replace(PLAIN, names=("a", "b", "c", "d"))
LABEL_FREE = {
    "uts": tepid.uts,
    "match_accuracy": lambda z, **options: tepid.match_accuracy(z, 0.9, **options),
    "calibrate": tepid.calibrate,
    "calibrate+accuracy": lambda z, **options: tepid.calibrate(z, accuracy=0.9, **options),
}
SOME = np.where(np.arange(len(Y)) % 2, Y, -1)  # half of the labels are unknown
OTHER = replace(
    TABLE.without(*TABLE.beside),
    logits=np.round(4 * (Z + 6 * np.random.default_rng(5).normal(size=Z.shape))) / 4,
)
ANY_NAME = re.compile(r"[^\s,:;'\"()]*\.(?:parquet|csv|feather|arrow|ipc)(?:\.\w+)?")


@pytest.fixture(scope="module", autouse=True)
def _spark_stops():
    yield
    containers.stop_spark()


@pytest.fixture(scope="module")
def known():
    """The temperatures of the array."""
    found = {name: method(Z) for name, method in LABEL_FREE.items()}
    found["temperature_scaling"] = tepid.temperature_scaling(Z, Y)
    found["calibrate+labels"] = tepid.calibrate(Z, SOME)
    assert 1.0 not in {t.value for t in found.values()}  # a T that is kept always agrees
    return {name: t.value for name, t in found.items()}


def _same(value):
    return pytest.approx(value, rel=1e-7)


def _refusal(method, *args, **options):
    with pytest.raises(tepid.InputError) as caught:
        method(*args, **options)
    said = str(caught.value)
    assert "\n" not in said
    return said


# --- one table, every container


@pytest.mark.parametrize("name", LABEL_FREE)
@pytest.mark.parametrize("container", every())
def test_every_container_gives_the_same_temperature(container, name, known, tmp_path):
    t = LABEL_FREE[name](container.write(tmp_path, TABLE.without(*TABLE.beside)))
    assert (t.samples, t.classes) == (len(Z), 4)
    assert t.value == _same(known[name])


@pytest.mark.parametrize("container", every())
def test_every_container_gives_the_same_temperature_with_labels(container, known, tmp_path):
    data = container.write(tmp_path, PLAIN)
    assert tepid.temperature_scaling(data, container.labels(PLAIN)).value == _same(
        known["temperature_scaling"]
    )


@pytest.mark.parametrize(
    "container", [param for param in every() if not param.id.startswith(("spark", "dask frame"))]
)
def test_labels_may_be_an_array_beside_any_container(container, known, tmp_path):
    data = container.write(tmp_path, PLAIN)
    assert tepid.temperature_scaling(data, Y).value == _same(known["temperature_scaling"])
    assert tepid.temperature_scaling(data, Y.tolist()).value == _same(known["temperature_scaling"])


def _with_labels(values):
    return replace(PLAIN, beside=PLAIN.beside | {"y": values})


@pytest.mark.parametrize("unknown", [-1, np.nan], ids=["-1", "NaN"])
@pytest.mark.parametrize("container", every())
def test_labels_may_be_unknown_in_every_container(container, unknown, known, tmp_path):
    table = _with_labels(np.where(SOME < 0, unknown, SOME))
    data = container.write(tmp_path, table)
    t = tepid.calibrate(data, container.labels(table))
    assert t.value == _same(known["calibrate+labels"])
    assert t.evidence["labels"].weight > 0
    with pytest.raises(tepid.InputError, match="labels"):
        tepid.temperature_scaling(data, container.labels(table))


_EMPTY = {
    "csv": lambda folder, t: containers.write_csv(folder / "z.csv", t),
    "pandas": lambda _, t: containers.pandas_numbered(t),
    "polars": lambda _, t: needed("polars").DataFrame(
        {name: np.asarray(values).tolist() for name, values in t.columns().items()}
    ),
    "arrow": lambda _, t: containers.arrow_numbered(t),
    "duckdb": lambda _, t: needed("duckdb").from_arrow(containers.arrow_numbered(t)),
    "parquet": lambda folder, t: containers.write_parquet(
        folder / "z.parquet", containers.arrow_numbered(t)
    ),
    "feather": lambda folder, t: containers.write_feather(
        folder / "z.feather", containers.arrow_numbered(t)
    ),
    "dask": containers.dask_numbered,
}


@pytest.mark.parametrize("names", [None, ("ant", "bee", "cat", "dog")], ids=["numbers", "names"])
@pytest.mark.parametrize("kind", _EMPTY)
def test_an_empty_cell_is_an_unknown_label(kind, names, known, tmp_path):
    cells = [None if k < 0 else names[k] if names else int(k) for k in SOME]
    data = _EMPTY[kind](tmp_path, _with_labels(np.array(cells, object)))
    assert tepid.calibrate(data, "y", classes=names).value == _same(known["calibrate+labels"])


@pytest.mark.parametrize(
    "container", [param for param in every() if not param.id.startswith(("spark", "dask", "url"))]
)  # one URL holds one table
def test_models_and_a_reference_may_be_in_every_container(container, tmp_path):
    expected = tepid.calibrate(Z, models=[OTHER.logits], reference=OTHER.logits)
    assert set(expected.evidence) == {"logits", "models", "reference"}
    paths = [tmp_path / name for name in ("own", "model", "reference")]
    for path in paths:
        path.mkdir()
    tables = (TABLE.without(*TABLE.beside), OTHER, OTHER)
    own, model, reference = (
        container.write(path, table) for path, table in zip(paths, tables, strict=True)
    )
    found = tepid.calibrate(own, models=[model], reference=reference)
    assert found.value == _same(expected.value)
    beside = tepid.calibrate(Z, models=[model], reference=reference)
    assert beside.value == _same(expected.value)


@pytest.mark.parametrize(
    "container", [param for param in every() if not param.id.startswith(("spark", "dask"))]
)
def test_labeled_rows_and_an_older_set_may_be_in_every_container(container, tmp_path):
    expected = tepid.calibrate(Z, labeled=(Z, Y), source=(Z, Y))
    (tmp_path / "other").mkdir()
    data = container.write(tmp_path / "other", PLAIN)
    pair = (data, container.labels(PLAIN))
    assert tepid.calibrate(Z, labeled=pair, source=pair).value == _same(expected.value)


@pytest.mark.parametrize("container", every())
def test_every_container_can_be_opened_first(container, known, tmp_path):
    data = container.write(tmp_path, PLAIN)
    opened = tepid.sources.open_source(data, labels=container.labels(PLAIN))
    assert tepid.temperature_scaling(opened).value == _same(known["temperature_scaling"])
    assert tepid.uts(opened).value == _same(known["uts"])


# --- columns that are no logits


@pytest.mark.parametrize("name", LABEL_FREE)
@pytest.mark.parametrize("container", every("archive", *TABLES))
def test_other_columns_do_not_matter_to_a_label_free_method(container, name, known, tmp_path):
    values = []
    for folder, table in (("with", PLAIN), ("without", PLAIN.without("y"))):
        (tmp_path / folder).mkdir()
        values.append(LABEL_FREE[name](container.write(tmp_path / folder, table)).value)
    assert values[0] == _same(known[name])
    assert values[0] == values[1]


@pytest.mark.parametrize("column", ["label", "weight"])
@pytest.mark.parametrize("container", every(*TABLES))
def test_no_column_is_used_for_its_name(container, column, known, tmp_path):
    beside = {column: Y + 0.5}
    data = container.write(tmp_path, replace(TABLE, beside=beside))
    assert tepid.uts(data).value == _same(known["uts"])
    with pytest.raises(tepid.InputError, match="labels"):
        tepid.temperature_scaling(data)


# --- which columns are logits


def _without_file(said, data):
    """An error message with the file, where there is one, called `logits`."""
    for path in data if isinstance(data, list) else [data]:
        if isinstance(path, (str, containers.Path)):
            said = said.replace(str(path), "logits")
    return ANY_NAME.sub("logits", said)


@pytest.fixture(scope="module")
def unnumbered_refusal():
    return _refusal(tepid.uts, containers.arrow_numbered(UNNUMBERED))


@pytest.mark.parametrize("container", every("numbered"))
def test_columns_without_numbers_are_refused_in_the_same_words(
    container, unnumbered_refusal, tmp_path
):
    data = container.write(tmp_path, UNNUMBERED)
    said = _refusal(tepid.uts, data)
    assert "columns" in said
    for name in UNNUMBERED.columns():
        assert re.search(rf"\b{name}\b", said)
    assert _without_file(said, data) == unnumbered_refusal


@pytest.mark.parametrize("container", every("numbered"))
def test_columns_are_chosen_by_their_names(container, known, tmp_path):
    data = container.write(tmp_path, UNNUMBERED)
    chosen = {"columns": ["a", "b", "c", "d"]}
    for name, method in LABEL_FREE.items():
        assert method(data, **chosen).value == _same(known[name])
    assert tepid.temperature_scaling(data, "y", **chosen).value == _same(
        known["temperature_scaling"]
    )


@pytest.mark.parametrize("container", every("numbered"))
def test_chosen_columns_are_classes_in_the_order_of_the_choice(container, tmp_path):
    data = container.write(tmp_path, UNNUMBERED)
    expected = tepid.temperature_scaling(Z[:, [3, 1, 0, 2]], Y).value
    found = tepid.temperature_scaling(data, "y", columns=["d", "b", "a", "c"]).value
    assert found == _same(expected)


@pytest.mark.parametrize("container", every("numbered"))
def test_a_chosen_column_that_is_not_there_is_refused(container, tmp_path):
    data = container.write(tmp_path, UNNUMBERED)
    said = _refusal(tepid.uts, data, columns=["a", "b", "nothing"])
    assert "nothing" in said
    assert "columns" in said


@pytest.mark.parametrize("container", every("lists"))
def test_the_column_of_lists_is_chosen_by_its_name(container, known, tmp_path):
    data = container.write(tmp_path, PLAIN)
    for columns in ("logits", ["logits"]):
        assert tepid.uts(data, columns=columns).value == _same(known["uts"])
    assert "nothing" in _refusal(tepid.uts, data, columns="nothing")


@pytest.mark.parametrize(
    "names",
    [
        ("0", "1", "2", "3"),
        ("1", "2", "3", "4"),
        ("logit_1", "logit_2", "logit_3", "logit_4"),
        ("z0", "z1", "z2", "z3"),
    ],
    ids=lambda names: names[0],
)
@pytest.mark.parametrize("container", every("numbered"))
def test_numbered_columns_are_classes_by_number(container, names, known, tmp_path):
    order = (names[2], "y", names[0], "id", names[3], names[1], "latency_ms")
    data = container.write(tmp_path, replace(PLAIN, names=names, order=order))
    assert tepid.temperature_scaling(data, "y").value == _same(known["temperature_scaling"])


@pytest.mark.parametrize("container", every("numbered"))
def test_ten_comes_after_nine(container, tmp_path):
    many = containers.made(classes=12)
    order = (*sorted(many.names), "y")  # logit_10 before logit_2
    data = container.write(tmp_path, replace(many, order=order))
    expected = tepid.temperature_scaling(many.logits, many.beside["y"]).value
    assert tepid.temperature_scaling(data, "y").value == _same(expected)


@pytest.mark.parametrize("names", [("z0", "z1", "z3", "z4"), ("z2", "z3", "z4", "z5")])
@pytest.mark.parametrize("container", every("numbered"))
def test_numbers_with_a_gap_are_refused(container, names, tmp_path):
    data = container.write(tmp_path, replace(PLAIN, names=names))
    assert "columns" in _refusal(tepid.uts, data)


@pytest.mark.parametrize("container", every("numbered"))
def test_two_sets_of_numbered_columns_are_refused(container, known, tmp_path):
    p = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
    beside = {"y": Y} | {f"prob_{k}": p[:, k] for k in range(4)}
    data = container.write(tmp_path, replace(TABLE, beside=beside))
    said = _refusal(tepid.uts, data)
    for candidate in ("logit_", "prob_", "columns"):
        assert candidate in said
    t = tepid.uts(data, columns="logit_*")
    assert t.value == _same(known["uts"])


@pytest.mark.parametrize("container", every("lists"))
def test_two_columns_of_lists_are_refused(container, known, tmp_path):
    data = container.write(tmp_path, replace(TABLE, beside={"embedding": Z[:, :2]}))
    said = _refusal(tepid.uts, data)
    for candidate in ("logits", "embedding", "columns"):
        assert candidate in said
    assert tepid.uts(data, columns="logits").value == _same(known["uts"])


@pytest.mark.parametrize("container", every("numbered"))
def test_named_columns_are_set_aside_before_logits_are_looked_for(container, known, tmp_path):
    beside = {"fold_0": Y, "fold_1": TABLE.beside["w"]}
    data = container.write(tmp_path, replace(TABLE, beside=beside))
    for candidate in ("logit_", "fold_"):
        assert candidate in _refusal(tepid.uts, data)
    t = tepid.temperature_scaling(data, "fold_0")  # fold_1 alone is no set of classes
    assert t.value == _same(known["temperature_scaling"])


# --- weights and groups


def _assert_same_groups(found, expected):
    assert found.value == _same(expected.value)
    assert set(found.groups) == set(expected.groups) == {"clinic", "field"}
    for name, own in expected.groups.items():
        assert found.groups[name].value == _same(own.value)


@pytest.mark.parametrize("container", every(*TABLES))
def test_weights_and_groups_are_columns_of_the_table(container, tmp_path):
    data = container.write(tmp_path, TABLE)
    named = {"sample_weight": "w", "groups": "site"}
    arrays = {"sample_weight": TABLE.beside["w"], "groups": TABLE.beside["site"]}
    _assert_same_groups(tepid.uts(data, **named), tepid.uts(Z, **arrays))
    _assert_same_groups(
        tepid.temperature_scaling(data, "y", **named), tepid.temperature_scaling(Z, Y, **arrays)
    )


@pytest.mark.parametrize("container", every("archive"))
def test_weights_are_a_member_of_the_archive(container, tmp_path):
    data = container.write(tmp_path, TABLE)
    w = TABLE.beside["w"]
    found = tepid.temperature_scaling(data, "y", sample_weight="w").value
    assert found == _same(tepid.temperature_scaling(Z, Y, sample_weight=w).value)
    found = tepid.uts(data, sample_weight="w").value
    assert found == _same(tepid.uts(Z, sample_weight=w).value)


@pytest.mark.parametrize("kind", ["parquet", "csv", "pandas", "folder of parquet"])
def test_a_named_column_goes_with_an_array(kind, tmp_path):
    data = containers.NUMBERED[kind](tmp_path, TABLE)
    w, site = TABLE.beside["w"], TABLE.beside["site"]
    expected = tepid.uts(Z, sample_weight=w, groups=site)
    _assert_same_groups(tepid.uts(data, sample_weight="w", groups=site), expected)
    _assert_same_groups(tepid.uts(data, sample_weight=w, groups="site"), expected)


@pytest.mark.parametrize("role", ["labels", "sample_weight", "groups"])
@pytest.mark.parametrize("container", every("archive", *TABLES))
def test_a_name_that_is_not_there_is_refused(container, role, tmp_path):
    data = container.write(tmp_path, PLAIN)
    with pytest.raises(tepid.InputError, match="nothing") as caught:
        tepid.temperature_scaling(data, **({"labels": "y"} | {role: "nothing"}))
    assert role in str(caught.value)


# --- a label-free method never reads labels


def _overwrite(path, start, length):
    content = bytearray(path.read_bytes())
    assert length > 0
    content[start : start + length] = b"\xa5" * length
    path.write_bytes(content)


def _damage_npz(path):
    y = np.load(path)["y"]
    _overwrite(path, path.read_bytes().index(y.tobytes()), y.nbytes)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() == "y.npy"
    return path


def _damaged_npz(folder):
    return _damage_npz(containers.write_npz(folder / "z.npz", PLAIN))


def _damaged_npz_folder(folder):
    parts = containers.npz_parts(folder, PLAIN)
    for path in containers.paths_in(parts)[1:]:
        _damage_npz(path)
    return parts


def _damaged_hdf5(folder):
    path = containers.write_hdf5(folder / "z.h5", PLAIN)
    with needed("h5py").File(path) as file:
        chunk = file["y"].id.get_chunk_info(0)
        where = chunk.byte_offset, chunk.size
    _overwrite(path, *where)
    with needed("h5py").File(path) as file, pytest.raises(OSError, match=r"filter|checksum|read"):
        file["y"][:]
    return path


def _damaged_zarr(folder):
    path = containers.write_zarr(folder / "z.zarr", PLAIN)
    chunks = [chunk for chunk in (path / "y").rglob("*") if chunk.name.isdigit()]
    assert chunks
    for chunk in chunks:
        chunk.write_bytes(b"no chunk")
    return path


def _damaged_tensors(path):
    """Negative labels: such a file has no checksum for them."""
    _overwrite(path, path.read_bytes().index(Y.tobytes()), Y.nbytes)
    return path


def _damaged_parquet(folder, table=None):
    path = containers.write_parquet(folder / "z.parquet", table or containers.arrow_numbered(PLAIN))
    pq = needed("pyarrow.parquet")
    group = pq.ParquetFile(path).metadata.row_group(0)
    column = next(
        group.column(k) for k in range(group.num_columns) if group.column(k).path_in_schema == "y"
    )
    start = column.dictionary_page_offset or column.data_page_offset
    _overwrite(path, start, column.total_compressed_size)
    with pytest.raises(OSError):  # noqa: PT011  # the words depend on the version of pyarrow
        pq.read_table(path, columns=["y"])
    return path


def _unreadable_csv(folder):
    text = replace(PLAIN, beside=PLAIN.beside | {"y": ["?"] * len(Y)})
    return containers.write_csv(folder / "z.csv", text)


def _fail(_):
    raise RuntimeError("the labels were computed")


def _failing_dask_frame(folder):
    frame = containers.dask_numbered(folder, PLAIN.without("y"))
    return frame.assign(y=frame["id"].map_partitions(_fail, meta=("y", "int64")))


def _failing_dask_lists(folder):
    frame = containers.dask_list(folder, PLAIN.without("y"))
    return frame.assign(y=frame["id"].map_partitions(_fail, meta=("y", "int64")))


def _failing_duckdb(_):
    relation = needed("duckdb").from_arrow(containers.arrow_numbered(PLAIN.without("y")))
    return relation.project("*, CAST(error('the labels were computed' || id) AS INTEGER) AS y")


def _failing_spark(folder):
    frame = containers.SPARK_NUMBERED["spark"](folder, PLAIN.without("y"))
    expr = needed("pyspark.sql.functions").expr
    return frame.withColumn("y", expr("int(raise_error('the labels were computed'))"))


UNREADABLE = {
    "npz": _damaged_npz,
    "folder of npz": _damaged_npz_folder,
    "h5": _damaged_hdf5,
    "zarr": _damaged_zarr,
    "safetensors": lambda folder: _damaged_tensors(
        containers.write_safetensors(folder / "z.safetensors", PLAIN)
    ),
    "pt": lambda folder: _damaged_tensors(containers.write_pt(folder / "z.pt", PLAIN)),
    "parquet": _damaged_parquet,
    "parquet, lists": lambda folder: _damaged_parquet(folder, containers.arrow_list(PLAIN)),
    "csv": _unreadable_csv,
    "dask frame": _failing_dask_frame,
    "dask frame, lists": _failing_dask_lists,
    "duckdb": _failing_duckdb,
    "spark": _failing_spark,
}
_SLOW = (pytest.mark.slow, pytest.mark.filterwarnings("ignore"))


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=_SLOW if kind == "spark" else ()) for kind in UNREADABLE]
)
def test_labels_that_cannot_be_read_do_not_matter_without_them(kind, known, tmp_path):
    data = UNREADABLE[kind](tmp_path)
    for name, method in LABEL_FREE.items():
        assert method(data).value == _same(known[name])


@pytest.mark.parametrize("kind", [k for k in UNREADABLE if not k.startswith(("dask", "duck", "s"))])
def test_labels_that_cannot_be_read_are_refused_where_they_are_named(kind, tmp_path):
    data = UNREADABLE[kind](tmp_path)
    _refusal(tepid.temperature_scaling, data, "y")


def test_a_label_array_of_dask_is_computed_only_where_it_is_used(tmp_path):
    da = needed("dask.array")
    z = containers.dask_array(tmp_path, PLAIN)
    y = da.from_array(Y, chunks=90).map_blocks(_fail, dtype=Y.dtype, meta=np.empty(0, Y.dtype))
    opened = tepid.sources.open_source(z, labels=y)
    assert tepid.uts(opened).value == _same(tepid.uts(Z).value)
