"""Ask packages for temperature scaling the questions of tests/questions.py, and compare.

`python scripts/conformance.py PACKAGE [--python INTERPRETER]` asks one package, in the environment
of the interpreter, which needs SciPy beside the package; it adds the answers to
benchmarks/results/conformance.json and writes the table of all packages to conformance.md. Packages:
tepid, scikit-learn, probmetrics, netcal, torch-uncertainty. A new one is a function below.

An answer is right, or *loud*: an error or a warning where there is an answer; or *silent*: a number
without a word that is not the answer. A package that does not take weights is not asked for them.
"""

# ruff: noqa: E501  # each package is imported only where it is asked
import argparse
import json
import logging
import math
import platform
import subprocess
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

# The relative error of T that still counts as right: ten times what changes any metric visibly.
TOLERANCE = 1e-2
RIGHT, LOUD, SILENT, NOT_OFFERED = "right", "loud", "silent", "not offered"


# --- the packages: each takes logits, labels and weights or None, as its users would give them


class Answer(NamedTuple):
    """A temperature, and what the package says about it."""

    temperature: float
    said: str = ""


def ask_tepid(z: Any, y: Any, weights: Any) -> Answer:
    """`tepid.temperature_scaling`."""
    import tepid

    t = tepid.temperature_scaling(z, y, sample_weight=weights)
    return Answer(float(t), "" if t.status == "ok" else t.status)


