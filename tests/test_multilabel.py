"""Multi-label rows: each of K columns is a binary problem."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier

import tepid
from tepid.online import Monitor
from tepid.sklearn import CalibratedClassifier

TRUTH = np.array([1.0, 1.5, 2.0, 3.0])
NAMES = ["cat", "dog", "fox", "owl"]


def multilabel(rows=4000, scale=TRUTH, seed=0):
    """Logits that are `scale` times too large, and labels that depend on each other."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(rows, len(TRUTH))) + rng.normal(size=(rows, 1)) - 1
    return z * scale, (rng.random(z.shape) < sigmoid(z)).astype(np.int64)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def test_known_temperatures_are_recovered():
    logits, labels = multilabel()
    t = tepid.calibrate(logits, labels, multilabel="per-label", classes=NAMES)
    assert t.label_names == tuple(NAMES)
    for name, truth in zip(NAMES, TRUTH, strict=True):
        low, high = t.label(name).interval
        assert low < truth < high
    np.testing.assert_allclose(t.per_label, TRUTH, rtol=0.08)
    np.testing.assert_allclose(t(logits), sigmoid(logits / t.per_label), atol=1e-12)
    shared = tepid.calibrate(*multilabel(scale=2.5, seed=1), multilabel=True)
    assert shared.interval[0] < 2.5 < shared.interval[1]
    assert len(set(shared.per_label)) == 1


def test_every_kind_of_evidence_finds_the_temperature():
    logits, labels = multilabel(scale=2.0)
    some = np.where(np.arange(len(labels))[:, None] < 300, labels, -1)
    right = ((logits > 0) == labels).mean()
    older = multilabel(scale=2.0, seed=2)
    found = {
        "labels": tepid.calibrate(logits, some, multilabel=True),
        "labeled": tepid.calibrate(logits, labeled=(logits[:300], labels[:300]), multilabel=True),
        "accuracy": tepid.calibrate(logits, accuracy=(right, 0.003), multilabel=True),
        "reference": tepid.calibrate(logits, reference=logits / 2, multilabel=True),
        "source": tepid.calibrate(logits, source=older, multilabel=True),
    }
    for kind, t in found.items():
        assert t.verdict == "use", kind
        assert math.log(t.value / 2) == pytest.approx(0, abs=0.25), kind
    assert found["labels"].value == pytest.approx(found["labeled"].value, rel=1e-4)


def test_logits_alone_keep_one():
    logits, _ = multilabel(scale=6.0)
    assert tepid.calibrate(logits, multilabel=True).verdict == "keep"
    t = tepid.calibrate(logits, multilabel=True)
    assert (t.value, t.status) == (1.0, "not-identified")
    assert "multi-label" in t.reason
    np.testing.assert_allclose(t(logits), sigmoid(logits), atol=1e-12)


@pytest.mark.slow
def test_the_interval_takes_the_row_as_the_unit():
    """Copies of one column say nothing new, though they are five times as many labels."""
    rng = np.random.default_rng(3)
    hits = {1: 0, 5: 0}
    for _ in range(300):
        z = 2 * rng.normal(size=(150, 2))
        y = (rng.random(z.shape) < sigmoid(z / 2)).astype(int)
        for copies, times in hits.items():
            t = tepid.calibrate(np.tile(z, copies), np.tile(y, copies), multilabel=True)
            hits[copies] = times + (t.interval[0] <= 2 <= t.interval[1])
    assert min(hits.values()) / 300 > 0.91
    assert abs(hits[1] - hits[5]) <= 6


def test_unknown_labels_are_minus_one_or_nan():
    logits, labels = multilabel(500)
    mask = np.random.default_rng(1).random(labels.shape) < 0.6
    one = tepid.calibrate(logits, np.where(mask, labels, -1), multilabel=True)
    two = tepid.calibrate(logits, np.where(mask, labels, np.nan), multilabel=True)
    assert one == two
    flat = tepid.calibrate(
        logits.reshape(-1)[mask.reshape(-1)], labels.reshape(-1)[mask.reshape(-1)]
    )
    labeled_alone = one.evidence["labels"].value, flat.evidence["labels"].value
    assert labeled_alone[0] == pytest.approx(labeled_alone[1], rel=0.1)


