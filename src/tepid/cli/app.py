"""The Typer app: every command, the greeting, `--version`, `tepid demo` and `tepid doctor`.

The modules of the commands import NumPy and everything heavier only when a command runs.
"""

import importlib.metadata
import os
import platform
import re
from pathlib import Path
from typing import Annotated, Any

import typer

import tepid
from tepid.cli import ask, console, decide, deploy, evaluate, fit, lab, options
from tepid.cli.calibrations import show_temperature

_GREETING = """\
tepid {}: calibrate a trained classifier with few labels or none.

  tepid demo                                 what it does, on a real network
  tepid fit logits.npy -o calibration.json   find a temperature and save it
  tepid ask logits.npy -o to_label.csv       choose 25 rows to label

tepid --help lists every command, tepid COMMAND --help its options.
"""

app = typer.Typer(
    name="tepid",
    help="Calibrate a trained classifier with few labels or none.",
    epilog="Tab completes commands and options after `tepid --install-completion`.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tepid {tepid.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _greet(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001  # typer calls _print_version
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version of tepid."
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(_GREETING.format(tepid.__version__), nl=False)


# --- tepid demo

_DEMO_REPORT = Path("tepid-demo.html")
# Of 40 draws of 25 labels, seed 5 is near the median by the ECE of the result.
_DEMO_LABELS, _DEMO_SEED = 25, 5


def demo(as_json: options.Json = False) -> None:
    """Calibrate a real network: from its logits alone, then with 25 labels.

    Example: tepid demo
    """
    import numpy as np  # noqa: PLC0415  # only when asked

    data = tepid.demo.fashion()
    logits, labels = data["logits"], data["labels"]
    chosen = ask.choose_rows(tepid.open_source(logits), _DEMO_LABELS, _DEMO_SEED).chosen
    known = np.full(len(labels), -1)
    known[chosen] = labels[chosen]
    with console.without_calibration_warnings():
        alone, with_labels = tepid.calibrate(logits), tepid.calibrate(logits, known)
    temperatures = {
        "before": 1.0, "logits alone": float(alone), "with labels": float(with_labels),
    }  # fmt: skip
    reliability = {
        name: tepid.summaries.Reliability.of_logits(logits, labels, temperature=t)
        for name, t in temperatures.items()
    }
    if as_json:
        measured = {name: tepid.comparison.measures(r) for name, r in reliability.items()}
        fits = {"logits alone": alone.as_dict(), "with labels": with_labels.as_dict()}
        console.print_json({"calibrations": fits} | measured)
        return
    screen = console.console()
    screen.print(
        "A small network trained on Fashion-MNIST gave logits for 10,000 test images.\n\n"
        "tepid fit logits.npy\n"
    )
    show_temperature(alone, "logits.npy")
    screen.print(
        f"\ntepid ask logits.npy -n {_DEMO_LABELS} -o to_label.csv\n"
        f"... a person fills in {_DEMO_LABELS} labels ...\n"
        "tepid fit logits.npy --labels to_label.csv\n"
    )
    show_temperature(with_labels, "logits.npy", "to_label.csv")
    screen.print("\nWith all 10,000 labels, which tepid did not see, what that did:\n")
    evaluate.show_scores(reliability, evaluate.Scores(), as_json=False)
    tepid.report.write(
        _DEMO_REPORT,
        logits,
        labels=labels,
        temperatures={"25 labels": with_labels, "logits alone": alone},
        names=data["names"],
        images=dict(zip(data["image_rows"].tolist(), data["images"], strict=True)),
        title="Fashion-MNIST, a small network",
    )
    screen.print(f"\nwrote {_DEMO_REPORT}: open it in a browser and move the temperature")


# --- tepid doctor

# Extras for those who work on tepid itself.
_OURS = ("dev", "bench", "docs")


def doctor(as_json: options.Json = False) -> None:
    """Print versions, threads, the kernels in use, and how to install missing packages.

    Example: tepid doctor
    """
    from tepid.kernels import tiers  # noqa: PLC0415  # NumPy, only when asked

    packages = _packages_by_extra()
    needed = packages.pop("", [])
    # Of several extras that bring a package, the last to be listed is the smallest.
    extras = sorted(packages, key=lambda extra: len(packages[extra]), reverse=True)
    extra_of = {name: extra for extra in extras for name in packages[extra]}
    found: dict[str, Any] = {
        "tepid": importlib.metadata.version("tepid"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "needed": {name: _version(name) for name in needed},
        "optional": {
            name: {"version": _version(name), "install": f"pip install 'tepid[{extra}]'"}
            for name, extra in sorted(extra_of.items())
        },
        "threads": _threads(),
        "kernels": tiers.describe(),
    }
    if as_json:
        console.print_json(found)
        return
    rows = {"tepid": found["tepid"], "Python": f"{found['python']} on {found['platform']}"}
    rows |= {name: version or "missing" for name, version in found["needed"].items()}
    console.print_pairs("versions", rows)
    optional = {
        name: part["version"] or f"not there; {part['install']}"
        for name, part in found["optional"].items()
    }
    console.print_pairs("optional parts", optional, wrap=False)
    threads, kernels = found["threads"], found["kernels"]
    state = {
        "threads": threads["problem"] or str(threads["count"]),
        "TEPID_THREADS": threads["TEPID_THREADS"] or "not set",
        "kernels": kernels["tier"],
        "problem": kernels["problem"] or "none",
        "numba cache": kernels["cache"]
        or "no folder can be written, so that every process compiles; NUMBA_CACHE_DIR may name one",
        "compiled": f"{kernels['compiled']} of {kernels['kernels']} kernels",
    }
    console.print_pairs("speed", state, wrap=False)


def _packages_by_extra() -> dict[str, list[str]]:
    """The packages that each extra brings; those that tepid always needs are under ""."""
    found: dict[str, list[str]] = {}
    for line in importlib.metadata.requires("tepid") or []:
        package = re.match(r"[\w.-]+", line)
        extra = re.search(r"""extra == ["']([\w-]+)["']""", line)
        name = extra[1] if extra else ""
        if package and name not in _OURS:
            found.setdefault(name, []).append(package[0])
    return found


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _threads() -> dict[str, Any]:
    found = {"count": None, "TEPID_THREADS": os.environ.get("TEPID_THREADS"), "problem": None}
    try:
        return found | {"count": tepid.Threads().threads}
    except (tepid.InputError, ImportError) as error:
        return found | {"problem": str(error)}


# --- every command, in the order of the help


for _command in (
    fit.fit, ask.ask, deploy.apply, decide.decide, decide.sets, decide.performance, evaluate.score,
    evaluate.compare, deploy.onnx, evaluate.report, fit.summarize, fit.merge, demo, doctor,
):  # fmt: skip
    app.command(name=_command.__name__)(console.with_notes(options.expand(_command)))
app.add_typer(lab.lab)
