"""Is there a rule for logits alone that beats the guard? `results/rules.json`.

`python benchmarks/rules.py FOLDER`. Every rule here is a family with a few parameters. On the sets
of the folder they are chosen with one source of sets left out (sources as its INDEX.md gives them,
else each set is one), and judged on that source. On made networks, whose posterior is known, they
are those that the whole folder would choose, and the calibration error is exact: the mean distance
of the confidence from the probability of being right. A rule that is worth having lowers both
errors and harms no more often than the guard.
"""

import argparse
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import record
from views import GRID, SEED, Seen, made, real

HARM = 0.002
GATES = (0.0, 0.75, 0.85, 0.9, 0.95)
POWERS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)


Rule = Callable[[Seen], float]


def gated(rule: Rule, gate: float) -> Rule:
    """T = 1 where the network is not confident enough."""
    return lambda s: rule(s) if gate <= s.confidence < 1 else 0.0


def budgeted(rule: Rule, budget: float) -> Rule:
    """The confidence moves by no more than the budget."""

    def clipped(s: Seen) -> float:
        low, high = (
            float(np.interp(-c, -s.matched, GRID))
            for c in (s.confidence + budget, s.confidence - budget)
        )
        return min(max(rule(s), low), high)

    return clipped


def families() -> dict[str, dict[str, Rule]]:
    """Every rule that was tried, by family and parameters."""
    guard: Rule = gated(lambda s: s.matching(s.uts**2), 0.95)
    found: dict[str, dict[str, Rule]] = {
        "T = 1": {"": lambda _: 0.0},
        "UTS": {"": lambda s: math.log(s.uts)},
        "guarded": {"": budgeted(guard, 0.03)},
        "guarded, no budget": {"": guard},
    }
    for gate, power in itertools.product(GATES, POWERS):
        said = f"{power:g}, gate {gate:g}"
        tries: dict[str, tuple[str, Rule]] = {
            "power of UTS, gate": ("power ", lambda s, p=power: p * math.log(s.uts)),
            "odds × power of UTS, gate": ("power ", lambda s, p=power: s.matching(s.uts**p)),
            "odds × constant, gate": ("factor ", lambda s, p=power: s.matching(1 + p)),
            "softening only, gate": ("power ", lambda s, p=power: max(0.0, s.matching(s.uts**p))),
            "mean with UTS, gate": (
                "power ",
                lambda s, p=power: (s.matching(s.uts**p) + math.log(s.uts)) / 2,
            ),
        }
        for family, (what, rule) in tries.items():
            found.setdefault(family, {})[what + said] = gated(rule, gate)
    return found | limited()


def limited() -> dict[str, dict[str, Rule]]:
    """Rules that hold UTS back where it may mislead."""
    found: dict[str, dict[str, Rule]] = {}
    for center, power in itertools.product(GATES[1:], POWERS):
        soft = found.setdefault("odds × power of UTS, soft gate", {})
        soft[f"power {power:g}, center {center:g}"] = _soft(center, power)
    for most, power in itertools.product((1.2, 1.5, 2.0, 3.0), POWERS):
        steady = found.setdefault("odds × power of UTS, if steady", {})
        steady[f"power {power:g}, spread below {most:g}"] = _steady(most, power)
    for most, gate in itertools.product((1.2, 1.35, 1.5, 2.0, 3.0), GATES):
        both = found.setdefault("odds × UTS², gate, if steady", {})
        both[f"gate {gate:g}, spread below {most:g}"] = gated(_steady(most, 2.0), gate)
        capped = found.setdefault("odds × UTS² but at most, gate", {})
        capped[f"{most:g}, gate {gate:g}"] = gated(_at_most(most), gate)
    for budget, gate in itertools.product((0.01, 0.02, 0.03, 0.05), GATES):
        rule = budgeted(gated(lambda s: s.matching(s.uts**2), gate), budget)
        found.setdefault("odds × UTS², gate, budget", {})[f"{budget:g}, gate {gate:g}"] = rule
    return found


def _soft(center: float, power: float) -> Rule:
    def rule(s: Seen) -> float:
        weight = 1 / (1 + math.exp(-(s.confidence - center) / 0.02))
        return s.matching(s.uts ** (power * weight))

    return rule


def _steady(most: float, power: float) -> Rule:
    """Only where UTS hardly minds how many deviations its threshold has."""
    return lambda s: s.matching(s.uts**power) if s.spread < most else 0.0


def _at_most(most: float) -> Rule:
    return lambda s: s.matching(min(s.uts**2, most))


def choose(rules: dict[str, Rule], sets: list[Seen]) -> str:
    """The parameters with the least mean ECE over sources of the means over their sets."""

    def error(rule: Rule) -> float:
        by_source: dict[str, list[float]] = {}
        for s in sets:
            by_source.setdefault(s.source, []).append(s.score(rule(s))[0])
        return float(np.mean([np.mean(errors) for errors in by_source.values()]))

    return min(rules, key=lambda name: error(rules[name]))


def left_out(rules: dict[str, Rule], sets: list[Seen]) -> dict[str, Any]:
    """A family judged on each source by the parameters that the other sources choose."""
    scores = []
    for source in sorted({s.source for s in sets}):
        rule = rules[choose(rules, [s for s in sets if s.source != source])]
        scores += [(s.name, *s.score(rule(s)), s.score(0.0)[0]) for s in sets if s.source == source]
    return _figures(scores)


def _figures(scores: list[tuple[str, float, float, float]]) -> dict[str, Any]:
    by_name: dict[str, list[tuple[float, float, float]]] = {}
    for name, *values in scores:
        by_name.setdefault(name, []).append((values[0], values[1], values[2]))
    means = np.array([np.mean(values, axis=0) for values in by_name.values()])
    gap = means[:, 0] - means[:, 2]
    ece, excess = means[:, :2].mean(axis=0).tolist()
    harmed = int((gap > HARM).sum())
    return {"ece": ece, "excess_nll": excess, "harmed": harmed, "worst": float(gap.max())}


def main() -> None:
    """Try every rule on real and on made networks, and write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    about = record.circumstances(
        "python benchmarks/rules.py FOLDER", SEED, 1, ("tepid", "numpy", "numba")
    )
    sets, networks = list(real(folder)), list(made())
    found = {}
    for family, rules in families().items():
        chosen = choose(rules, sets)
        exact = [(s.name, *s.score(rules[chosen](s)), s.score(0.0)[0]) for s in networks]
        found[family] = {
            "tried": len(rules),
            "chosen": chosen,
            "real": left_out(rules, sets),
            "made": _figures(exact),
        }
    rows = [
        (name, f["tried"], f["chosen"], *_cells(f["real"]), *_cells(f["made"]))
        for name, f in found.items()
    ]
    head = ("ECE, %", "excess NLL", "harmed", "worst, points")
    header = ("rule", "tried", "chosen", *head, *(f"made: {h}" for h in head))
    text = record.preamble("Rules", about) + "\n" + record.table(header, rows) + "\n"
    counts = {"sets": len(sets) // 3, "networks": len(networks)}
    record.write("rules", about | counts | {"rules": found}, text)
    print(text)


def _cells(f: dict[str, Any]) -> tuple[str, ...]:
    ece, excess = f"{100 * f['ece']:.2f}", f"{f['excess_nll']:.4f}"
    return ece, excess, str(f["harmed"]), f"{100 * f['worst']:+.2f}"


if __name__ == "__main__":
    main()
