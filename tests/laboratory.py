"""Small files of the formats that the sets of the paper are published in."""

import csv
import pickle
import struct

import numpy as np

LESIONS = ("MEL", "NV", "BCC", "AKIEC", "BKL", "DF", "VASC")


def pixels(rng, labels, size, channels):
    """Noise that is brighter at a place of its own for each class, so that it can be learnt."""
    images = rng.integers(0, 120, (len(labels), channels, size, size), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[:, label % size, :] += 120
    return images


def write_cifar(folder, classes=10, rows=40):
    """Pickled batches; CIFAR-100 has one of each and calls its labels fine."""
    rng = np.random.default_rng(classes)
    parts = {10: [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"], 100: ["train", "test"]}
    home = folder / ("cifar-10-batches-py" if classes == 10 else "cifar-100-python")
    home.mkdir(parents=True)
    for name in parts[classes]:
        labels = [int(label) for label in rng.permutation(np.arange(rows) % classes)]
        data = pixels(rng, labels, 32, 3).reshape(rows, -1)
        content = {"data": data, "labels" if classes == 10 else "fine_labels": labels}
        (home / name).write_bytes(pickle.dumps(content))
    kind, meta = ("label_names", "batches.meta") if classes == 10 else ("fine_label_names", "meta")
    (home / meta).write_bytes(pickle.dumps({kind: [f"class {k}" for k in range(classes)]}))
    return folder


def write_svhn(folder, rows=40):
    """MATLAB files with the image number last, and zeros labeled 10."""
    import scipy.io  # noqa: PLC0415  # an extra

    rng = np.random.default_rng(3)
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "test"):
        labels = np.arange(rows) % 10
        images = pixels(rng, labels, 32, 3).transpose(2, 3, 1, 0)
        digits = np.where(labels == 0, 10, labels)[:, None].astype(np.uint8)
        scipy.io.savemat(folder / f"{split}_32x32.mat", {"X": images, "y": digits})
    return folder


def write_mnist(folder, kind="MNIST", rows=40):
    """The idx files that torchvision unpacks into a folder of the set's name."""
    rng = np.random.default_rng(4)
    home = folder / kind / "raw"
    home.mkdir(parents=True)
    for split in ("train", "t10k"):
        labels = (np.arange(rows) % 10).astype(np.uint8)
        images = pixels(rng, labels, 28, 1)
        (home / f"{split}-labels-idx1-ubyte").write_bytes(
            struct.pack(">ii", 2049, rows) + labels.tobytes()
        )
        (home / f"{split}-images-idx3-ubyte").write_bytes(
            struct.pack(">iiii", 2051, rows, 28, 28) + images.tobytes()
        )
    return folder


def write_lesions(folder, rows=60):
    """The challenge's folder: photographs, their truth and which lesion each of them shows."""
    from PIL import Image  # noqa: PLC0415  # comes with torchvision

    rng = np.random.default_rng(5)
    photographs = folder / "ISIC2018_Task3_Training_Input"
    truth = folder / "ISIC2018_Task3_Training_GroundTruth"
    photographs.mkdir(parents=True)
    truth.mkdir()
    labels = np.arange(rows) // 2 % 7
    names = [f"ISIC_{24000 + row:07}" for row in range(rows)]
    for name, image in zip(names, pixels(rng, labels, 48, 3), strict=True):
        Image.fromarray(image.transpose(1, 2, 0)).resize((64, 48)).save(photographs / f"{name}.jpg")
    with (truth / "ISIC2018_Task3_Training_GroundTruth.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [("image", *LESIONS)]
            + [(n, *np.eye(7)[label]) for n, label in zip(names, labels, strict=True)]
        )
    with (folder / "ISIC2018_Task3_Training_LesionGroupings.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [("image", "lesion_id", "diagnosis_confirm_type")]
            + [(name, f"HAM_{row // 2:07}", "histo") for row, name in enumerate(names)]
        )
    return folder
