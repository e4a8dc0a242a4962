"""Rows that belong together: the interval takes the cluster as the unit."""

import json
import math

import numpy as np
import pytest

import tepid


def images(rng, count, pixels, k=4):
    """Logits and labels of images, whose pixels share a temperature and part of their noise."""
    z = 2 * rng.normal(size=(count, pixels, k)) + 1.5 * rng.normal(size=(count, 1, k))
    own = np.exp(0.35 * rng.normal(size=(count, 1, 1)))
    p = np.exp(z / (2 * own))
    p /= p.sum(axis=-1, keepdims=True)
    noise = math.sqrt(0.5) * (rng.normal(size=(count, 1)) + rng.normal(size=(count, pixels)))
    u = 0.5 * (1 + np.vectorize(math.erf)(noise / math.sqrt(2)))
    return z, (p.cumsum(axis=-1) < u[..., None]).sum(axis=-1).clip(max=k - 1)


def width(t):
    return math.log(t.interval[1] / t.interval[0])


@pytest.mark.slow
@pytest.mark.parametrize("count", [20, 60])
def test_intervals_of_clustered_rows_cover(count):
    rng = np.random.default_rng(1)
    z, y = images(rng, 20000, 20)
    truth = tepid.temperature_scaling(z, y, class_axis=-1).value
    hits = {"calibrate": 0, "exact": 0, "pixels": 0}
    for _ in range(400):
        z, y = images(rng, count, 30)
        found = {
            "calibrate": tepid.calibrate(z, y, class_axis=-1),
            "exact": tepid.temperature_scaling(z, y, class_axis=-1),
            "pixels": tepid.calibrate(z.reshape(-1, 4), y.reshape(-1)),
        }
        for name, t in found.items():
            hits[name] += t.interval[0] <= truth <= t.interval[1]
    # 400 draws of a share of .945 have a standard error of .011.
    assert 0.91 < hits["calibrate"] / 400 < 0.98
    assert 0.91 < hits["exact"] / 400 < 0.98
    assert hits["pixels"] / 400 < 0.75


def test_independent_rows_as_clusters_change_little():
    rng = np.random.default_rng(2)
    z = 2 * rng.normal(size=(3000, 5))
    y = (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)
    for method in (tepid.calibrate, tepid.temperature_scaling):
        plain, alone = method(z, y), method(z, y, clusters=np.arange(3000))
        assert alone.value == pytest.approx(plain.value, rel=1e-2)
        assert 0.99 * width(plain) < width(alone) < 1.15 * width(plain)


@pytest.mark.parametrize("scale", [2.0**-9, 1.0, 2.0**9, 2.0**14])
def test_clusters_of_one_row_change_little_at_any_scale(network, scale):
    z, y = scale * network[0], np.where(np.arange(len(network[0])) < 300, network[1], -1)
    apart = tepid.calibrate(z, y, clusters=np.arange(len(z)))
    plain = tepid.calibrate(z, y)
    assert apart.value == pytest.approx(plain.value, rel=0.03)
    assert apart.interval == pytest.approx(plain.interval, rel=0.06)


def test_names_images_and_files_give_the_same_interval(tmp_path):
    z, y = images(np.random.default_rng(3), 40, 25)
    image = tepid.calibrate(z, y, class_axis=-1)
    assert width(image) > 1.3 * width(tepid.calibrate(z.reshape(-1, 4), y.reshape(-1)))
    flat, labels = z.reshape(-1, 4), y.reshape(-1)
    names = np.repeat([f"image {i}" for i in range(40)], 25)
    order = np.random.default_rng(0).permutation(len(flat))
    named = [
        tepid.calibrate(flat, labels, clusters=names),
        tepid.calibrate(flat[order], labels[order], clusters=names[order]),
        tepid.calibrate(
            np.moveaxis(z, -1, 1), y, class_axis=1, clusters=[f"image {i}" for i in range(40)]
        ),
    ]
    rows = np.column_stack([flat, labels, np.repeat(np.arange(40), 25)])
    head = "a_0,a_1,a_2,a_3,y,image"
    np.savetxt(tmp_path / "z.csv", rows, delimiter=",", header=head, comments="", fmt="%.17g")
    np.save(tmp_path / "z.npy", z)
    named.append(tepid.calibrate(tmp_path / "z.csv", "y", clusters="image"))
    named.append(tepid.calibrate(tmp_path / "z.npy", y, class_axis=-1))
    named.append(tepid.calibrate(lambda: iter([z[:15], z[15:]]), labels, class_axis=-1))
    for t in named:
        assert t.value == pytest.approx(image.value, rel=1e-2)
        # Two images may share a bucket by their names, which moves the estimate a little.
        assert width(t) == pytest.approx(width(image), rel=0.1)
    assert named[0].interval == pytest.approx(named[1].interval, rel=1e-6)
    assert named[0].interval == pytest.approx(named[2].interval, rel=1e-6)


