"""Ask packages that fit a temperature the questions of tests/questions.py, and compare.

`python scripts/conformance.py` makes a virtual environment for each package in .cache/conformance,
installs the package with pip, asks all questions, and writes benchmarks/results/conformance.json
and .md. `--package NAME`, which can be repeated, asks some packages and keeps the answers of the
others. To add a package, write a module in scripts/adapters and add it to `PACKAGES`.

Answers are compared by their probabilities, so it does not matter whether a package reports T or
1/T.
"""

import argparse
import datetime
import importlib
import json
import logging
import os
import platform
import subprocess
import sys
import tempfile
import venv
import warnings
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import adapters
import numpy as np
from scipy.special import softmax

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import record

import mending
import questions

ROOT = Path(__file__).parents[1]
ENVIRONMENTS = ROOT / ".cache" / "conformance"
RESULTS = ROOT / "benchmarks" / "results" / "conformance.json"
# Seconds to install a package, and to ask it everything.
INSTALLING, ASKING = 1200, 1800

# The requirements of each package, which has a module of the same name in scripts/adapters.
PACKAGES = {
    "tepid": (str(ROOT),),
    "scikit-learn": ("scikit-learn>=1.8",),
    "probmetrics": ("probmetrics", "numba"),  # it imports numba, which is in its extra
    "netcal": ("netcal",),
    # It imports scikit-learn, which is in its extra `others`, with this bound.
    "torch-uncertainty": ("torch-uncertainty[cpu]", "scikit-learn!=1.6.0,<1.7"),
    "lightning-uq-box": ("lightning-uq-box",),
}
LEFT_OUT = {
    "autogluon.core": "its temperature scaling is internal to the predictors of AutoGluon",
    "aws-fortuna": "minimizes the focal loss by default, so its optimum is another one",
    "kyle-calibration": "calls netcal",
    "probly": "minimizes the expected calibration error, so its optimum is another one",
    "pytorch-ood": "returns outlier scores and no probabilities",
    "torchcp": "not installed: torchsort, which it needs, has no wheel and did not build here",
}

RIGHT, REFUSED, NO_NOTICE, WRONG, NOT_OFFERED = VERDICTS = (
    "right",
    "refused",
    "no notice",
    "wrong",
    "not offered",
)
LEGEND = """\
Each package is used as its documentation recommends, with its default settings.

- **right**: the expected answer. Probabilities count as right if all of them are within 0.005 (or
  what the question names) of the exact ones. Where an error or a warning is expected, either is
  right.
- **refused**: an error or a warning where there is an answer.
- **no notice**: an answer without an error or a warning where one of them is expected. Where every
  prediction is right or the labels are worse than chance, the loss falls toward T = 0 or T = ∞; the
  answer is then usually the end of a range.
- **wrong**: other probabilities than the exact ones, or NaN, without an error or a warning.
- **not offered**: the package does not take such input. A package that takes probabilities is not
  asked where the softmax of the logits underflows, or about probabilities given as logits.

Warnings count from Python, from logging and, for tepid, from the field `warnings` of the result.
Messages that a package also gives for good data do not count. T is computed from the probabilities.
"""

# Why answers were wrong, as read in the source of the versions in the table.
CAUSES = {
    "probmetrics": "−inf × 0 in the gradient is NaN, and the bisection ends at its bound.",
    "netcal": "Probabilities are clipped to the rounding error of their type, so those of very "
    "confident networks are changed. In float32 the finite differences of the optimizer are zero, "
    "so T stays 1. T may be negative, which reverses the classes.",
    "torch-uncertainty": "L-BFGS without a line search diverges at the default `lr=0.1` for large "
    "logits; `lr=0.01` with more iterations gives T = 10.1. −inf × 0 in the gradient is NaN.",
    "lightning-uq-box": "L-BFGS stops before the minimum at the defaults `optim_lr=0.01` and "
    "`max_iter=50`; `optim_lr=0.1` and `max_iter=200` give T = 2.022. One cause explains all wrong "
    "temperatures. −inf × 0 in the gradient is NaN.",
}


# --- in the environment of the package


class Answer(NamedTuple):
    """A verdict, and what the package returned or raised."""

    verdict: str
    shown: str


