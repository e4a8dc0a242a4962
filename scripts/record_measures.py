"""Score one set of rows with other people's packages, for `tests/test_measures.py` to agree with.

The environment, apart from the project's own, since some of these packages hold others back:

    python3 -m venv peers
    peers/bin/pip install relplot==1.0.3 uncertainty-calibration==0.1.4 MAPIE==1.6.0 \
        netcal==1.4.0 torchmetrics==1.9.0 probmetrics==1.3.0 numba
    peers/bin/python scripts/record_measures.py

It prints the values that the test holds, each with the package and version that gave it.
"""

from importlib.metadata import version
from typing import Any

import numpy as np

N, K, SEED = 3000, 7, 2023


def rows() -> tuple[Any, Any, Any]:
    """Logits, labels and probabilities of a model that is too sure where it is sure, and not else.

    No two confidences are equal, so the packages' ways with ties and edges do not matter.
    """
    rng = np.random.default_rng(SEED)
    logits = 2 * rng.normal(size=(N, K))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    logits = logits * (0.3 + 0.3 * np.abs(logits))
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return logits, labels, e / e.sum(axis=1, keepdims=True)


def of_torchmetrics(p: Any, y: Any) -> dict[str, float]:
    import torch
    from torchmetrics.functional.classification import multiclass_calibration_error as error

    def value(norm: str) -> float:
        return float(error(torch.tensor(p), torch.tensor(y), K, n_bins=15, norm=norm))

    return {"ece": value("l1"), "mce": value("max"), "root of brier_calibration": value("l2")}


def of_netcal(p: Any, y: Any) -> dict[str, float]:
    from netcal.metrics import ECE, MCE

    return {"ece": float(ECE(15).measure(p, y)), "mce": float(MCE(15).measure(p, y))}


def of_kumar(p: Any, y: Any) -> dict[str, float]:
    import calibration
    from calibration.utils import get_equal_prob_bins, get_selective_stats

    def error(power: int, *, debias: bool, mode: str) -> float:
        return float(
            calibration.utils.lower_bound_scaling_ce(
                p, y, power, debias, 15, get_equal_prob_bins, mode
            )
        )

    confidence, right = p.max(axis=1), p.argmax(axis=1) == y
    often = get_selective_stats(np.repeat(confidence, 300), np.repeat(right, 300))[0]
    return {
        "ece": error(1, debias=False, mode="top-label"),
        "ece_equal_mass": float(calibration.get_ece_em(p, y)),
        "ece_classwise": error(1, debias=False, mode="marginal"),
        "rmsce_debiased": error(2, debias=True, mode="top-label"),
        "aurc of each row once": 1 - float(get_selective_stats(confidence, right)[0]),
        "aurc of each row 300 times": 1 - float(often),
    }


def of_relplot(p: Any, y: Any) -> dict[str, float]:
    import relplot

    confidence, right = p.max(axis=1), (p.argmax(axis=1) == y).astype(float)
    return {"smooth_ece": float(relplot.smECE(confidence, right))}


def of_mapie(p: Any, y: Any) -> dict[str, float]:
    from mapie.metrics.calibration import kolmogorov_smirnov_statistic, length_scale

    confidence, right = p.max(axis=1), (p.argmax(axis=1) == y).astype(float)
    statistic = kolmogorov_smirnov_statistic(right, confidence)
    return {"ks_error": float(statistic * length_scale(confidence))}


def of_probmetrics(p: Any, y: Any) -> dict[str, float]:
    import torch
    from probmetrics.calibrators import get_calibrator
    from probmetrics.metrics import Metrics

    def losses(probabilities: Any) -> Any:
        return Metrics.from_names(["logloss", "brier"]).compute_all_from_labels_probs(
            torch.tensor(y), torch.tensor(probabilities)
        )

    before = losses(p)
    after = losses(get_calibrator("temp-scaling").fit(p, y).predict_proba(p))
    return {
        "nll": float(before["logloss"]),
        "brier": float(before["brier"]),
        "excess_nll": float(before["logloss"] - after["logloss"]),
    }


def main() -> None:
    _, y, p = rows()
    for package, values in {
        "torchmetrics": of_torchmetrics(p, y),
        "netcal": of_netcal(p, y),
        "uncertainty-calibration": of_kumar(p, y),
        "relplot": of_relplot(p, y),
        "MAPIE": of_mapie(p, y),
        "probmetrics": of_probmetrics(p, y),
    }.items():
        for name, value in values.items():
            print(f'    ("{package} {version(package)}", "{name}", {value!r}),')


if __name__ == "__main__":
    main()
