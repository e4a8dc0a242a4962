"""Skin lesions as an application: a run is calibrated without labels, reported on, and asked."""

import json
import shutil

import numpy as np
import pytest

import tepid
from tepid.lab import figures, runs, sets

CLASSES = ("akiec", "bcc", "bkl", "df", "mel", "nv", "vasc")
SETTINGS = ("network=resnet", "depth=8", "size=16", "pretrained=false", "epochs=2")


@pytest.fixture
def run(tmp_path, network):
    """A finished run whose labels cannot be read."""
    folder = tmp_path / "run"
    folder.mkdir()
    np.save(folder / "logits.npy", network[0][:500])
    (folder / "labels.npy").write_bytes(b"not to be opened")
    (folder / "run.json").write_text(json.dumps({"network": "resnet", "data": "isic"}))
    return folder


def test_the_parts_are_those_of_the_paper():
    inside, outside = runs.split_rows(4006)
    assert (len(inside), len(outside)) == (801, 3205)
    assert sorted([*inside, *outside]) == list(range(4006))


def test_calibrating_does_not_open_the_labels(run, network):
    found = runs.calibrate(run)
    order = np.random.default_rng([0, 0]).permutation(500)
    assert found.value == tepid.uts(network[0][np.sort(order[:100])]).value
    assert tepid.load(run / "calibration.json") == found


def test_scores_are_of_the_rows_that_were_not_calibrated_on(run, network):
    z, y = (column[:500] for column in network)
    np.save(run / "labels.npy", y)
    found = runs.calibrate(run)
    before, after = runs.score(sets.open_run(run), found)
    outside = np.sort(np.random.default_rng([0, 0]).permutation(500)[100:])
    assert after.temperature == found.value
    assert after.ece == pytest.approx(tepid.metrics.ece(y[outside], found(z[outside])), rel=1e-5)
    plain = tepid.summaries.Reliability.of_logits(z[outside], y[outside])
    assert before == runs.Scores(1.0, tepid.metrics.nll(plain), tepid.metrics.ece(plain))


def test_the_report_shows_photographs_with_their_names_and_the_notice(run, network, rng):
    np.save(run / "labels.npy", network[1][:500])
    images = rng.integers(0, 256, (500, 4, 4, 3), dtype=np.uint8)
    names = [*CLASSES, "a<b", "c", "d", "e", "f"]
    page = runs.write_report(run, runs.calibrate(run), images, names).read_text()
    assert "Not a medical device" in page
    assert "Melanocytic nevus" in page
    assert page.count("<img src=") == 24
    with pytest.raises(tepid.InputError, match="one for each of 500 test rows, got 499"):
        runs.write_report(run, runs.calibrate(run), images[1:], names)


def test_too_few_rows_to_calibrate_on_are_refused(run):
    np.save(run / "logits.npy", np.zeros((2, 7)))
    with pytest.raises(tepid.InputError, match="run must have at least 3 test rows, got 2"):
        runs.calibrate(run)


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """An archive of photographs in which brightness tells the lesion."""
    pytest.importorskip("torch", reason="training needs torch")
    pytest.importorskip("PIL", reason="photographs need Pillow")
    rng = np.random.default_rng(0)
    y = np.arange(140) % 7
    x = 40 + 25 * y[:, None, None, None] + rng.normal(size=(140, 16, 16, 3)) * 20
    path = tmp_path_factory.mktemp("photographs") / "lesions.npz"
    x = x.clip(0, 255).astype(np.uint8)
    np.savez(path, x=x, y=y.astype(np.uint8), lesion=np.arange(140), classes=CLASSES)
    return path


@pytest.fixture(scope="module")
def finished(photographs, tmp_path_factory):
    from tepid.lab import datasets, named, training  # noqa: PLC0415  # the fixture has looked for torch

    recipe = named("resnet152-isic").with_settings(SETTINGS)
    read = datasets.read(recipe, photographs, 0, download=False, checked=True)
    folder = tmp_path_factory.mktemp("finished")
    training.train(recipe, read, folder)
    runs.calibrate(folder)
    return folder


@pytest.fixture
def trained(finished, tmp_path):
    """A run that a test may change."""
    return shutil.copytree(finished, tmp_path / "isic")


def test_one_command_goes_from_photographs_to_the_report(photographs, tmp_path, tepid_here):
    folder = tmp_path / "run[red]:cat:"  # no markup and no emoji
    small = [part for setting in SETTINGS for part in ("--set", setting)]
    code, out, err = tepid_here("lab", "isic", "--data", photographs, "-o", folder, *small)
    assert code == 0, err
    assert out.rstrip().endswith(runs.NOTICE)
    assert f"wrote {folder / 'calibration.json'} and {folder / 'report.html'}\n" in out
    before = runs.score(sets.open_run(folder), tepid.load(folder / "calibration.json"))[0]
    line = next(line for line in out.splitlines() if line.startswith("uncalibrated"))
    numbers = ("1.000", f"{before.nll:.3f}", f"{before.ece:.3f}", f"{100 * before.ece:.2f}")
    assert tuple(line.split()[1:]) == numbers
    assert "<img src=" in (folder / "report.html").read_text()


