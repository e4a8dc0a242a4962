"""`tepid fit --labels … --method …`: calibrators of more than one number."""

import importlib
from pathlib import Path
from typing import Any

import tepid
from tepid.cli import output

METHODS = (
    "vector", "matrix", "histogram", "isotonic", "bbq", "ensemble", "beta", "dirichlet",
)  # fmt: skip


# From so many classes on a matrix is out of proportion.
_MANY = 500


def fit(source: "tepid.sources.Source", method: str, out: Path | None, *, as_json: bool) -> None:
    """Fit a method by name, write it, and say what it does to the accuracy."""
    if method not in METHODS:
        known = ", ".join(("temperature", *METHODS))
        raise tepid.InputError(f"--method must be one of {known}, got {method}")
    if source.grouped:
        raise tepid.InputError(f"--groups must go with a temperature, got --method {method}")
    if method in ("matrix", "dirichlet") and (source.classes or 0) >= _MANY:
        weights = (source.classes or 0) ** 2
        output.note(
            f"There are {weights} weights to fit; this takes minutes, and a vector does not."
        )
    rows = source.whole()
    logits, labels, weight = rows.logits, rows.labels, rows.weight
    function = getattr(importlib.import_module("tepid.scaling"), method)
    with output.noted():
        fitted = function(logits, labels, sample_weight=weight)
        before, after = (
            tepid.metrics.accuracy(labels, p, sample_weight=weight)
            for p in (_plain(logits), fitted(logits))
        )
    if out is not None:
        fitted.save(out)
    plain = {
        "method": fitted.method,
        "samples": fitted.samples,
        "classes": fitted.classes,
        "keeps_argmax": fitted.keeps_argmax,
        "accuracy_before": before,
        "accuracy_after": after,
        "warnings": list(fitted.warnings),
    }
    if as_json:
        output.print_json(plain)
        return
    _show(plain, out)


def _plain(logits: Any) -> Any:
    k = tepid.shapes.class_count(logits)
    return tepid.Temperature(1.0, "none", samples=0, classes=k, implied_accuracy=0.0)(logits)


def _show(fitted: dict[str, Any], out: Path | None) -> None:
    rows = {
        "method": fitted["method"],
        "rows × classes": f"{fitted['samples']} × {fitted['classes']}",
        "keeps the argmax": "yes, always" if fitted["keeps_argmax"] else "not always",
        "accuracy before": f"{100 * fitted['accuracy_before']:.2f} %",
        "accuracy after": f"{100 * fitted['accuracy_after']:.2f} %",
    }
    screen = output.console()
    screen.print(output.two_columns(rows, "calibration, judged on the rows it was fitted to"))
    for sentence in fitted["warnings"]:
        output.note(sentence)
    output.note(
        f"Rows that were fitted flatter; tepid compare --methods {fitted['method']} holds out."
    )
    if out is not None:
        screen.print(f"wrote {out}", markup=False)


def load(path: Path) -> Any:
    """A calibration that `tepid fit -o` wrote: a temperature, or a calibrator with arrays."""
    if path.suffix.lower() == ".npz":
        return importlib.import_module("tepid.scaling").load(path)
    return tepid.load(path)