def test_shards_and_dask_give_the_same_interval(tmp_path):
    pandas = pytest.importorskip("pandas")
    dask = pytest.importorskip("tepid.engines.dask", reason="Dask is not installed")
    z, y = images(np.random.default_rng(12), 60, 20)
    flat, labels, names = z.reshape(-1, 4), y.reshape(-1), np.repeat(np.arange(60), 20)
    expected = tepid.calibrate(flat, labels, clusters=names)
    cuts = np.array_split(np.random.default_rng(0).permutation(len(flat)), 4)  # clusters are cut
    for part, rows in enumerate(cuts):
        frame = pandas.DataFrame(flat[rows], columns=[f"logit_{k}" for k in range(4)])
        frame.assign(y=labels[rows], image=names[rows]).to_parquet(tmp_path / f"{part}.parquet")
    for engine in (None, dask.Dask()):
        t = tepid.calibrate(tmp_path, "y", clusters="image", engine=engine)
        assert t.interval == pytest.approx(expected.interval, rel=1e-6)


def test_images_of_one_patient_are_one_cluster():
    z, y = images(np.random.default_rng(4), 60, 10)
    same = np.repeat(z[:20], 3, axis=0), np.repeat(y[:20], 3, axis=0)
    copies = tepid.calibrate(*same, class_axis=-1)
    patients = tepid.calibrate(*same, class_axis=-1, clusters=np.repeat(np.arange(20), 3))
    assert width(patients) > 1.4 * width(copies)


def test_a_row_of_weight_two_counts_as_two_rows_of_its_cluster():
    z, y = images(np.random.default_rng(5), 30, 10)
    z, y, names = z.reshape(-1, 4), y.reshape(-1), np.repeat(np.arange(30), 10)
    weight = np.random.default_rng(0).integers(0, 3, len(z))
    weighted = tepid.calibrate(z, y, clusters=names, sample_weight=weight)
    chosen = np.repeat(np.arange(len(z)), weight)
    repeated = tepid.calibrate(z[chosen], y[chosen], clusters=names[chosen])
    assert weighted.interval == pytest.approx(repeated.interval, rel=1e-6)


def test_the_next_step_counts_clusters():
    z, y = images(np.random.default_rng(13), 60, 50)
    few = tepid.calibrate(z, np.where(np.arange(60)[:, None] < 12, y, -1), class_axis=-1)
    more = int(few.next_step.split()[2])
    assert few.next_step == f"Labels of {more} more random clusters would halve the interval."
    assert 12 <= more <= 60  # three times as many, fewer where the prior says something


def test_labels_of_one_cluster_count_as_one_row():
    z, y = images(np.random.default_rng(6), 1, 500)
    with pytest.warns(tepid.CalibrationWarning, match="one cluster, so they count as one row"):
        t = tepid.calibrate(z, y, class_axis=-1)
    assert width(t) > 1
    exact = tepid.temperature_scaling(z, y, class_axis=-1)
    assert exact.interval is None


def test_labeled_images_from_elsewhere_are_clusters_too():
    z, y = images(np.random.default_rng(7), 40, 25)
    within = tepid.calibrate(z, np.where(np.arange(40)[:, None] < 20, y, -1), class_axis=-1)
    beside = tepid.calibrate(z, labeled=(z[:20], y[:20]), class_axis=-1)
    assert beside.interval == pytest.approx(within.interval, rel=1e-3)


def test_batches_give_what_an_array_gives_also_those_without_labels():
    z, y = images(np.random.default_rng(9), 40, 25)
    y[10:] = -1
    expected = tepid.calibrate(z, y, class_axis=-1)
    for cuts in ([10, 20], [7, 33], [1, 2]):
        batches = np.split(z, cuts)
        found = tepid.calibrate(lambda b=batches: iter(b), y.reshape(-1), class_axis=-1)
        assert found.value == pytest.approx(expected.value, rel=1e-5)
        np.testing.assert_allclose(found.interval, expected.interval, rtol=1e-5)


def test_images_of_different_sizes_are_clusters_of_their_own():
    rng = np.random.default_rng(11)
    sized = [images(rng, 1, 1024 * (1 + number % 2)) for number in range(12)]
    labels = np.concatenate([y.reshape(-1) for _, y in sized])
    names = np.concatenate([np.full(y.size, number) for number, (_, y) in enumerate(sized)])
    found = tepid.calibrate(lambda: (z for z, _ in sized), labels, class_axis=-1)
    expected = tepid.calibrate(lambda: (z for z, _ in sized), labels, class_axis=-1, clusters=names)
    assert found.value == pytest.approx(expected.value, rel=1e-5)
    np.testing.assert_allclose(found.interval, expected.interval, rtol=1e-5)


def test_a_known_accuracy_has_the_interval_of_clusters():
    z, _ = images(np.random.default_rng(8), 20, 200)
    pixels = tepid.match_accuracy(z.reshape(-1, 4), 0.6)
    image = tepid.match_accuracy(z, 0.6, class_axis=-1)
    assert image.value == pixels.value
    assert width(image) > 2 * width(pixels)