def test_tables_files_and_frames_give_the_same(tmp_path):
    pandas = pytest.importorskip("pandas")
    logits, labels = multilabel(600)
    expected = tepid.calibrate(logits, labels, multilabel="per-label", classes=NAMES)
    np.save(tmp_path / "z.npy", logits)
    np.save(tmp_path / "y.npy", labels)
    columns = [f"y_{name}" for name in NAMES]
    frame = pandas.DataFrame(np.hstack([logits, labels]), columns=[*NAMES, *columns])
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    forms = [
        ((tmp_path / "z.npy", tmp_path / "y.npy"), {"classes": NAMES}),
        ((frame[NAMES], frame[columns].to_numpy()), {"columns": NAMES}),
        ((frame, columns), {"columns": NAMES}),
        ((tmp_path / "t.parquet", columns), {"columns": NAMES}),
        ((tmp_path / "t.csv", columns), {"columns": NAMES}),
    ]
    for given, options in forms:
        t = tepid.calibrate(*given, multilabel="per-label", **options)
        assert t.label_names == tuple(NAMES)
        np.testing.assert_allclose(t.per_label, expected.per_label, rtol=1e-6)
        assert t.interval == pytest.approx(expected.interval, rel=0.05)


def test_shards_and_dask_give_what_an_array_gives(tmp_path):
    pandas = pytest.importorskip("pandas")
    dask = pytest.importorskip("tepid.engines.dask", reason="Dask is not installed")
    logits, labels = multilabel(900)
    expected = tepid.calibrate(logits, labels, multilabel="per-label")
    for part, rows in enumerate(np.array_split(logits, 3)):
        frame = pandas.DataFrame(rows, columns=[f"logit_{k}" for k in range(4)])
        frame.to_parquet(tmp_path / f"{part}.parquet")
    threads, cluster = (
        tepid.calibrate(tmp_path, labels, multilabel="per-label", engine=engine)
        for engine in (None, dask.Dask())
    )
    np.testing.assert_allclose(cluster.per_label, threads.per_label, rtol=1e-9)
    assert cluster.interval == pytest.approx(threads.interval, rel=1e-9)
    # The rows of a file fall into other buckets than those of an array.
    np.testing.assert_allclose(threads.per_label, expected.per_label, rtol=1e-2)
    assert threads.interval == pytest.approx(expected.interval, rel=0.05)


def test_weights_and_images():
    logits, labels = multilabel(400)
    weight = np.random.default_rng(0).integers(0, 3, 400)
    weighted = tepid.calibrate(logits, labels, multilabel=True, sample_weight=weight)
    bad = logits.copy()
    bad[weight == 0] = np.nan  # rows of weight zero are not there
    assert tepid.calibrate(bad, labels, multilabel=True, sample_weight=weight) == weighted
    maps = logits.reshape(20, 4, 5, 4)
    t = tepid.calibrate(
        np.moveaxis(maps, -1, 1), np.moveaxis(labels.reshape(maps.shape), -1, 1),
        multilabel=True, class_axis=1,
    )  # fmt: skip
    assert t.value == pytest.approx(
        tepid.calibrate(logits, labels, multilabel=True).value, rel=1e-2
    )
    p = t(np.moveaxis(maps, -1, 1), class_axis=1)
    np.testing.assert_allclose(np.moveaxis(p, 1, -1), sigmoid(maps / t.value), atol=1e-12)


