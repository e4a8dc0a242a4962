"""Write tests/formats: a file of every saved format, and what each must come to when it is loaded.

Run it when a format gets a new number, never to make a test pass: `tests/test_formats.py` shows
that files of this version can still be read. Files of other formats stay as they are.
"""

import json
import sys
import warnings
from pathlib import Path

import tepid
from tepid import scaling
from tepid.online import Monitor, Rules

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests import formats
from tests.made import drifted


def main() -> None:
    """Write the files and `expected.json`."""
    warnings.simplefilter("ignore", tepid.CalibrationWarning)
    logits, labels = drifted(300, 3)
    rules = Rules(reestimate=True, half_life=2.0)
    monitor = Monitor.from_reference(logits, 1.5, chunk=100, rules=rules)
    monitor.update(logits[:250], time=1.0)
    made = {
        "temperature-2.json": tepid.calibrate(logits, labels, groups=labels % 2),
        "tails-2.npz": tepid.summaries.Tails.of(logits),
        "curve-2.npz": tepid.summaries.Curve.of(logits, labels=labels),
        "reliability-2.npz": tepid.summaries.Reliability.of_logits(logits, labels),
        "summaries-2.npz": tepid.summarize(logits, labels),
        "monitor-2.npz": monitor,
    } | {
        f"{method}-2.npz": getattr(scaling, method)(logits, labels)
        for method in ("vector", "matrix", "ensemble", "histogram", "isotonic", "beta")
    }
    for name, value in made.items():
        value.save(formats.FOLDER / name)
    expected = {name: formats.numbers(name, formats.FOLDER / name) for name in sorted(made)}
    text = json.dumps(expected, indent=2) + "\n"
    (formats.FOLDER / "expected.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
