"""On Spark every method gives the temperature that threads give, and no row leaves it."""

import os
import runpy
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import tepid
from tepid.sources.spark import open_spark, probabilities_expression

sql = pytest.importorskip("pyspark.sql", reason="Spark is not installed")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
if shutil.which("java") is None and not os.environ.get("CI"):
    pytest.skip("Spark needs Java, which is not installed", allow_module_level=True)

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
ROWS, CLASSES = 1501, 4
METHODS = {
    "logits": tepid.uts,
    "labels": lambda z: tepid.temperature_scaling(z, Y if isinstance(z, np.ndarray) else "label"),
    "calibrate": tepid.calibrate,
    "calibrate+labels": lambda z: tepid.calibrate(
        z, KNOWN if isinstance(z, np.ndarray) else "known"
    ),
    "calibrate+accuracy": lambda z: tepid.calibrate(z, accuracy=(0.6, 0.01)),
    "calibrate+labeled": lambda z: tepid.calibrate(z, labeled=(Z[:60], Y[:60])),
    "calibrate+source": lambda z: tepid.calibrate(z, source=(0.8 * Z, Y)),
}
_rng = np.random.default_rng(6)
Z = (3 * _rng.normal(size=(ROWS, CLASSES))).astype(np.float32)
Y = (Z / 2 + _rng.gumbel(size=Z.shape)).argmax(axis=1)
KNOWN = np.where(np.arange(ROWS) % 7, -1, Y)
SITE = np.where(np.arange(ROWS) % 3, "here", "there")


