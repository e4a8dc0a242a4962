"""`tepid demo`."""

from pathlib import Path
from typing import Any

import tepid
from tepid.cli import fitting, judging, options, output, scoring

_REPORT = Path("tepid-demo.html")


def demo(as_json: options.Json = False) -> None:
    """Calibrate a real network without its labels, then show with them what that did.

    Example: tepid demo
    """
    data = tepid.demo.fashion()
    temperature = tepid.from_logits(data["logits"])
    scored = {
        name: tepid.Reliability.of_logits(data["logits"], data["labels"], temperature=t)
        for name, t in (("before", 1.0), ("after", float(temperature)))
    }
    if as_json:
        measured = {name: tepid.protocol.measures(r) for name, r in scored.items()}
        output.print_json({"calibration": temperature.as_dict()} | measured)
        return
    screen = output.console()
    screen.print(
        "A small network trained on Fashion-MNIST gave logits for 10,000 test images.\n"
        "First, a temperature from the logits alone:\n"
    )
    fitting.show(temperature, None)
    screen.print("\nThen, with the labels that tepid did not see, what it did:\n")
    scoring.show(scored, judging.Judged({}, {}, {}, 0), as_json=False)
    _report(data)
    screen.print(f"\nwrote {_REPORT}: open it in a browser and move the temperature", markup=False)


def _report(data: dict[str, Any]) -> None:
    tepid.report.write(
        _REPORT,
        data["logits"],
        labels=data["labels"],
        names=data["names"],
        images=dict(zip(data["image_rows"].tolist(), data["images"], strict=True)),
        title="Fashion-MNIST, a small network",
    )
