"""A PyTorch classifier, calibrated over a loader with whatever is known.

Trains a small network until it overfits synthetic data, and calibrates it on 2000 new rows: with
nothing else, with its accuracy from a test report, with labels of 25 rows, with a stronger model,
and with all of these.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tepid


def data(rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and labels of five overlapping classes."""
    generator = torch.Generator().manual_seed(seed)
    centers = torch.randn(5, 20, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(5, (rows,), generator=generator)
    return centers[labels] + 2.2 * torch.randn(rows, 20, generator=generator), labels


def trained(inputs: torch.Tensor, labels: torch.Tensor) -> nn.Module:
    """A network that overfits its training rows."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 5))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    return model


def main() -> None:
    """Train, calibrate, compare."""
    torch.set_num_threads(1)
    model, strong = trained(*data(1000, seed=1)), trained(*data(8000, seed=4))
    inputs, labels = data(2000, seed=2)
    known = labels.clone()
    known[25:] = -1  # unknown
    loader = DataLoader(TensorDataset(inputs, known), batch_size=256, shuffle=True)
    evidence = {
        "logits alone": {},
        "accuracy": {"accuracy": 0.76},
        "25 labels": {"labels": True},
        "reference": {"reference": strong},
        "all": {"accuracy": 0.76, "labels": True, "reference": strong},
    }

    inputs, labels = data(4000, seed=3)
    print(f"{'evidence':<16}{'T':>7}{'ECE':>8}  verdict")
    with torch.no_grad():
        before = model(inputs).softmax(dim=1)
    print(f"{'uncalibrated':<16}{1:>7.3f}{tepid.metrics.ece(labels, before):>8.3f}")
    for name, given in evidence.items():
        calibrated = tepid.torch.calibrate(model, loader, **given)
        with torch.no_grad():
            error = tepid.metrics.ece(labels, calibrated.probabilities(inputs))
        t = calibrated.calibration
        print(f"{name:<16}{t.value:>7.3f}{error:>8.3f}  {t.verdict}")

    torch.save(calibrated.state_dict(), "calibrated.pt")  # holds T with its verdict and interval
    again = tepid.torch.Calibrated(trained(*data(10, seed=1)), calibrated.calibration)
    again.load_state_dict(torch.load("calibrated.pt", weights_only=True))
    print(f"loaded: T = {again.calibration.value:.3f}")


if __name__ == "__main__":
    main()