def test_a_finished_run_is_loaded_and_not_trained_again(trained, photographs, tepid_here):
    written = (trained / "weights.pt").stat().st_mtime_ns
    (trained / "calibration.json").unlink()
    code, out, err = tepid_here("lab", "isic", "--data", photographs, "-o", trained, "--json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert said["notice"] == runs.NOTICE
    assert said["scores"]["uncalibrated"]["temperature"] == 1.0
    assert said["scores"]["uts"]["temperature"] == tepid.load(trained / "calibration.json").value
    assert (trained / "weights.pt").stat().st_mtime_ns == written
    assert (trained / "report.html").is_file()


@pytest.mark.slow
def test_the_galleries_of_a_run_show_the_images_it_was_tested_on(
    trained, photographs, tmp_path, tepid_here
):
    pytest.importorskip("matplotlib", reason="figures need matplotlib")
    arguments = ("--data", photographs, "-o", tmp_path / "figures", "--json")
    code, out, err = tepid_here("lab", "figures", trained, *arguments)
    assert (code, err) == (0, "")
    written = [path.rsplit("/", 1)[1] for path in json.loads(out)]
    assert written[-2:] == ["isic-gallery-2.png", "isic-gallery-3.png"]
    with np.load(photographs) as stored:
        tested = stored["x"][np.load(trained / "rows.npy")]
    drawn = dict(figures.of_set(sets.open_run(trained), tested))
    image = drawn["gallery-2"].axes[0].images[0].get_array()
    assert (tested == image).all(axis=(1, 2, 3)).sum() == 1
    code, _, err = tepid_here("lab", "figures", trained, trained, *arguments)
    assert (code, err) == (2, "tepid: --data must be that of one run, got 2 folders\n")


def test_photographs_of_another_run_are_refused(trained, photographs, tmp_path, tepid_here):
    with np.load(photographs) as stored:
        others = dict(stored) | {"y": stored["y"][::-1]}
    np.savez(tmp_path / "others.npz", **others)
    arguments = ("--data", tmp_path / "others.npz", "-o", trained)
    code, _, err = tepid_here("lab", "isic", *arguments)
    assert code == 2
    assert err.startswith(f"tepid: data must be those that {trained} was trained on, got others")


def test_a_photograph_gets_the_calibrated_softmax_of_its_logits(
    trained, photographs, tmp_path, tepid_here
):
    from PIL import Image  # noqa: PLC0415  # the fixture has looked for it

    photo = tmp_path / "photo[red]:cat:.png"  # no markup and no emoji
    row = int(np.load(trained / "rows.npy")[3])
    with np.load(photographs) as stored:
        Image.fromarray(stored["x"][row]).save(photo)
    code, out, _ = tepid_here("lab", "predict", trained, photo, "--json")
    assert code == 0
    said = json.loads(out)
    (prediction,) = said["predictions"]
    t = tepid.load(trained / "calibration.json").value
    for value, key in ((t, "probabilities"), (1.0, "uncalibrated")):
        e = np.exp(np.load(trained / "logits.npy")[3].astype(float) / value)
        assert list(prediction[key].values()) == pytest.approx(e / e.sum(), rel=1e-3)
    assert list(prediction["probabilities"]) == runs.full_names(CLASSES)
    assert said["notice"] == runs.NOTICE
    code, out, _ = tepid_here("lab", "predict", trained, photo)
    assert photo.name in out
    assert out.rstrip().endswith(runs.NOTICE)
    shares = [float(line.split()[-4]) for line in out.splitlines()[1:8]]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(100, abs=0.05)


def test_what_cannot_be_predicted_is_refused(trained, tmp_path, tepid_here):
    (tmp_path / "text.jpg").write_text("no picture")
    code, _, err = tepid_here("lab", "predict", trained, tmp_path / "text.jpg")
    assert code == 2
    assert err.startswith(f"tepid: image must be a picture file, got {tmp_path / 'text.jpg'}")
    (trained / "calibration.json").unlink()
    code, _, err = tepid_here("lab", "predict", trained, tmp_path / "text.jpg")
    assert err == ("tepid: run must have calibration.json, which tepid lab isic writes, got none\n")
    record = json.loads((trained / "run.json").read_text())
    record["config"]["data"] = "mnist"
    (trained / "run.json").write_text(json.dumps(record))
    code, _, err = tepid_here("lab", "predict", trained, tmp_path / "text.jpg")
    assert err == "tepid: run must be of skin lesions, got one of mnist\n"
    del record["config"]
    (trained / "run.json").write_text(json.dumps(record))
    code, _, err = tepid_here("lab", "predict", trained, tmp_path / "text.jpg")
    assert err == f"tepid: run.json must have a config, got none in {trained}\n"
