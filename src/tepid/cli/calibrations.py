"""A calibration on the command line: load it, check the groups of the rows, and show it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import tepid
from tepid.cli import console

if TYPE_CHECKING:
    from tepid.sources import Batch, Source
    from tepid.validation import Array


class Calibrator(Protocol):
    """A temperature or a calibrator of `tepid.scaling`."""

    @property
    def classes(self) -> int: ...  # noqa: D102

    @property
    def warnings(self) -> tuple[str, ...]: ...  # noqa: D102

    def __call__(self, *logits: Any, **options: Any) -> Any: ...  # noqa: D102


def load_calibration(path: Path) -> Calibrator:
    """A calibration that `tepid fit -o` wrote: a temperature, or a calibrator with arrays."""
    if path.suffix.lower() == ".npz":
        return tepid.scaling.load(path)
    return tepid.load(path)


def uncalibrated(logits: "Array") -> "Array":
    """The probabilities at T = 1."""
    k = tepid.shapes.class_count(logits)
    one = tepid.Temperature(1.0, "none", samples=0, classes=k, implied_accuracy=0.0)
    probabilities: Array = one(logits)
    return probabilities


def note_warnings(calibrator: Calibrator) -> None:
    """Print the verdict on a calibration, or its status unless it is ok, and its warnings."""
    verdict, status = (getattr(calibrator, name, None) for name in ("verdict", "status"))
    if verdict is not None:
        console.note(
            f"The verdict on this calibration is {verdict}. {getattr(calibrator, 'reason', '')}"
        )
    elif status not in (None, "ok"):
        console.note(f"The status of this calibration is {status}.")
    console.notes(calibrator.warnings)


# --- groups


def check_groups(calibrator: Calibrator, source: "Source") -> None:
    """Refuse groups that the calibration does not have; note that its groups are not used."""
    if getattr(calibrator, "label_names", ()):
        return
    groups = getattr(calibrator, "groups", {})
    if source.grouped and not groups:
        raise tepid.InputError(
            "--groups must go with a calibration that has groups, got one without"
        )
    if groups and not source.grouped:
        console.note(
            "The calibration has groups; without --groups every row gets the T of all rows."
        )


def unknown_groups(calibrator: Calibrator, batch: "Batch") -> int:
    """Number of rows whose group was not fitted."""
    if batch.group is None:
        return 0
    groups = getattr(calibrator, "groups", {})
    return sum(name not in groups for name in batch.group)


def note_unknown_groups(rows: int) -> None:
    """Print how many rows get the temperature of all rows."""
    if rows:
        console.note(f"{rows} rows are of groups that were not fitted and get the T of all rows.")


# --- the screen


def show_temperature(
    result: "tepid.Temperature", logits: str = "LOGITS", labels: str | None = None
) -> None:
    """Print a temperature, its evidence and groups, the verdict and its warnings.

    The next step names `logits` and `labels`, the file of labels by id if there is one.
    """
    rows = {"temperature": f"{result.value:.4f}"}
    if result.interval:
        rows["95 % interval"] = "{:.4f} to {:.4f}".format(*result.interval)
    rows |= {
        "method": result.method,
        "status": result.status,
        "implied accuracy": f"{100 * result.implied_accuracy:.2f} %",
    }
    if result.label_names:
        k = len(result.label_names)
        rows["rows × labels"] = f"{result.samples // k} × {k}"
    else:
        rows["rows × classes"] = f"{result.samples} × {result.classes}"
    if result.sensitivity:
        rows["T with ½ σ, 2 σ"] = "{:.4f}, {:.4f}".format(*result.sensitivity)
    console.print_pairs("calibration", rows)
    if len(result.evidence) > 1:
        table = console.table("kind", "T", "95 % interval", "weight", title="evidence")
        for name, part in result.evidence.items():
            interval = "{:.3f} to {:.3f}".format(*part.interval)
            table.add_row(name, f"{part.value:.4f}", interval, f"{part.weight:.2f}")
        console.console().print(table)
    if result.groups:
        _show_groups(result)
    if result.verdict is not None:
        console.print_line(f"verdict: {result.verdict}. {result.reason}")
        step = result.next_step.replace("LOGITS", logits)
        if labels is None:
            step = step.replace("--labels to_label.csv -o more.csv", "-o to_label.csv")
        else:
            step = step.replace("--labels to_label.csv", f"--labels {labels}")
            step = step.replace("-o more.csv", f"-o {_unused_name('more.csv')}")
        console.print_line(f"next step: {step}")
    console.notes(result.warnings)


def _show_groups(result: "tepid.Temperature") -> None:
    kind = "label" if result.label_names else "group"
    last = "verdict" if result.verdict else "status"
    columns = (kind, "temperature", "implied accuracy", "rows", last)
    table = console.table(*columns, title=f"{kind}s")
    for name, t in result.groups.items():
        accuracy = f"{100 * t.implied_accuracy:.2f} %"
        table.add_row(name, f"{t.value:.4f}", accuracy, str(t.samples), t.verdict or t.status)
    console.console().print(table)


def _unused_name(name: str) -> str:
    """The name of a file that does not exist yet: more.csv, more-2.csv and so on."""
    path, number = Path(name), 1
    while path.exists():
        number += 1
        path = path.with_stem(f"{Path(name).stem}-{number}")
    return str(path)
