"""Print what other packages answer on the data of tests/test_scaling_peers.py, to record it there.

Needs netcal, betacal and dirichletcal in an environment of their own; none of them is a dependency.
`python scripts/scaling_peers.py`
"""

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from betacal import BetaCalibration
from dirichletcal.calib.fulldirichlet import FullDirichletCalibrator
from netcal.binning import BBQ, HistogramBinning

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from made import drifted  # the tests' own data


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def main() -> None:
    z, y = drifted()
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    rows = np.arange(len(y))
    print("histogram, netcal", _version("netcal"))
    print(HistogramBinning(15).fit(p, y).transform(p)[:3].tolist())
    model = BBQ(score_function="BIC").fit(p, y)
    averaged = model.transform(p)
    print("bbq: NLL, and the first rows", -np.log(averaged[rows, y]).mean())
    print(averaged[:3].tolist())
    print("beta of class 1, betacal", _version("betacal"))
    print(BetaCalibration("abm").fit(p[:, 1], y == 1).predict(p[:5, 1]).tolist())
    for strength in (0.0, 0.3, 30.0):
        model = FullDirichletCalibrator(strength, strength, reg_norm=True, ref_row=False)
        fitted = model.fit(p, y).predict_proba(p)
        print("dirichlet", strength, -np.log(fitted[rows, y]).mean(), fitted[0].tolist())


if __name__ == "__main__":
    main()
