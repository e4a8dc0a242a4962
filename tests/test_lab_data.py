"""Images: read from the published formats, split and changed as the paper does."""

import dataclasses
import hashlib

import numpy as np
import pytest

import tepid
from tests import laboratory

torch = pytest.importorskip("torch", reason="the images are tensors of PyTorch")

from tepid.lab import datasets  # noqa: E402  # after the skip
from tepid.lab.datasets import as_images, augment, normalization  # noqa: E402

RNG = np.random.default_rng(11)


def _is_learnable(found):
    """Whether every image has the bright line that its label says, the right way up."""
    lines = found.pixels.float().mean(dim=(1, 3)).argmax(dim=1)
    return torch.equal(lines, found.labels % found.pixels.shape[2])


@pytest.mark.usefixtures("torchvision")
@pytest.mark.parametrize("classes", [10, 100])
def test_cifar_is_read_from_its_pickles(tmp_path, classes):
    name = f"cifar{classes}"
    laboratory.write_cifar(tmp_path, classes)
    found = datasets.read_torchvision(name, tmp_path, download=False, checked=False)
    assert found.train.pixels.shape == (200 if classes == 10 else 40, 3, 32, 32)
    assert found.test.pixels.shape == (40, 3, 32, 32)
    assert found.names == tuple(f"class {k}" for k in range(classes))
    assert _is_learnable(found.train)
    assert _is_learnable(found.test)
    assert not found.checked


@pytest.mark.usefixtures("torchvision")
@pytest.mark.parametrize("name", ["cifar10", "cifar100", "svhn"])
def test_files_of_another_checksum_are_refused(tmp_path, name):
    if name == "svhn":
        laboratory.write_svhn(tmp_path)
    else:
        laboratory.write_cifar(tmp_path, int(name.removeprefix("cifar")))
    with pytest.raises(tepid.InputError, match=f"must have the files of {name}, got: .*corrupted"):
        datasets.read_torchvision(name, tmp_path, download=False, checked=True)


def test_files_of_the_right_checksum_are_taken(tmp_path, torchvision, monkeypatch):
    laboratory.write_svhn(tmp_path)
    known = {}
    for split, (url, file, _) in torchvision.datasets.SVHN.split_list.items():
        here = (tmp_path / file).read_bytes() if (tmp_path / file).exists() else b""
        known[split] = [url, file, hashlib.md5(here, usedforsecurity=False).hexdigest()]
    monkeypatch.setattr(torchvision.datasets.SVHN, "split_list", known)
    assert datasets.read_torchvision("svhn", tmp_path, download=False, checked=True).checked


@pytest.mark.usefixtures("torchvision")
def test_svhn_is_read_with_its_zeros(tmp_path):
    found = datasets.read_torchvision(
        "svhn", laboratory.write_svhn(tmp_path), download=False, checked=False
    )
    assert found.train.pixels.shape == found.test.pixels.shape == (40, 3, 32, 32)
    assert _is_learnable(found.train)
    assert found.test.labels.tolist() == [row % 10 for row in range(40)]


@pytest.mark.usefixtures("torchvision")
@pytest.mark.parametrize(("name", "kind"), [("mnist", "MNIST"), ("fashion-mnist", "FashionMNIST")])
def test_mnist_is_read_from_its_idx_files(tmp_path, name, kind):
    laboratory.write_mnist(tmp_path, kind)
    found = datasets.read_torchvision(name, tmp_path, download=False, checked=True)
    assert found.train.pixels.shape == (40, 1, 28, 28)
    assert len(found.names) == 10
    assert _is_learnable(found.train)
    assert _is_learnable(found.test)
    assert not found.checked  # there are checksums for what is fetched alone


@pytest.mark.usefixtures("torchvision")
def test_what_is_not_there_is_not_fetched_unasked(tmp_path, monkeypatch):
    def fetch(*_, **__):
        raise AssertionError("it was fetched")

    monkeypatch.setattr("urllib.request.urlopen", fetch)
    for name in ("mnist", "fashion-mnist", "cifar10", "cifar100", "svhn"):
        with pytest.raises(tepid.InputError, match=f"must have the files of {name}, got: Dataset"):
            datasets.read_torchvision(name, tmp_path, download=False, checked=True)