def ask_scikit_learn(z: Any, y: Any, weights: Any) -> Answer:
    """`CalibratedClassifierCV(method="temperature")` on a frozen classifier."""
    import numpy as np
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    class Logits(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        def fit(self, X: Any, y: Any) -> Any:  # noqa: ARG002, N803
            self.classes_ = np.arange(X.shape[1])
            return self

        def decision_function(self, X: Any) -> Any:  # noqa: N803
            return X

        def predict(self, X: Any) -> Any:  # noqa: N803
            return X.argmax(axis=1)

    if z.shape[1] == 2:  # the decision function of two classes is one column
        margin = z[:, 1] - z[:, 0]

        class Margin(Logits):
            def fit(self, X: Any, y: Any) -> Any:  # noqa: ARG002, N803
                self.classes_ = np.arange(2)
                return self

            def decision_function(self, X: Any) -> Any:  # noqa: N803
                return X[:, 0]

            def predict(self, X: Any) -> Any:  # noqa: N803
                return (X[:, 0] > 0).astype(int)

        frozen, z = FrozenEstimator(Margin().fit(margin[:, None], y)), margin[:, None]
    else:
        frozen = FrozenEstimator(Logits().fit(z, y))
    model = CalibratedClassifierCV(frozen, method="temperature").fit(z, y, sample_weight=weights)
    (fitted,) = model.calibrated_classifiers_
    return Answer(float(1 / fitted.calibrators[0].beta_))


def ask_probmetrics(z: Any, y: Any, weights: Any) -> Answer:
    """`TemperatureScalingCalibrator` on logits."""
    import torch
    from probmetrics.calibrators import TemperatureScalingCalibrator
    from probmetrics.distributions import CategoricalLogits

    if weights is not None:
        raise NotOfferedError
    model = TemperatureScalingCalibrator()
    model.fit_torch(CategoricalLogits(torch.from_numpy(z)), torch.from_numpy(y))
    return Answer(float(1 / model.invtemp_))


def ask_netcal(z: Any, y: Any, weights: Any) -> Answer:
    """`netcal.scaling.TemperatureScaling` on probabilities; its `temperature` is 1/T."""
    from netcal.scaling import TemperatureScaling
    from scipy.special import softmax

    if weights is not None:
        raise NotOfferedError
    p = softmax(z, axis=1)
    model = TemperatureScaling()
    model.fit(p[:, 1] if z.shape[1] == 2 else p, y)
    return Answer(float(1 / model.temperature[0]))


def ask_torch_uncertainty(z: Any, y: Any, weights: Any) -> Answer:
    """`TemperatureScaler` on a loader of logits."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset
    from torch_uncertainty.post_processing import TemperatureScaler

    if weights is not None:
        raise NotOfferedError
    data = TensorDataset(torch.from_numpy(z), torch.from_numpy(y))
    model = TemperatureScaler()
    model.fit(DataLoader(data, batch_size=4096), progress=False)
    return Answer(float(model.temperature[0]))


class NotOfferedError(Exception):
    """The package has no such argument."""


PACKAGES: dict[str, Callable[[Any, Any, Any], Answer]] = {
    "tepid": ask_tepid,
    "scikit-learn": ask_scikit_learn,
    "probmetrics": ask_probmetrics,
    "netcal": ask_netcal,
    "torch-uncertainty": ask_torch_uncertainty,
}


# --- asking, in the environment of the package


def answers(package: str) -> dict[str, Any]:
    """The answer to each question, as JSON can hold it."""
    import questions

    logging.disable(logging.CRITICAL)
    found: dict[str, Any] = {}
    for question in questions.questions():
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                answer = PACKAGES[package](question.logits, question.labels, question.weights)
            except NotOfferedError:
                found[question.name] = {"not_offered": True}
                continue
            except ImportError:  # of the environment, and no answer of the package
                raise
            except Exception as error:  # noqa: BLE001  # any error is an answer
                found[question.name] = {"error": f"{type(error).__name__}: {error}"[:300]}
                continue
        # Of other things than the temperature, such as what will be removed, is no answer.
        about = [
            w for w in warned if not issubclass(w.category, FutureWarning | DeprecationWarning)
        ]
        found[question.name] = {
            "temperature": repr(answer.temperature),
            "said": answer.said or "; ".join(str(w.message)[:200] for w in about),
        }
    return {"versions": _versions(package), "answers": found}


def _versions(package: str) -> dict[str, str]:
    known = {"python": platform.python_version()}
    for name in (package, "numpy", "scipy", "torch"):
        try:
            known[name] = version(name)
        except PackageNotFoundError:
            continue
    return known


# --- judging


def judge(question: Any, answer: dict[str, Any]) -> str:
    """Whether the answer is right, loud or silent."""
    import questions

    if answer.get("not_offered"):
        return NOT_OFFERED
    if "error" in answer:
        return LOUD if question.right == questions.TEMPERATURE else RIGHT
    t, said = float(answer["temperature"]), bool(answer["said"])
    if question.right == questions.TEMPERATURE:
        if math.isfinite(t) and abs(t / question.temperature - 1) <= TOLERANCE:
            return RIGHT
    elif question.right != questions.REFUSE and said and 0 < t < math.inf:
        return RIGHT
    return LOUD if said else SILENT


def show(question: Any, answer: dict[str, Any]) -> str:
    """An answer in a cell of the table; what is silently wrong is bold."""
    if answer.get("not_offered"):
        return "not offered"
    if "error" in answer:
        text = answer["error"].partition(":")[0]
    else:
        text = f"{float(answer['temperature']):.4g}"
        text += f" ({answer['said'][:40].strip()})" if answer["said"] else ""
    return f"**{text}**" if judge(question, answer) == SILENT else text.replace("|", "/")


def expected(question: Any) -> str:
    """The right answer in a cell of the table."""
    return question.right if question.temperature is None else f"{question.temperature:.4g}"


def write(figures: dict[str, Any]) -> str:
    """Write the table of all packages that were asked; the text."""
    import questions

    sys.path.insert(0, str(ROOT / "benchmarks"))
    import record

    asked = questions.questions()
    names = [name for name in PACKAGES if name in figures["packages"]]
    rows = []
    counts = {name: dict.fromkeys((RIGHT, LOUD, SILENT, NOT_OFFERED), 0) for name in names}
    for question in asked:
        row = [question.name, expected(question)]
        for name in names:
            answer = figures["packages"][name]["answers"][question.name]
            answer["judged"] = judge(question, answer)
            counts[name][answer["judged"]] += 1
            row.append(show(question, answer))
        rows.append(row)
    for name in names:
        figures["packages"][name]["counts"] = counts[name]
    versions = [
        (name, ", ".join(f"{p} {v}" for p, v in figures["packages"][name]["versions"].items()))
        for name in names
    ]
    text = "\n".join(
        [
            "# Conformance: what packages for temperature scaling answer\n",
            (
                f"`python scripts/conformance.py PACKAGE --python INTERPRETER`, {figures['date']}. A "
                f"temperature is right to {TOLERANCE:.0%}. An error or a warning where there is an "
                "answer is loud. Bold: silently wrong, a number without a word. Where there is no "
                "optimum, a right answer must say so.\n"
            ),
            record.table(("package", *counts[names[0]]), [(n, *counts[n].values()) for n in names]),
            "",
            record.table(("package", "versions"), versions),
            "",
            record.table(("question", "right", *names), rows),
            "",
        ]
    )
    record.write("conformance", figures, text)
    return text


def main() -> None:
    """Ask one package, judge, and write the table."""
    import datetime

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", choices=PACKAGES)
    parser.add_argument("--python", default=sys.executable, help="the interpreter to ask")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.answer:
        print(json.dumps(answers(args.package)))
        return
    command = [args.python, __file__, args.package, "--answer"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{args.package} cannot be asked by {args.python}")
    path = ROOT / "benchmarks" / "results" / "conformance.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"packages": {}}
    # A package may print while it works; the answers are the last line.
    known["packages"][args.package] = json.loads(done.stdout.splitlines()[-1])
    known["date"] = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    print(write(known))


if __name__ == "__main__":
    main()
