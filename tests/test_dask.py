"""On Dask every method gives the temperature that threads give, whatever the partitions are."""

import itertools
import os
import pickle
import signal
import warnings

import numpy as np
import pytest

import tepid
from tepid.engines.dask import Dask
from tepid.lab.odds import from_odds
from tepid.sources import Batch, Part, Source

dask = pytest.importorskip("dask", reason="Dask is not installed")
da = pytest.importorskip("dask.array", reason="Dask is not installed")
dd = pytest.importorskip("dask.dataframe", reason="Dask is not installed")
pd = pytest.importorskip("pandas")

ROWS, CLASSES = 3001, 6
CUTS = {
    "even": (600, 600, 600, 600, 601),
    "uneven": (1, 2000, 10, 990),
    "with empty ones": (0, 1500, 0, 0, 1501, 0),
    "of one row": (1, 1, 2998, 1),
    "one": (3001,),
    "many": (100,) * 30 + (1,),
}


def _calibrated(z, y, **evidence):
    """`calibrate` without its warnings on weak evidence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tepid.CalibrationWarning)
        return tepid.calibrate(z, y, **evidence)


def _some(y):
    """Labels of which four in five are unknown."""
    return (y + 1) * (y % 5 == 0) - 1


METHODS = {
    "logits": lambda z, y: tepid.uts(z),
    "labels": tepid.temperature_scaling,
    "accuracy": lambda z, y: tepid.match_accuracy(z, 0.6),
    "odds": lambda z, y: from_odds(z),
    "calibrate": lambda z, y: tepid.calibrate(3 * z),
    "calibrate+labels": lambda z, y: _calibrated(z, _some(y)),
    "calibrate+accuracy": lambda z, y: _calibrated(z, None, accuracy=(0.6, 0.01)),
    "calibrate+models": lambda z, y: _calibrated(z, None, models=[1.5 * z**3, z**3 - z]),
    "calibrate+reference": lambda z, y: _calibrated(z, None, reference=z**3 - z),
    "calibrate+labeled": lambda z, y: _calibrated(z, None, labeled=(z[:60], y[:60])),
    "calibrate+source": lambda z, y: _calibrated(1.5 * z, None, source=(z, y)),
    "calibrate+all": lambda z, y: _calibrated(
        z, _some(y), accuracy=0.6, models=[1.5 * z**3], reference=z**3 - z, source=(z, y)
    ),
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    z = (3 * rng.normal(size=(ROWS, CLASSES))).astype(np.float32)
    return z, (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)


@pytest.fixture(scope="module")
def alone(rows):
    return {name: method(*rows).value for name, method in METHODS.items()}


def _softmax(z):
    p = np.exp(z.astype(np.float64))
    return p / p.sum(axis=1, keepdims=True)


@pytest.mark.slow
@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("name", METHODS)
def test_every_method_gives_the_same_on_every_cut(rows, alone, name, cuts):
    z, y = (da.from_array(column, chunks=(cuts, *column.shape[1:])) for column in rows)
    assert METHODS[name](z, y).value == pytest.approx(alone[name], rel=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_gives_the_same(rows, alone, name):
    z, y = (da.from_array(column, chunks=(700, *column.shape[1:])) for column in rows)
    assert METHODS[name](z, y).value == pytest.approx(alone[name], rel=1e-6)


@pytest.mark.parametrize("kind", ["models", "reference", "judge", "labels"])
def test_evidence_in_memory_goes_with_rows_on_dask(rows, kind):
    z, y = rows
    evidence = {
        "models": {"models": [z**3 - z]},
        "reference": {"reference": z**3 - z},
        "judge": {"reference": _some(y)},
        "labels": {"labels": _some(y)},
    }[kind]
    labels = evidence.pop("labels", None)
    lazy = da.from_array(z, chunks=(700, CLASSES))
    found, whole = (_calibrated(data, labels, **evidence) for data in (lazy, z))
    assert found.value == pytest.approx(whole.value, rel=1e-6)
    assert found.interval == pytest.approx(whole.interval, rel=1e-6)


def test_rows_of_a_data_frame_are_matched_by_id_on_threads(rows, frame):
    z, y = rows
    order = np.random.default_rng(1).permutation(ROWS)[:2000]
    answers = pd.DataFrame({"id": order, "label": y[order]})
    lazy = dd.from_pandas(frame.drop(columns="y"), npartitions=5)
    known = np.full(ROWS, -1)
    known[order] = y[order]
    with pytest.raises(tepid.InputError, match="partitions of the logits, of known lengths"):
        tepid.calibrate(lazy, answers, ids="id")
    found = _calibrated(lazy, answers, ids="id", reference=answers, engine=tepid.Threads(1))
    assert found.value == pytest.approx(_calibrated(z, known, reference=known).value, rel=1e-6)


def test_classes_in_several_chunks_are_brought_together(rows, alone):
    z = da.from_array(rows[0], chunks=(700, 2))
    assert tepid.uts(z).value == pytest.approx(alone["logits"], rel=1e-9)


def test_labels_may_be_cut_elsewhere_or_be_in_memory(rows, alone):
    z = da.from_array(rows[0], chunks=(700, CLASSES))
    for labels in (da.from_array(rows[1], chunks=999), rows[1]):
        assert tepid.temperature_scaling(z, labels).value == pytest.approx(
            alone["labels"], rel=1e-9
        )


def test_binary_logits_of_one_dimension_are_read(rows):
    z = rows[0][:, 0]
    t = tepid.match_accuracy(da.from_array(z, chunks=500), 0.7)
    assert t.value == pytest.approx(tepid.match_accuracy(z, 0.7).value, rel=1e-9)


def test_probabilities_are_read_as_such(rows):
    p = _softmax(rows[0])
    lazy = tepid.sources.open_source(da.from_array(p, chunks=(700, CLASSES)), probabilities=True)
    here = tepid.sources.open_source(p, probabilities=True)
    assert tepid.uts(lazy).value == pytest.approx(tepid.uts(here).value, rel=1e-9)


def test_what_is_no_probability_is_named_with_its_partition(rows):
    p = _softmax(rows[0])
    p[705, 1] = -1
    lazy = tepid.sources.open_source(da.from_array(p, chunks=(700, CLASSES)), probabilities=True)
    with pytest.raises(tepid.InputError, match=r"partition 1 must .* row 5"):
        tepid.uts(lazy)


@pytest.fixture(scope="module")
def frame(rows):
    table = pd.DataFrame(rows[0], columns=[f"class_{k}" for k in range(CLASSES)])
    table["y"], table["id"] = rows[1], np.arange(ROWS)
    table["site"] = np.where(np.arange(ROWS) % 3, "here", "there")
    return table


def test_a_data_frame_has_its_labels_and_groups_in_columns(rows, frame):
    lazy = tepid.temperature_scaling(dd.from_pandas(frame, npartitions=5), "y", groups="site")
    here = tepid.temperature_scaling(*rows, groups=frame["site"].to_numpy())
    assert lazy.value == pytest.approx(here.value, rel=1e-9)
    for name, t in here.groups.items():
        assert lazy.groups[name].value == pytest.approx(t.value, rel=1e-9)


def test_a_data_frame_may_hold_the_logits_as_lists(rows, alone):
    table = pd.DataFrame({"logits": list(rows[0]), "y": rows[1]})
    with dask.config.set({"dataframe.convert-string": False}):  # which writes lists as text
        lazy = dd.from_pandas(table, npartitions=4)
    assert tepid.temperature_scaling(lazy, "y").value == pytest.approx(alone["labels"], rel=1e-9)


def test_a_partition_that_a_filter_leaves_empty_changes_nothing(rows, frame):
    lazy = dd.from_pandas(frame, npartitions=5)
    t = tepid.uts(lazy[lazy["id"] < 1000])
    assert t.value == pytest.approx(tepid.uts(rows[0][:1000]).value, rel=1e-9)


def test_an_unknown_column_is_named(frame):
    lazy = dd.from_pandas(frame, npartitions=2)
    with pytest.raises(tepid.InputError, match=r"groups must name a column .*'place'"):
        tepid.uts(lazy, groups="place")


def test_the_bad_row_is_named_with_its_partition(rows):
    z = rows[0].copy()
    z[1203, 4] = np.inf
    with pytest.raises(tepid.InputError, match=r"^partition 2 must be finite.* class 4 at row 3$"):
        tepid.uts(da.from_array(z, chunks=(600, CLASSES)))


def test_labels_that_are_too_few_are_counted(rows):
    z, y = da.from_array(rows[0], chunks=(600, CLASSES)), da.from_array(rows[1][:9], chunks=5)
    with pytest.raises(tepid.InputError, match=r"labels must have .* 3001 rows, got 9"):
        tepid.temperature_scaling(z, y)


@pytest.mark.parametrize("kind", ["models", "reference"])
def test_other_models_with_other_partitions_are_refused(rows, kind):
    z, other = da.from_array(rows[0], chunks=(600, 6)), da.from_array(rows[0], chunks=(700, 6))
    with pytest.raises(tepid.InputError, match="other models must have the partitions of the log"):
        tepid.calibrate(z, **{kind: [other] if kind == "models" else other})


@pytest.mark.slow
def test_row_groups_of_one_parquet_file_are_parts(tmp_path):
    z = np.random.default_rng(0).normal(size=(9000, 4096)).astype(np.float32)
    table = pd.DataFrame({"logits": list(z)})
    table.to_parquet(tmp_path / "z.parquet", row_group_size=1000)
    source = tepid.sources.open_source(tmp_path / "z.parquet")
    assert len(source.parts) > 1
    assert sum(part.rows for part in source.parts) == 9000
    found = tepid.match_accuracy(tmp_path / "z.parquet", 0.01, engine=Dask())
    alone = tepid.match_accuracy(z, 0.01)
    assert found.value == pytest.approx(alone.value, rel=1e-9)


def test_files_that_are_not_counted_take_evidence_of_their_own_alone(rows, tmp_path):
    for number, part in enumerate(np.array_split(rows[0], 3)):
        np.savetxt(tmp_path / f"{number}.csv", part, delimiter=",")
    assert tepid.uts(tmp_path, engine=Dask()).samples == ROWS
    found = _calibrated(tmp_path, None, accuracy=0.6, engine=Dask())
    assert found.value == pytest.approx(_calibrated(rows[0], None, accuracy=0.6).value, rel=1e-6)


def test_an_array_of_no_rows_is_refused():
    with pytest.raises(tepid.InputError, match="at least one row"):
        tepid.uts(da.zeros((0, 3), chunks=(5, 3)))


def test_only_summaries_travel(rows):
    sizes = []

    def done(key, result, *_):
        if dask.utils.key_split(key).startswith("tepid-"):
            sizes.append(len(pickle.dumps(result)))

    with dask.callbacks.Callback(posttask=done):
        tepid.match_accuracy(da.from_array(np.tile(rows[0], (40, 1)), chunks=(30000, CLASSES)), 0.6)
    assert sizes
    assert max(sizes) < 40_000  # a partition has 720,000 bytes


# ---- on a cluster of two processes, which fail


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    )
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


def _shards(rows, faults=()):
    ends = np.linspace(0, ROWS, 8).astype(int)
    parts = [
        _Shard(rows[a:b], f"shard {i}", dict(faults).get(i))
        for i, (a, b) in enumerate(itertools.pairwise(ends))
    ]
    return Source(tuple(parts), classes=CLASSES)


class _Shard(Part):
    """Rows that are read well, but for a fault the first time."""

    portable = True
    rows = None

    def __init__(self, logits, name, fault=None):
        self.logits, self.name, self.fault, self.rows = logits, name, fault, len(logits)

    def batches(self, _size):
        if self.fault:
            self.fault()
        yield Batch(self.logits, name=self.name)


class _Once:
    """Something that goes wrong once on this machine, whoever does it."""

    def __init__(self, marker, wrong):
        self.marker, self.wrong = str(marker), wrong

    def __call__(self):
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        self.wrong()


def _die():
    os.kill(os.getpid(), signal.SIGKILL)


def _fail():
    raise OSError(5, "the disk was away for a moment")


def _forbidden():
    raise tepid.InputError("shard 3 must be whole, got a damaged file")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["logits", "accuracy"])
def test_a_cluster_gives_the_same(client, rows, alone, name):
    engine = Dask(client)
    method = {
        "logits": tepid.uts,
        "accuracy": lambda z, **o: tepid.match_accuracy(z, 0.6, **o),
    }
    t = method[name](_shards(rows[0]), engine=engine)
    assert t.value == pytest.approx(alone[name], rel=1e-9)


@pytest.mark.slow
def test_a_task_that_fails_once_is_tried_again(client, rows, alone, tmp_path):
    source = _shards(rows[0], {2: _Once(tmp_path / "failed", _fail)})
    t = tepid.uts(source, engine=Dask(client))
    assert (tmp_path / "failed").exists()
    assert t.value == pytest.approx(alone["logits"], rel=1e-9)


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_nothing(client, rows, alone, tmp_path):
    source = _shards(rows[0], {4: _Once(tmp_path / "killed", _die)})
    t = tepid.uts(source, engine=Dask(client))
    assert (tmp_path / "killed").exists()
    assert t.value == pytest.approx(alone["logits"], rel=1e-9)


@pytest.mark.slow
def test_a_part_that_kills_every_worker_is_an_error_of_one_line(client, rows):
    source = _shards(rows[0], {4: _die})
    with pytest.raises(tepid.InputError, match=r"^the Dask workers must stay .* memory$") as error:
        tepid.uts(source, engine=Dask(client))
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_a_corrupt_shard_is_named_and_not_tried_again(client, rows):
    source = _shards(rows[0], {3: _forbidden})
    with pytest.raises(tepid.InputError, match="shard 3 must be whole"):
        tepid.uts(source, engine=Dask(client))