def test_data_that_are_not_known_are_refused(tmp_path):
    with pytest.raises(tepid.InputError, match=r"data must be cifar10, .* or isic, got imagenet"):
        datasets.read_torchvision("imagenet", tmp_path, download=False, checked=True)


@pytest.fixture(scope="module")
def challenge(tmp_path_factory):
    pytest.importorskip("PIL", reason="photographs are read by Pillow")
    return laboratory.write_lesions(tmp_path_factory.mktemp("isic"))


def _lesions(path, size, seed, *, keep_lesions):
    changed = {"size": size, "keep_lesions": keep_lesions}
    return datasets.read_lesions(
        path, dataclasses.replace(tepid.lab.named("resnet152-isic"), **changed), seed
    )


def test_lesions_are_read_from_the_challenge_s_folder(challenge):
    found = _lesions(challenge, 48, 0, keep_lesions=False)
    assert (len(found.train), len(found.test)) == (36, 24)
    assert found.train.pixels.shape[1:] == (3, 48, 48)
    assert found.names == laboratory.LESIONS
    assert found.test.labels.tolist() == [row // 2 % 7 for row in found.rows]
    bright = found.test.pixels.float().mean(dim=(1, 3)).argmax(dim=1)
    assert (bright - found.test.labels).abs().max() <= 1  # they are resized and compressed


def test_lesions_are_kept_together_when_asked(challenge):
    found = _lesions(challenge, 8, 0, keep_lesions=True)
    assert {row // 2 for row in found.rows} & {r // 2 for r in range(60)} - set(
        found.rows // 2
    ) == set()
    assert all(row ^ 1 in found.rows for row in found.rows)  # two photographs of each
    apart = _lesions(challenge, 8, 0, keep_lesions=False)
    assert not all(row ^ 1 in apart.rows for row in apart.rows)


def test_another_seed_splits_the_lesions_otherwise(challenge):
    rows = [_lesions(challenge, 8, seed, keep_lesions=False).rows.tolist() for seed in (0, 0, 1)]
    assert rows[0] == rows[1] != rows[2]


def test_lesions_are_read_from_an_archive_of_small_photographs(tmp_path):
    labels = (np.arange(50) % 7).astype(np.uint8)
    x = laboratory.pixels(RNG, labels, 16, 3).transpose(0, 2, 3, 1)
    kinds = np.array([name.lower() for name in laboratory.LESIONS])
    np.savez(tmp_path / "small.npz", x=x, y=labels, lesion=np.arange(50) // 2, classes=kinds)
    found = _lesions(tmp_path / "small.npz", 16, 0, keep_lesions=False)
    assert len(found.train) == 30
    assert _is_learnable(found.train)
    assert found.names == tuple(kinds)
    with pytest.raises(tepid.InputError, match="size must equal the size of the photographs, 16"):
        _lesions(tmp_path / "small.npz", 224, 0, keep_lesions=False)
    np.savez(tmp_path / "less.npz", x=x, classes=kinds)
    with pytest.raises(tepid.InputError, match="must have the arrays x, y and classes, got no y"):
        _lesions(tmp_path / "less.npz", 16, 0, keep_lesions=False)
    np.savez(tmp_path / "bare.npz", x=x, y=labels, classes=kinds)
    with pytest.raises(tepid.InputError, match=r"must have a file .*Groupings.* for keep_lesions"):
        _lesions(tmp_path / "bare.npz", 16, 0, keep_lesions=True)


def test_an_archive_that_holds_something_else_is_refused(tmp_path):
    x, y, kinds = np.zeros((4, 16, 16, 3), np.uint8), np.zeros(4, int), np.array(["a", "b"])
    np.savez(tmp_path / "whole.npz", x=x, y=y, classes=kinds)
    whole = (tmp_path / "whole.npz").read_bytes()
    for name, data in (("empty", b""), ("text", b"hello"), ("half", whole[: len(whole) // 2])):
        (tmp_path / f"{name}.npz").write_bytes(data)
    np.save(tmp_path / "x.npy", x)
    others = {
        "objects": {"x": np.array([{}], object)},
        "floats": {"x": x.astype(float)},
        "flat": {"x": x.reshape(4, -1)},
        "short": {"y": y[:3]},
        "beyond": {"y": y + 2},
        "words": {"y": np.array(["q"] * 4)},
        "number": {"classes": np.array(2)},
        "lesions": {"lesion": y[:3]},
    }
    for name, changed in others.items():
        np.savez(tmp_path / f"{name}.npz", **{"x": x, "y": y, "classes": kinds} | changed)
    names = ["x.npy", *(f"{name}.npz" for name in ("empty", "text", "half", *others))]
    for name in names:
        with pytest.raises(tepid.InputError, match=name):
            _lesions(tmp_path / name, 16, 0, keep_lesions=False)


@pytest.mark.parametrize("text", ["", "image,a,b\np,1,x\n", "image,a,b\n\n"])
def test_a_truth_that_is_no_table_is_refused(tmp_path, text):
    (tmp_path / "x_GroundTruth.csv").write_text(text)
    with pytest.raises(tepid.InputError, match=r"x_GroundTruth\.csv"):
        _lesions(tmp_path, 16, 0, keep_lesions=False)


def test_a_challenge_that_is_not_whole_is_refused(tmp_path):
    folder = laboratory.write_lesions(tmp_path, rows=14)
    next(folder.rglob("ISIC_0024003.jpg")).unlink()
    with pytest.raises(tepid.InputError, match=r"a photograph ISIC_0024003.jpg .* for 1 of 14"):
        _lesions(folder, 8, 0, keep_lesions=False)
    truth = next(folder.rglob("*GroundTruth.csv"))
    truth.write_text(truth.read_text().replace("1.0,0.0", "1.0,1.0", 1))
    with pytest.raises(tepid.InputError, match=r"must have one 1 per row, got .* at row 0"):
        _lesions(folder, 8, 0, keep_lesions=False)
    with pytest.raises(tepid.InputError, match=r"must have one file \*GroundTruth.csv, got 0"):
        _lesions(folder / "ISIC2018_Task3_Training_Input", 8, 0, keep_lesions=False)


def test_the_split_has_the_sizes_of_the_paper():
    # HAM10000: 10015 photographs, by class.
    labels = np.repeat(np.arange(7), [1113, 6705, 514, 327, 1099, 115, 142])
    train, rest = datasets.stratified_split(labels, 0.4, seed=3)
    assert (len(train), len(rest)) == (6009, 4006)
    report, calibration = datasets.stratified_split(labels[rest], 0.2, seed=3)
    assert (len(calibration), len(report)) == (801, 3205)
    for part, share in ((train, 0.6), (rest, 0.4), (rest[calibration], 0.08)):
        assert np.abs(np.bincount(labels[part]) - share * np.bincount(labels)).max() <= 1
    assert np.array_equal(np.sort(np.concatenate([train, rest])), np.arange(10015))


def test_groups_are_never_on_both_sides_and_the_sizes_stay_near():
    rng = np.random.default_rng(2)
    groups = np.sort(rng.integers(0, 900, 2000))
    labels = rng.permutation(np.arange(900) % 5)[groups]
    rest, part = datasets.stratified_split(labels, 0.4, seed=1, groups=groups)
    assert not set(groups[rest]) & set(groups[part])
    assert len(rest) + len(part) == 2000
    shares = np.bincount(labels[part]) / np.bincount(labels)
    assert np.abs(shares - 0.4).max() < 0.02


@pytest.mark.parametrize("part", [0.0, 1.0, -0.1, float("nan")])
def test_a_part_that_is_none_is_refused(part):
    with pytest.raises(tepid.InputError, match="part must be between 0 and 1, got"):
        datasets.stratified_split([0, 1], part, seed=0)


def test_pixels_are_normalised_by_channel_as_the_numbers_would_be():
    bytes_ = torch.from_numpy(RNG.integers(0, 256, (30, 3, 5, 4), dtype=np.uint8))
    mean, deviation = normalization("channels", bytes_)
    plain = bytes_.double()
    assert mean.flatten().tolist() == pytest.approx(plain.mean(dim=(0, 2, 3)).tolist(), rel=1e-6)
    expected = plain.std(dim=(0, 2, 3), correction=0).tolist()
    assert deviation.flatten().tolist() == pytest.approx(expected, rel=1e-6)
    mean, deviation = normalization("unit", bytes_)
    assert (mean.unique().tolist(), deviation.unique().tolist()) == ([0.0], [255.0])
    mean, deviation = normalization("imagenet", bytes_)
    assert (mean / 255).flatten().tolist() == pytest.approx([0.485, 0.456, 0.406])
    assert (deviation / 255).flatten().tolist() == pytest.approx([0.229, 0.224, 0.225])


def test_pixels_that_are_all_alike_are_not_divided_by_nothing():
    _, deviation = normalization("channels", torch.full((2, 1, 3, 3), 7, dtype=torch.uint8))
    assert deviation.item() == 1


@pytest.fixture
def batch():
    torch.manual_seed(0)
    return torch.rand(400, 2, 6, 5)


@pytest.mark.parametrize(("step", "axis"), [("flip", 3), ("flip-vertical", 2)])
def test_about_half_of_the_images_are_mirrored(batch, step, axis):
    out = augment(batch, (step,))
    same, mirrored = ((out == x).flatten(1).all(1) for x in (batch, batch.flip(axis)))
    assert torch.equal(same, ~mirrored)
    assert 160 < mirrored.sum() < 240


@pytest.mark.parametrize(("step", "mode"), [("crop", "constant"), ("crop-reflect", "reflect")])
def test_crops_are_cut_out_of_the_padded_image(step, mode):
    torch.manual_seed(1)
    batch = torch.rand(300, 2, 6, 7)
    out = augment(batch, (step,))
    padded = torch.nn.functional.pad(batch, (4, 4, 4, 4), mode=mode)
    places = padded.unfold(2, 6, 1).unfold(3, 7, 1)  # n, c, 9, 9, 6, 7
    hits = (places == out[:, :, None, None]).all(dim=(1, 4, 5))
    assert hits.flatten(1).any(1).all()
    if mode == "constant":
        assert hits.any(dim=(0, 1)).all()  # every shift is drawn
        assert hits.any(dim=(0, 2)).all()


def test_half_of_the_images_are_turned_by_no_more_than_an_eighth_of_a_right_angle():
    torch.manual_seed(2)
    line = torch.zeros(300, 1, 41, 41)
    line[:, :, 20, :] = 1
    out = augment(line, ("rotate",))
    turned = ~(out == line).flatten(1).all(1)
    assert 120 < turned.sum() < 180
    right = out[:, 0, :, 36].argmax(dim=1) - 20  # how far the line has moved, 16 to the right
    angles = torch.rad2deg(torch.atan2(right.double(), torch.tensor(16.0)))
    assert angles.abs().max() < 15
    assert angles.max() > 9
    assert angles.min() < -9


def test_steps_follow_the_generator_alone_and_unknown_ones_are_refused(batch):
    steps = ("crop", "flip", "rotate", "flip-vertical")
    outs = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        outs.append(augment(batch, steps))
    assert torch.equal(outs[0], outs[1])
    assert not torch.equal(outs[0], outs[2])
    assert augment(batch, ()) is batch
    with pytest.raises(tepid.InputError, match=r"augment must be of flip, .*, got mixup"):
        augment(batch, ("mixup",))


def test_a_recipe_cuts_its_data_to_so_many_rows(challenge):
    recipe = dataclasses.replace(
        tepid.lab.named("resnet152-isic"), size=8, train_rows=5, test_rows=3
    )
    found = datasets.read(recipe, challenge, 0, download=False, checked=True)
    assert (len(found.train), len(found.test), len(found.rows)) == (5, 3, 3)
    whole = datasets.read(
        dataclasses.replace(recipe, test_rows=0), challenge, 0, download=False, checked=True
    )
    assert whole.rows[:3].tolist() == found.rows.tolist()


def test_grey_and_coloured_arrays_become_the_same_form():
    gray = as_images(RNG.integers(0, 9, (4, 5, 6), dtype=np.uint8), [0, 1, 2, 3])
    assert gray.pixels.shape == (4, 1, 5, 6)
    colored = as_images(RNG.integers(0, 9, (4, 5, 6, 3), dtype=np.uint8), [0, 1, 2, 3])
    assert colored.pixels.shape == (4, 3, 5, 6)
    assert colored.labels.dtype == torch.int64
