"""How often the 95 % intervals of `tepid.metrics` hold the truth: `results/intervals.json`.

Rows come from a known posterior over ten classes, which is scored as it is and with its logits
multiplied by the sharpness. The true value of each measure is that of two million rows, and 0 for a
calibration error of the posterior itself. Other intervals that the same draws give stand beside the
basic one, which `tepid.metrics.bootstrap` returns. A second table is what the posterior itself
scores, which would be 0 if the measures of calibration were not biased.
"""

import argparse
import functools
from typing import Any

import numpy as np
import record

import tepid
from tepid.metrics import intervals

SHARPNESS = (1.0, 1.15, 1.5)
ROWS = (200, 1000, 5000)
BIASED = ("ece", "ece_equal_mass", "smooth_ece", "rmsce_debiased", "ks_error", "mce")
NAMES = ("nll", "brier", "ece", "rmsce_debiased", "brier_calibration", "excess_nll")
ZERO = ("ece", "rmsce_debiased", "brier_calibration", "excess_nll")


def made(n: int, sharpness: float, rng: Any) -> tuple[Any, Any, Any]:
    """Labels, logits and probabilities."""
    z = 3 * rng.normal(size=(n, 10))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    z = (sharpness * z).astype(np.float32)
    return y, z, tepid.Temperature(1.0, "", samples=n, classes=10, implied_accuracy=0)(z)


@functools.cache
def truth(name: str, sharpness: float) -> float:
    if sharpness == 1 and name in ZERO:
        return 0.0
    y, z, p = made(2_000_000, sharpness, np.random.default_rng(99))
    # With so many rows the bias is far below the interval's width.
    plain = "brier_calibration" if name == "rmsce_debiased" else name
    value = getattr(tepid.metrics, plain)(y, z if name == "excess_nll" else p)
    return value**0.5 if name == "rmsce_debiased" else value


def spans(value: float, draws: Any) -> dict[str, tuple[float, float]]:
    """The basic interval and those that were not chosen."""
    low, high = np.quantile(draws, [0.025, 0.975])
    bias = draws.mean() - value
    return {
        "basic": (2 * value - high, 2 * value - low),
        "percentile": (low, high),
        "percentile, moved by twice the bias": (low - 2 * bias, high - 2 * bias),
    }


def covered(
    name: str, n: int, sharpness: float, options: argparse.Namespace, rng: Any
) -> dict[str, Any]:
    true, width = truth(name, sharpness), 0.0
    repeats = options.repeats // 3 if name == "excess_nll" else options.repeats
    hits: dict[str, int] = {}
    for _ in range(repeats):
        y, z, p = made(n, sharpness, rng)
        data = z if name == "excess_nll" else p
        measure = intervals.of_counts(getattr(tepid.metrics, name), y, data)
        counts = intervals.draw_counts(n, options.draws, int(rng.integers(2**31)))
        value, draws = measure(np.ones(n)), np.array([measure(c) for c in counts])
        for kind, (low, high) in spans(value, draws).items():
            hits[kind] = hits.get(kind, 0) + (max(low, 0) <= true <= max(high, 0))
        low, high = spans(value, draws)["basic"]
        width += (max(high, 0) - max(low, 0)) / repeats
    share = {kind: round(float(hit / repeats), 3) for kind, hit in hits.items()}
    about = {"measure": name, "rows": n, "sharpness": sharpness, "repeats": repeats}
    return about | {"truth": true, "width": float(width)} | share


def calibrated(n: int, repeats: int, rng: Any) -> dict[str, float]:
    """The mean of each measure over rows of the posterior itself."""
    found: dict[str, list[float]] = {name: [] for name in BIASED}
    for _ in range(repeats):
        y, _, p = made(n, 1.0, rng)
        for name in BIASED:
            found[name].append(getattr(tepid.metrics, name)(y, p))
    return {"rows": n} | {name: float(np.mean(values)) for name, values in found.items()}


def write(about: dict[str, Any], found: list[Any], biased: list[Any]) -> None:
    """Write what is known so far, so that a run that is stopped has not been for nothing."""
    cells = len(NAMES) * len(SHARPNESS) * len(ROWS) - len(SHARPNESS)
    head = record.preamble("How often the 95 % intervals hold the truth", about)
    text = (
        f"{head}\n{len(found)} of {cells} cases.\n\n{_table(found)}\n\n"
        f"What calibrated rows score:\n\n{_table(biased)}\n"
    )
    record.write("intervals", about | {"intervals": found, "calibrated": biased}, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    command = f"python benchmarks/intervals.py --repeats {options.repeats} --draws {options.draws}"
    about = record.circumstances(
        f"{command} --seed {options.seed}", options.seed, 1, ("tepid", "numpy", "numba")
    )
    rng = np.random.default_rng(options.seed)
    biased = [calibrated(n, options.repeats, rng) for n in (200, 1000, 10_000)]
    print(biased, flush=True)
    found = []
    for name in NAMES:
        for sharpness in SHARPNESS:
            for n in ROWS[:2] if name == "excess_nll" else ROWS:
                rng = np.random.default_rng([options.seed, n, NAMES.index(name)])
                found.append(covered(name, n, sharpness, options, rng))
                print(found[-1], flush=True)
                write(about, found, biased)


def _table(found: list[dict[str, Any]]) -> str:
    return record.table(list(found[0]), [[_short(v) for v in one.values()] for one in found])


def _short(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) and value < 0.9 else str(value)


if __name__ == "__main__":
    main()