def ask_all(package: str) -> dict[str, Any]:
    """Ask all questions; versions and answers, as JSON can hold them."""
    mending.mend()
    adapter = importlib.import_module(f"adapters.{package.replace('-', '_')}")
    asked = questions.questions()
    _, usual = _answer(adapter, asked[0])
    found = {}
    for question in asked:
        p, notices = _answer(adapter, question)
        found[question.name] = _judge(question, p, notices - usual)._asdict()
    versions = {"python": platform.python_version()}
    for name in (package, "numpy", "scipy", "torch"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "use": adapter.__doc__.partition("\n")[0].partition(": ")[2],
        "versions": versions,
        "answers": found,
    }


def _answer(adapter: Any, question: Any) -> tuple[Any, set[str]]:
    """The probabilities, an error or None if it is not offered; and all notices."""
    notices = _Notices()
    logging.getLogger().addHandler(notices)
    with warnings.catch_warnings(record=True) as warned, tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("always")
        try:
            p = _probabilities(adapter, question, notices, Path(folder))
        except adapters.NotOfferedError:
            p = None
        except Exception as error:  # noqa: BLE001  # any error is an answer
            p = error
    logging.getLogger().removeHandler(notices)
    return p, notices.messages | {str(w.message) for w in warned}


class _Notices(logging.Handler):
    """Collect what is logged as a warning or an error."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.add(record.getMessage())


def _probabilities(adapter: Any, question: Any, notices: _Notices, folder: Path) -> Any:
    """The probabilities; where they are compared with others, those, and both in a tuple."""
    z, y, rows = question.logits, question.labels, question.rows
    rows = z if rows is None else rows
    plain = question.plain
    if getattr(adapter, "TAKES_PROBABILITIES", False):
        z, rows = (_softmax(question, given) for given in (z, rows))
        if plain is not None:
            plain = (_softmax(question, plain[0]), plain[1], _softmax(question, plain[2]))
    model = adapter.fit(z, y, question.weights)
    if hasattr(adapter, "notice"):
        notices.messages |= {adapter.notice(model)} - {""}
    p = np.asarray(adapter.predict(model, rows))
    if question.expected == questions.SAME:
        other, rows = adapter.fit(*plain[:2], None), plain[2]
    elif question.expected == questions.REPEATED:
        other = adapter.fit(z, y, None)
    elif question.expected == questions.RELOADED:
        other = adapter.save_and_load(model, folder / "model")
    else:
        return p, None
    return p, np.asarray(adapter.predict(other, rows))


def _softmax(question: Any, z: Any) -> Any:
    """Probabilities in the type of the logits, for packages that do not take logits."""
    if question.expected == questions.UNITS:
        raise adapters.NotOfferedError
    p = softmax(z.astype(np.float64), axis=1).astype(z.dtype)
    if (p[np.isfinite(z) & (z > -1e9)] == 0).any():
        raise adapters.NotOfferedError
    return p


def _judge(question: Any, answer: Any, notices: set[str]) -> Answer:
    meaningless = question.expected in (questions.NOTICE, questions.LIMIT, questions.UNITS)
    if answer is None:
        return Answer(NOT_OFFERED, "")
    if isinstance(answer, Exception):
        text = f"{type(answer).__name__}: {answer}"[:200]
        return Answer(RIGHT if meaningless else REFUSED, text)
    p, other = answer
    rows = question.logits if question.rows is None else question.rows
    shown = _show(rows, p)
    right = question.expected not in (questions.NOTICE, questions.LIMIT) and _is_right(
        question, rows, p, other
    )
    if notices:
        text = f"{shown}; {'; '.join(sorted(notices))}"[:200]
        return Answer(RIGHT if right or meaningless else REFUSED, text)
    kept = question.expected != questions.LIMIT or _keeps_class(rows, p)
    return Answer(RIGHT if right else NO_NOTICE if meaningless and kept else WRONG, shown)


def _is_right(question: Any, rows: Any, p: Any, other: Any) -> bool:
    """Whether probabilities are the expected ones."""
    if question.expected == questions.FINITE:
        return bool(np.allclose(p.sum(axis=1), 1, atol=1e-5)) and _keeps_class(rows, p)
    if question.expected in (questions.REPEATED, questions.RELOADED):
        return np.array_equal(p, other)
    if question.expected == questions.SAME:
        exact = other
    elif question.expected == questions.UNIFORM:
        exact = np.full(p.shape, 1 / p.shape[1])
    elif question.expected == questions.UNITS:
        exact = question._replace(logits=np.log(question.logits)).probabilities
    else:
        exact = question.probabilities
    return bool(np.abs(p - exact).max() <= question.tolerance)


def _keeps_class(z: Any, p: Any) -> bool:
    return bool((p[np.arange(len(p)), z.argmax(axis=1)] >= p.max(axis=1)).all())


def _show(z: Any, p: Any) -> str:
    """The temperature that turns logits into the probabilities."""
    if not p.size:
        return "no rows"
    if not np.isfinite(p).all():
        return "NaN"
    z, p = z.astype(np.float64), p.astype(np.float64)
    # Differences to the most probable class; very small probabilities are rounded or clipped.
    near = (p > 1e-6) & np.isfinite(z)
    top = p.argmax(axis=1)[:, None]
    dz = (z - np.take_along_axis(z, top, axis=1))[near]
    dp = np.log(p[near] / np.broadcast_to(p.max(axis=1, keepdims=True), p.shape)[near])
    if not (dz * dp).any():
        return "equal" if near.all() else "T → 0"
    return f"T = {(dz * dz).sum() / (dz * dp).sum():.4g}"


# --- environments and the table


def ask(package: str) -> dict[str, Any]:
    """Install a package and ask it all questions; the reason if that is impossible."""
    folder = ENVIRONMENTS / package
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt")]
    command = [str(python), __file__, "--answer", package]
    # Threads of PyTorch wait for each other on a busy machine.
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    steps = {"pip": ([*pip, *PACKAGES[package], "scipy"], INSTALLING), "asking": (command, ASKING)}
    for step, (words, limit) in steps.items():
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, check=False, timeout=limit, env=environment
            )
        except subprocess.TimeoutExpired:
            return {"reason": f"{step} took more than {limit} s"}
        if done.returncode:
            return {"reason": (done.stderr.strip() or f"{step} failed").splitlines()[-1][:200]}
    # A package may print; the answers are the last line.
    return dict(json.loads(done.stdout.splitlines()[-1]))


def write(packages: dict[str, Any]) -> str:
    """Write the table of all packages; the text."""
    date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    asked = {name: found for name, found in packages.items() if "answers" in found}
    reasons = {n: found["reason"] for n, found in packages.items() if "reason" in found} | LEFT_OUT
    counts = {
        name: Counter(answer["verdict"] for answer in found["answers"].values())
        for name, found in asked.items()
    }
    rows = [
        (
            question.name,
            question.expected,
            *(_cell(f["answers"][question.name]) for f in asked.values()),
        )
        for question in questions.questions()
    ]
    used = [
        (name, found["use"], ", ".join(f"{p} {v}" for p, v in found["versions"].items()))
        for name, found in asked.items()
    ]
    text = "\n".join(
        [
            "# Conformance: answers of packages that fit a temperature\n",
            f"`python scripts/conformance.py`, {date}.\n",
            LEGEND,
            record.table(
                ("package", *VERDICTS), [(n, *(c[v] for v in VERDICTS)) for n, c in counts.items()]
            ),
            "",
            record.table(("question", "expected", *asked), rows),
            "",
            record.table(("package", "use", "versions"), used),
            "",
            "Causes of the wrong answers:\n",
            *(
                f"- {name}: {cause}"
                for name, cause in CAUSES.items()
                if counts.get(name, {})[WRONG]
            ),
            "",
            "Not asked:\n",
            record.table(("package", "reason"), reasons.items()),
            "",
        ]
    )
    record.write("conformance", {"date": date, "packages": packages, "not_asked": LEFT_OUT}, text)
    return text


def _cell(answer: dict[str, str]) -> str:
    verdict, shown = answer["verdict"], answer["shown"].partition(": ")[0].partition(";")[0]
    if verdict == RIGHT:
        return shown
    text = f"**{verdict}**" if verdict == WRONG else verdict
    return f"{text}: {shown}" if shown else text


def main() -> None:
    """Ask the packages and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--package", choices=PACKAGES, action="append", help="by default all")
    parser.add_argument("--answer", choices=PACKAGES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.answer:
        print(json.dumps(ask_all(args.answer)))
        return
    known = json.loads(RESULTS.read_text(encoding="utf-8"))["packages"] if RESULTS.exists() else {}
    for package in args.package or PACKAGES:
        print(f"asking {package}", file=sys.stderr)
        known[package] = ask(package)
    print(write({name: known[name] for name in PACKAGES if name in known}))


if __name__ == "__main__":
    main()