def test_rows_given_four_times_in_a_cluster_count_once():
    rng = np.random.default_rng(8)
    z = 2 * rng.normal(size=(200, 4))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    four, labels, names = np.repeat(z, 4, axis=0), np.repeat(y, 4), np.repeat(np.arange(200), 4)
    for once, often in (
        (tepid.match_accuracy(z, 0.7), tepid.match_accuracy(four, 0.7, clusters=names)),
        (
            tepid.temperature_scaling(z, y),
            tepid.temperature_scaling(four, labels, clusters=names),
        ),
    ):
        assert often.value == pytest.approx(once.value, rel=1e-5)
        wide, wider = (np.diff(np.log(t.interval))[0] for t in (once, often))
        assert wider == pytest.approx(wide, rel=0.1)


def test_measures_draw_whole_clusters():
    z, y = images(np.random.default_rng(9), 50, 20)
    p = tepid.temperature_scaling(z, y, class_axis=-1)(z.reshape(-1, 4))
    names = np.repeat(np.arange(50), 20)
    plain = tepid.metrics.bootstrap(tepid.metrics.accuracy, y.reshape(-1), p)
    drawn = tepid.metrics.bootstrap(tepid.metrics.accuracy, y.reshape(-1), p, clusters=names)
    assert drawn.value == plain.value
    assert drawn.high - drawn.low > 1.3 * (plain.high - plain.low)
    change = tepid.metrics.difference(tepid.metrics.nll, y.reshape(-1), p, p, clusters=names)
    assert change.low == change.high == 0


@pytest.mark.parametrize(
    ("clusters", "said"),
    [
        (np.arange(5), "clusters must have one entry for each of the 300 rows, got 5"),
        ([1.5] * 300, "clusters must be names or whole numbers, got 1.5"),
        ("image", "clusters must be an array or a file"),
    ],
)
def test_wrong_clusters_are_refused(clusters, said):
    z, y = images(np.random.default_rng(10), 30, 10)
    with pytest.raises(tepid.InputError) as caught:
        tepid.calibrate(z.reshape(-1, 4), y.reshape(-1), clusters=clusters)
    assert said in str(caught.value)


def test_clusters_without_labels_are_refused(tmp_path, monkeypatch, tepid_here):
    z, y = images(np.random.default_rng(14), 30, 10)
    flat, names = z.reshape(-1, 4), np.repeat(np.arange(30), 10)
    said = "clusters must go with labels of the rows, -1 where unknown, got "
    with pytest.raises(tepid.InputError, match=f"{said}none"):
        tepid.calibrate(flat, accuracy=0.6, clusters=names)
    with pytest.raises(tepid.InputError, match=f"{said}labeled"):
        tepid.calibrate(flat, labeled=(flat, y.reshape(-1)), clusters=names)
    monkeypatch.chdir(tmp_path)
    np.savez("z.npz", logits=flat, y=y.reshape(-1), image=names)
    for method, beside in (("uts", ()), ("vector", ("--labels", "y"))):
        run = ("fit", "z.npz", "--method", method, "--clusters", "image", *beside)
        code, _, err = tepid_here(*run)
        assert (code, err) == (
            2, f"tepid: --method {method} must go without --clusters, got both\n"
        )  # fmt: skip
    exact = ("fit", "z.npz", "--method", "temperature", "--clusters", "image", "--labels", "y")
    code, out, _ = tepid_here(*exact, "--json")
    expected = tepid.temperature_scaling(flat, y.reshape(-1), clusters=names)
    assert json.loads(out)["interval"] == pytest.approx(list(expected.interval), rel=1e-9)


def test_clusters_of_measures_are_checked():
    measure, y, p = tepid.metrics.accuracy, [0, 1, 0], [[0.9, 0.1]] * 3
    with pytest.raises(tepid.InputError, match="one for each of the 3 rows, got 2"):
        tepid.metrics.bootstrap(measure, y, p, clusters=[0, 1])
    with pytest.raises(tepid.InputError, match="at least two, got 7 alone"):
        tepid.metrics.bootstrap(measure, y, p, clusters=[7, 7, 7])


def test_the_command_line_takes_clusters(tepid_here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    z, y = images(np.random.default_rng(11), 30, 10)
    np.savez("z.npz", logits=z.reshape(-1, 4), y=y.reshape(-1), image=np.repeat(np.arange(30), 10))
    code, out, err = tepid_here("fit", "z.npz", "--labels", "y", "--clusters", "image", "--json")
    assert (code, err) == (0, "")
    expected = tepid.calibrate(
        z.reshape(-1, 4), y.reshape(-1), clusters=np.repeat(np.arange(30), 10)
    )
    assert json.loads(out)["interval"] == pytest.approx(list(expected.interval), rel=1e-9)
