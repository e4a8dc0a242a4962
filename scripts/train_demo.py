"""Store the test logits of a small, over-confident (unaugmented) Fashion-MNIST network."""

import argparse
import gzip
import json
import platform
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

NAMES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
DATA = Path("/usr/share/datasets/fashion-mnist")
OUT = Path(__file__).resolve().parent.parent / "src" / "tepid" / "demo" / "fashion.npz"
BATCH, RATE = 128, 2e-3
BINS = 15
SHOWN, CONFIDENT = 12, 0.9  # images of each kind (correct, wrong); least confidence if wrong


def read_idx(path: Path) -> np.ndarray:
    """Read a gzipped idx file of unsigned bytes."""
    raw = gzip.decompress(path.read_bytes())
    if raw[:3] != b"\x00\x00\x08":
        raise ValueError(f"not an idx file of unsigned bytes: {path.name}")
    shape = np.frombuffer(raw, ">i4", count=raw[3], offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def to_input(images: np.ndarray) -> Tensor:
    """Scale images to roughly zero mean and unit variance."""
    pixels = torch.tensor(images).unsqueeze(1).float() / 255
    return ((pixels - 0.286) / 0.353).to(memory_format=torch.channels_last)


def build() -> nn.Sequential:
    """Build three convolution blocks and two linear layers (about 0.4 M parameters)."""
    layers: list[nn.Module] = []
    for before, after in ((1, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.MaxPool2d(2)]
        layers += [nn.BatchNorm2d(after), nn.ReLU()]
    layers += [nn.Flatten(), nn.Linear(128 * 3 * 3, 256), nn.ReLU(), nn.Linear(256, len(NAMES))]
    model = nn.Sequential(*layers)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def train(model: nn.Module, inputs: Tensor, labels: Tensor, epochs: int) -> float:
    """Train with Adam and a one-cycle rate; return the last epoch's training accuracy."""
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    steps = epochs * -(-len(labels) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    loss_of, accuracy = nn.CrossEntropyLoss(), 0.0
    for epoch in range(1, epochs + 1):
        start, right = time.perf_counter(), 0
        for rows in torch.split(torch.randperm(len(labels)), BATCH):
            logits = model(inputs[rows])
            optimizer.zero_grad(set_to_none=True)
            loss_of(logits, labels[rows]).backward()
            optimizer.step()
            schedule.step()
            right += int((logits.argmax(1) == labels[rows]).sum())
        accuracy, spent = right / len(labels), time.perf_counter() - start
        sys.stderr.write(f"epoch {epoch}/{epochs}: accuracy {accuracy:.4f}, {spent:.0f} s\n")
    return accuracy


@torch.inference_mode()
def predict(model: nn.Module, inputs: Tensor) -> np.ndarray:
    """Return the logits in evaluation mode, rounded to half precision."""
    model.eval()
    return torch.cat([model(part) for part in torch.split(inputs, 500)]).numpy().astype(np.float16)


def measure(logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Measure accuracy, mean confidence, NLL and ECE (equal-width right-closed bins)."""
    logp = torch.from_numpy(logits).double().log_softmax(1).numpy()
    confidence, right = np.exp(logp.max(axis=1)), logp.argmax(axis=1) == labels
    which = np.digitize(confidence, np.linspace(0, 1, BINS + 1)[1:-1], right=True)
    gaps = np.bincount(which, weights=right - confidence, minlength=BINS)
    nll = -logp[np.arange(len(labels)), labels].mean()
    values = (right.mean(), confidence.mean(), nll, np.abs(gaps).sum() / len(labels))
    names = ("test_accuracy", "mean_confidence", "nll", "ece")
    return {name: round(float(value), 6) for name, value in zip(names, values, strict=True)}


def pick(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Pick rows to show, spread over the classes: correct ones, then confident mistakes."""
    best, guess = torch.from_numpy(logits).double().softmax(1).max(1)
    confidence, right = best.numpy(), guess.numpy() == labels
    wrong = np.flatnonzero(~right & (confidence > CONFIDENT))
    wrong = wrong[np.argsort(-confidence[wrong], kind="stable")]
    picked = []
    for rows in (np.flatnonzero(right), wrong):
        own = labels[rows]
        turn = np.array([np.count_nonzero(own[:i] == label) for i, label in enumerate(own)])
        picked.append(rows[np.argsort(turn, kind="stable")[:SHOWN]])
    return np.concatenate(picked).astype(np.int64)


def main() -> None:
    """Train, predict and write the archive with its description beside it."""
    parser = argparse.ArgumentParser(description="Train the demo network.")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the .gz idx files")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--out", type=Path, default=OUT, help="the .npz file to write")
    args = parser.parse_args()
    torch.set_num_threads(1)  # the order of sums, hence the result, depends on it
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(args.seed)
    known = read_idx(args.data / "train-images-idx3-ubyte.gz")
    targets = torch.tensor(read_idx(args.data / "train-labels-idx1-ubyte.gz")).long()
    images = read_idx(args.data / "t10k-images-idx3-ubyte.gz")
    labels = read_idx(args.data / "t10k-labels-idx1-ubyte.gz")
    model, start = build(), time.perf_counter()
    fitted = train(model, to_input(known), targets, args.epochs)
    seconds = time.perf_counter() - start
    logits = predict(model, to_input(images))
    rows = pick(logits, labels)
    arrays = {"logits": logits, "labels": labels, "names": np.array(NAMES)}
    arrays |= {"images": images[rows], "image_rows": rows}
    np.savez_compressed(args.out, allow_pickle=False, **arrays)
    note = {
        "dataset": "Fashion-MNIST test set, https://github.com/zalandoresearch/fashion-mnist",
        "licence": "MIT, copyright 2017 Zalando SE, https://tech.zalando.com",
        "command": f"python scripts/train_demo.py --epochs {args.epochs} --seed {args.seed}",
        "seed": args.seed,
        "epochs": args.epochs,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "training_seconds": round(seconds),
        "training_accuracy": round(fitted, 6),
        **measure(logits, labels),
        "ece_bins": f"{BINS} equal-width, right-closed",
    }
    args.out.with_suffix(".json").write_text(json.dumps(note, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