@pytest.fixture(scope="module")
def session():
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = (
            sql.SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.execution.arrow.maxRecordsPerBatch", "97")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


@pytest.fixture(scope="module")
def lists(session):
    table = pa.table(
        {
            "logits": list(Z),
            "label": Y,
            "known": pa.array([None if k < 0 else int(k) for k in KNOWN], pa.int64()),
            "site": SITE,
            "twice": np.full(ROWS, 2.0),
            "id": range(ROWS),
        }
    )
    return session.createDataFrame(table).repartition(3)


@pytest.fixture(scope="module")
def columns(session):
    table = {f"class_{k}": Z[:, k] for k in range(CLASSES)} | {"label": Y, "site": SITE}
    return session.createDataFrame(pa.table(table)).repartition(3)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_gives_the_same(lists, name):
    alone = METHODS[name](Z)
    found = METHODS[name](lists)
    assert found.value == pytest.approx(alone.value, rel=1e-6)
    assert found.evidence.keys() == alone.evidence.keys()


def test_a_column_for_each_class_is_read_too(columns):
    assert tepid.uts(columns).value == pytest.approx(tepid.uts(Z).value, rel=1e-9)


@pytest.mark.parametrize("partitions", [1, 40])
def test_the_number_of_partitions_does_not_matter(lists, partitions):
    t = tepid.match_accuracy(lists.repartition(partitions), 0.6)  # forty are added as a tree
    assert t.value == pytest.approx(tepid.match_accuracy(Z, 0.6).value, rel=1e-9)


def test_empty_and_one_row_partitions_do_not_matter(lists):
    some = lists.where("id < 3").repartition(8)
    t = tepid.match_accuracy(some, 0.6)
    assert t.value == pytest.approx(tepid.match_accuracy(Z[:3], 0.6).value, rel=1e-9)


def test_groups_are_a_column(lists):
    t = tepid.temperature_scaling(lists, "label", groups="site")
    alone = tepid.temperature_scaling(Z, Y, groups=SITE)
    for name, own in alone.groups.items():
        assert t.groups[name].value == pytest.approx(own.value, rel=1e-9)


def test_weights_are_a_column(lists):
    t = tepid.uts(lists, sample_weight="twice")
    assert t.value == pytest.approx(tepid.uts(Z).value, rel=1e-9)


def test_threads_can_read_it_too(lists):
    t = tepid.match_accuracy(lists, 0.6, engine=tepid.Threads(1))
    assert t.value == pytest.approx(tepid.match_accuracy(Z, 0.6).value, rel=1e-9)


def test_a_column_that_was_not_named_is_not_computed(lists):
    broken = lists.withColumn("label", sql.functions.raise_error(sql.functions.lit("read")))
    assert tepid.match_accuracy(broken, 0.6).value == pytest.approx(
        tepid.match_accuracy(Z, 0.6).value, rel=1e-9
    )


def test_a_bad_row_is_named_with_its_partition(session):
    wrong = Z.copy()
    wrong[5, 2] = np.nan
    frame = session.createDataFrame(pa.table({"logits": list(wrong)})).coalesce(1)
    with pytest.raises(tepid.InputError, match=r"^partition 0 must be finite.* class 2 at row 5$"):
        tepid.uts(frame)


def test_lists_of_unequal_length_are_named(session):
    frame = session.createDataFrame([([1.0, 2.0],), ([1.0, 2.0, 3.0],)], "logits array<float>")
    with pytest.raises(tepid.InputError, match=r"partition . must have 2 classes"):
        tepid.uts(frame.coalesce(1))


def test_a_frame_without_rows_is_refused(lists):
    with pytest.raises(tepid.InputError, match="at least one row"):
        tepid.uts(lists.where("id < 0"))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda f: tepid.temperature_scaling(f, Y), "labels must name a column of the Spark frame"),
        (lambda f: tepid.uts(f, groups="place"), "groups must name a column"),
        (lambda f: tepid.calibrate(f, models=[f]), "other models must be columns in Spark"),
        (lambda f: tepid.calibrate(f, models=[Z]), "Spark"),
        (lambda f: tepid.calibrate(f, reference=Y), "Spark"),
        (lambda f: tepid.calibrate(f, Y), "labels must name a column of the Spark frame"),
        (lambda f: tepid.uts(f.select("id")), "must name the logits"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(lists, call, sentence):
    with pytest.raises(tepid.InputError, match=sentence):
        call(lists)


def test_a_worker_that_dies_is_an_error_of_one_line(lists):
    def die(batches):
        os._exit(9)
        yield from batches

    broken = lists.select("logits").mapInArrow(die, "logits array<float>")
    said = r"^Spark must finish its job, got Python worker exited unexpectedly"
    with pytest.raises(tepid.InputError, match=said) as error:
        tepid.uts(broken)
    assert "\n" not in str(error.value)
    assert error.value.__cause__ is not None


def test_an_error_in_a_function_of_the_user_is_named(lists):
    def fail(batches):
        raise KeyError("height")
        yield from batches

    broken = lists.select("logits").mapInArrow(fail, "logits array<float>")
    said = r"^Spark must finish its job, got .*KeyError: 'height'$"
    with pytest.raises(tepid.InputError, match=said):
        tepid.uts(broken)


@pytest.mark.parametrize("method", ["dtypes", "selectExpr", "select", "mapInArrow"])
def test_spark_that_ends_at_any_call_is_an_error_of_one_line(method):
    class Ended:
        """A frame whose Java process is killed before one of the calls."""

        @property
        def dtypes(self):
            return self._call("dtypes", [("logits", "array<float>")])

        def selectExpr(self, *_):  # noqa: N802  # the name in Spark
            return self._call("selectExpr", self)

        def select(self, *_):
            return self._call("select", self)

        def mapInArrow(self, *_):  # noqa: N802  # the name in Spark
            return self._call("mapInArrow", self)

        def toLocalIterator(self):  # noqa: N802  # the name in Spark
            return iter(())

        def _call(self, name, result):
            if name == method:
                raise ConnectionRefusedError(111, "Connection refused")
            return result

    def fetch():
        part = open_spark(Ended(), {}, None).parts[0].select(frozenset())
        return list(part.batches(10))

    said = r"^Spark must finish its job, got \[Errno 111\] Connection refused$"
    with pytest.raises(tepid.InputError, match=said):
        fetch()


def test_probabilities_are_read_as_such(session):
    p = np.exp(Z.astype(float))
    p /= p.sum(axis=1, keepdims=True)
    frame = session.createDataFrame(pa.table({"p": list(p)}))
    lazy = tepid.sources.open_source(frame, probabilities=True)
    assert tepid.uts(lazy).value == pytest.approx(tepid.uts(Z).value, rel=1e-5)


def test_an_expression_of_spark_applies_a_temperature(lists):
    t = tepid.match_accuracy(lists, 0.6)
    expression = probabilities_expression(t.value)
    applied = lists.selectExpr("id", f"{expression} AS p").toArrow()
    order = np.argsort(applied["id"].to_numpy())
    p = np.stack(applied["p"].to_pylist())[order]
    np.testing.assert_allclose(p, t(Z), atol=1e-6)


def test_the_example_for_spark_submit_runs(session, lists, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # which Spark does not follow
    logits, calibrated = (str(tmp_path / name) for name in ("logits", "calibrated"))
    lists.write.parquet(logits)
    path = Path(__file__).parents[1] / "examples" / "spark_fit.py"
    runpy.run_path(str(path))["main"](logits, calibrated, 0.7)
    t = tepid.load("calibration.json")
    assert t.value == pytest.approx(tepid.calibrate(Z, accuracy=0.7).value, rel=1e-9)
    written = session.read.parquet(calibrated).toArrow()
    order = np.argsort(written["id"].to_numpy())
    p = np.stack(written["probabilities"].to_pylist())[order]
    np.testing.assert_allclose(p, t(Z), atol=1e-6)