def test_probabilities_of_one_and_zero_stay():
    logits, labels = multilabel(500)
    p = sigmoid(logits)
    p[0, 0], p[1, 1] = 1.0, 0.0
    labels[0, 0], labels[1, 1] = 1, 0
    t = tepid.calibrate(p, labels, multilabel=True, probabilities=True)
    again = t(p, probabilities=True)
    assert (again[0, 0], again[1, 1]) == (1.0, 0.0)
    np.testing.assert_allclose(again[2:], sigmoid(logits[2:] / t.value), atol=1e-9)


def test_outputs_keep_their_dtype_and_device():
    torch = pytest.importorskip("torch")
    logits, labels = multilabel(300)
    t = tepid.calibrate(logits, labels, multilabel="per-label")
    expected = sigmoid(logits / t.per_label)
    assert t(logits.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(t(logits.astype(np.float32)), expected, atol=1e-6)
    tensor = t(torch.from_numpy(logits))
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_allclose(tensor.numpy(), expected, atol=1e-12)


def test_one_label_is_a_binary_classifier():
    logits, labels = multilabel()
    t = tepid.calibrate(logits, labels, multilabel="per-label", classes=NAMES)
    dog = t.label("dog")
    np.testing.assert_allclose(dog(logits[:, 1])[:, 1], t(logits)[:, 1], atol=1e-12)
    expected = dog.expected_performance(logits[:, 1])
    right = ((logits[:, 1] > 0) == labels[:, 1]).mean()
    assert expected.accuracy.value == pytest.approx(right, abs=0.02)
    with pytest.raises(tepid.InputError, match="cat, dog, fox, owl, got 'cow'"):
        t.label("cow")
    with pytest.raises(tepid.InputError, match="none, since it is not multi-label"):
        dog.label("dog")


def test_saved_and_loaded(tmp_path):
    t = tepid.calibrate(*multilabel(500), multilabel="per-label", classes=NAMES)
    t.save(tmp_path / "t.json")
    assert tepid.load(tmp_path / "t.json") == t
    stored = json.loads((tmp_path / "t.json").read_text())
    for wrong in (["a"], ["a", "a"], "ab", [1, 2]):
        (tmp_path / "bad.json").write_text(json.dumps(stored | {"label_names": wrong}))
        with pytest.raises(tepid.InputError, match="label_names"):
            tepid.load(tmp_path / "bad.json")


def test_what_does_not_apply_is_refused():
    logits, labels = multilabel(200)
    t = tepid.calibrate(logits, labels, multilabel=True)
    refused = [
        (lambda: tepid.calibrate(logits[:, 0], labels[:, 0], multilabel=True), "for each label"),
        (lambda: tepid.calibrate(logits, labels[:, :2], multilabel=True), "(200, 4)"),
        (lambda: tepid.calibrate(logits, labels + 1, multilabel=True), "be 0 or 1"),
        (lambda: tepid.calibrate(logits, labels, multilabel="each"), "per-label"),
        (lambda: tepid.calibrate(logits, labels, multilabel=True, groups=np.arange(200)), "groups"),
        (lambda: tepid.calibrate(logits, reference=labels, multilabel=True), "got whole numbers"),
        (lambda: t(logits[:, :3]), "(n, 4)"),
        (lambda: t(logits, groups=np.arange(200)), "groups"),
        (lambda: t.threshold(logits), "t.label(name)"),
        (lambda: t.prediction_sets(logits), "t.label(name)"),
        (lambda: t.expected_performance(logits), "t.label(name)"),
        (lambda: t.risk_coverage(logits), "t.label(name)"),
    ]
    for call, said in refused:
        with pytest.raises(tepid.InputError) as caught:
            call()
        assert said in str(caught.value), said
    two = tepid.calibrate(logits[:, :2], labels[:, :2], multilabel=True)
    with pytest.raises(tepid.InputError, match="multi-label"):
        two.expected_performance(logits[:, :2])  # two labels are not two classes


def test_batches_of_a_function_give_what_an_array_gives():
    logits, labels = multilabel(rows=500)
    batches = [logits[:200], logits[200:]]
    found = tepid.calibrate(lambda: iter(batches), labels, multilabel="per-label")
    expected = tepid.calibrate(logits, labels, multilabel="per-label")
    np.testing.assert_allclose(found.per_label, expected.per_label, rtol=1e-5)
    with pytest.raises(tepid.InputError, match="a column for each label with multilabel"):
        tepid.calibrate(lambda: iter([logits[:, :1]]), multilabel=True)


@pytest.mark.parametrize("kind", ["monitor", "report", "compare", "scaling", "exact", "sklearn"])
def test_what_is_for_rows_of_one_label_says_so(kind, tmp_path):
    logits, labels = multilabel(rows=300)
    t = tepid.calibrate(logits, labels, multilabel="per-label")
    one = "must be of rows with one label here, got a multi-label one"
    use = r"got (shape )?\(300, 4\); for labels \(n, K\) use tepid.calibrate with multilabel=True"
    page = tmp_path / "page.html"
    calls = {
        "monitor": [(one, lambda: Monitor.from_reference(logits, t, chunk=100))],
        "report": [
            (one, lambda: tepid.report.write(page, logits, temperatures=[t])),
            (use, lambda: tepid.report.write(page, logits, labels=labels)),
        ],
        "compare": [(use, lambda: tepid.compare(logits, labels))],
        "scaling": [
            (use, lambda: tepid.scaling.vector(logits, labels)),
            (use, lambda: tepid.scaling.isotonic(logits, labels)),
        ],
        "exact": [
            (use, lambda: tepid.calibrate(logits, labels)),
            (use, lambda: tepid.temperature_scaling(logits, labels)),
        ],
        "sklearn": [
            (use, lambda: CalibratedClassifier(LogisticRegression()).fit(logits, labels)),
            (
                "must give one label per row, got FrozenEstimator of several; for labels",
                lambda: CalibratedClassifier(
                    FrozenEstimator(MultiOutputClassifier(LogisticRegression()).fit(logits, labels))
                ).fit(logits, labels[:, 0]),
            ),
        ],
    }
    for said, call in calls[kind]:
        with pytest.raises(tepid.InputError, match=said):
            call()
    assert not page.exists()


def test_the_first_bad_row_is_named():
    logits, labels = multilabel(200)
    logits[7, 2] = np.nan
    with pytest.raises(tepid.InputError, match=r"nan for label 2.*row 7|row 7.*nan for label 2"):
        tepid.calibrate(logits, labels, multilabel=True)
    labels[9, 1] = 3
    with pytest.raises(tepid.InputError, match=r"3 for label 1"):
        tepid.calibrate(np.nan_to_num(logits), labels, multilabel=True)


def test_an_error_about_an_entry_names_its_row_and_label():
    logits, labels = multilabel(200)
    labels[7, 2], logits[7, 2] = 1, -np.inf
    with pytest.raises(tepid.InputError, match=r"for label 2 at row 7$"):
        tepid.calibrate(logits, labels, multilabel="per-label")
    logits[7, 2] = 1e300
    with pytest.raises(tepid.InputError, match=r"for label 2 at row 7$"):
        tepid.calibrate(logits, labels, multilabel=True)


def test_labels_in_arrays_of_objects_may_be_none_but_not_text():
    logits, labels = multilabel(200)
    known = np.where(labels > 5, None, labels)
    known[50:, 1] = None
    expected = tepid.calibrate(logits, np.array(known, float), multilabel=True)
    assert tepid.calibrate(logits, known, multilabel=True) == expected
    for wrong in (labels.astype(str), np.where(labels, "yes", None)):
        with pytest.raises(tepid.InputError, match=r"^labels must be 0 or 1.*text"):
            tepid.calibrate(logits, wrong, multilabel=True)


def test_columns_in_another_order_than_the_labels_are_refused(tepid_here, tmp_path):
    logits, labels = multilabel(200)
    t = tepid.calibrate(logits, labels, multilabel="per-label", classes=NAMES)
    t.save(tmp_path / "t.json")
    frame = pd.DataFrame(logits, columns=NAMES)
    frame.to_csv(tmp_path / "z.csv", index=False)
    np.testing.assert_allclose(t(frame, columns=NAMES), t(logits))
    with pytest.raises(tepid.InputError, match="columns must be in the order"):
        t(frame, columns=NAMES[::-1])
    out = tmp_path / "p.npy"
    given = ("apply", f"{tmp_path}/t.json", f"{tmp_path}/z.csv", "-o", str(out), "--columns")
    code, _, err = tepid_here(*given, ",".join(NAMES[::-1]))
    assert code == 2
    assert "columns must be in the order" in err
    assert not out.exists()
    assert tepid_here(*given, ",".join(NAMES))[0] == 0


def test_every_1024th_row_is_a_unit_of_its_own():
    logits, labels = multilabel(rows=40 * 1024)
    known = np.full(labels.shape, -1)
    known[::1024] = labels[::1024]
    t = tepid.calibrate(logits, known, multilabel=True)
    rows = tepid.calibrate(logits, known, multilabel=True, clusters=np.arange(len(logits)))
    assert t.warnings == ()
    assert math.log(t.interval[1] / t.interval[0]) == pytest.approx(
        math.log(rows.interval[1] / rows.interval[0]), rel=0.1
    )


def test_the_command_line_fits_and_applies(tepid_here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    logits, labels = multilabel(500)
    np.save("z.npy", logits)
    np.save("y.npy", labels)
    np.savez("both.npz", logits=logits, labels=labels)
    code, out, err = tepid_here(
        "fit",
        "z.npy",
        "--labels",
        "y.npy",
        "--per-label",
        "--classes",
        ",".join(NAMES),
        "-o",
        "t.json",
    )
    assert (code, err) == (0, "")
    assert "rows × labels" in out
    assert "owl" in out
    t = tepid.load("t.json")
    assert tepid_here("apply", "t.json", "z.npy", "-o", "p.npy")[0] == 0
    np.testing.assert_allclose(np.load("p.npy"), sigmoid(logits / t.per_label), atol=1e-12)
    np.save("q.npy", sigmoid(logits))
    assert tepid_here("apply", "t.json", "q.npy", "--probabilities", "-o", "p.npy")[0] == 0
    np.testing.assert_allclose(np.load("p.npy"), sigmoid(logits / t.per_label), atol=1e-9)
    code, out, _ = tepid_here("fit", "z.npy", "--labeled", "both.npz", "--multilabel", "--json")
    expected = tepid.calibrate(logits, labeled=(logits, labels), multilabel=True)
    assert json.loads(out)["temperature"] == pytest.approx(expected.value, rel=1e-9)
    for command in (("decide", "z.npy", "-c", "t.json"), ("performance", "z.npy", "-c", "t.json")):
        code, _, err = tepid_here(*command)
        assert code == 2
        assert "multi-label" in err
    groups = ("--labels", "y.npy", "--multilabel", "--groups", "g.npy", "-o", "no.json")
    np.save("g.npy", np.arange(len(logits)) // 100)
    code, _, err = tepid_here("fit", "z.npy", *groups)
    assert (code, err) == (2, "tepid: groups must be left out with multilabel, got some\n")
    assert not (tmp_path / "no.json").exists()
    code, _, err = tepid_here("fit", "z.npy", "--multilabel", "--report", "r.html")
    assert (code, err) == (2, "tepid: --report must go with rows of one label, got --multilabel\n")


def test_an_array_for_multilabel_is_refused():
    with pytest.raises(tepid.InputError, match="multilabel must be True, False or"):
        tepid.calibrate(np.zeros((4, 3)), multilabel=np.ones((4, 3)))
