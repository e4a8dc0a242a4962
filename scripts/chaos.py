"""Random kills and faults over a fit, the monitor's state and the writers.

Each victim is left alone once, to know what it should come to, and then disturbed: killed with -9
at random moments and started again, its files damaged. `python scripts/chaos.py` does a hundred
things, prints what was done and found, and writes benchmarks/results/chaos.json and .md; with
another `--count` it only prints. It ends with 1 if anything was wrong.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from faults import fits, monitors, writers
from faults.killing import Account

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import record

SEED, COUNT = 0, 100
PACKAGES = ("tepid", "numpy", "numba")
NOTE = """\
A kill is `kill -9` of a working process at a random moment; one that came too late is not counted.
After every one the same job is started again, or goes on. Checked: the temperature is that of an
undisturbed run to the last bit, a damaged file of logits is refused, a fit that fails leaves the
result of an earlier one, a monitor loses no batch that was saved, and every file is the old or the
new one, whole. Left: temporary files of killed writers, which are hidden and end in .tmp.
"""


def caused(count: int, seed: int, folder: Path) -> Account:
    """So many kills and faults, or a few more; what they did."""
    rng = np.random.default_rng(seed)
    account = Account()
    fit = fits.made(folder / "fits", rng)
    watch = monitors.made(folder / "monitor", rng)
    every = writers.made(folder / "files", rng)
    turn = 0
    while account.total < count:
        fits.trial(fit, rng, account)
        monitors.trial(watch, rng, account)
        for _ in range(3):
            writers.trial(every[turn % len(every)], rng, account)
            turn += 1
    return account


def rows(account: Account) -> list[tuple[Any, ...]]:
    """What was done to each victim, and what was found."""
    victims = dict.fromkeys(victim for victim, _ in sorted(account.done))
    wrong = [victim for victim, _ in account.wrong]
    return [
        (
            victim,
            ", ".join(
                f"{n} × {what}" for (v, what), n in sorted(account.done.items()) if v == victim
            ),
            account.checks[victim],
            wrong.count(victim),
            account.left[victim],
        )
        for victim in victims
    ]


def main() -> None:
    """Cause, print, and write."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=COUNT)
    options.add_argument("--seed", type=int, default=SEED)
    chosen = options.parse_args()
    command = f"python scripts/chaos.py --count {chosen.count} --seed {chosen.seed}"
    about = record.circumstances(command, chosen.seed, 2, PACKAGES)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        account = caused(chosen.count, chosen.seed, Path(folder))
    seconds = time.perf_counter() - start
    found = rows(account)
    head = ("victim", "done to it", "checks", "wrong", "left")
    said = (
        f"{account.total} kills and faults in {seconds:.0f} s, {account.checks.total()} checks, "
        f"{len(account.wrong)} wrong.\n"
    )
    text = "\n".join(
        [record.preamble("Chaos", about), NOTE, record.table(head, found) + "\n", said]
    )
    print(text)
    for victim, sentence in account.wrong:
        print(f"WRONG, {victim}: {sentence}", file=sys.stderr)
    if (chosen.count, chosen.seed) == (COUNT, SEED):
        figures = {
            "total": account.total,
            "checks": account.checks.total(),
            "wrong": account.wrong,
            "victims": [dict(zip(head, row, strict=True)) for row in found],
        }
        record.write("chaos", {**about, **figures}, text)
    sys.exit(bool(account.wrong))


if __name__ == "__main__":
    main()
