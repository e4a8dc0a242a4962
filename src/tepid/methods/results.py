"""From the answer of a search to a `Temperature`: standard errors, warnings and groups."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tepid.engines import Engine
from tepid.methods.passes import Key, Passes, run_by_group
from tepid.methods.search import Answer, mean_confidence
from tepid.sources import Source
from tepid.summaries.curve import Curve
from tepid.summaries.tails import Tails
from tepid.temperature import Temperature

# Below this mean confidence UTS was measured to help and to harm about equally often.
CONFIDENT = 0.95
# The bias of UTS is noticeable below this number of rows.
ENOUGH_ROWS = 1000
# The normal quantile of a 95 % interval.
NORMAL = 1.96
# A standard error of log T above this carries no information about T: the ends of the interval
# would differ by a factor of 10^8.
_LARGEST_ERROR = 5.0
_FLAT = (
    "The loss is nearly flat: the evidence hardly depends on the temperature, so the value is not "
    "determined."
)

_BOUND_WARNINGS = {
    "inside": "",
    "nowhere": "Every row's logits are equal, so every temperature gives the same result.",
    "no-pairs": "No row reaches the threshold of UTS, so nothing determines a temperature.",
    "beyond-zero": (
        "No temperature is low enough: the evidence agrees with every prediction. "
        "The value is the end of the range that was searched."
    ),
    "beyond-infinity": (
        "No temperature is high enough: the evidence is no better than chance. "
        "The value is the end of the range that was searched."
    ),
    "below": "The best temperature lies below the range that was searched; T is its lower end.",
    "above": "The best temperature lies above the range that was searched; T is its upper end.",
}


@dataclass(frozen=True)
class Fit:
    """A temperature, and the standard error of log T due to sampling alone."""

    temperature: Temperature
    error: float | None

    @property
    def known(self) -> bool:
        """Whether there is a temperature with a standard error."""
        return self.temperature.status == "ok" and 0 < (self.error or 0.0) <= _LARGEST_ERROR

    @property
    def place(self) -> "Place":
        """The estimate of log T, where it is known."""
        return Place(math.log(self.temperature.value), self.error or 0.0)


def to_temperature(
    answer: Answer, method: str, *, error: float | None = None, notes: tuple[str, ...] = ()
) -> Temperature:
    """The temperature of an answer; with a standard error it has a 95 % interval.

    One whose standard error is so large that it carries no information is not identified.
    """
    vague = error is not None and error > _LARGEST_ERROR
    status = "not-identified" if vague and answer.status == "ok" else answer.status
    flat = (_FLAT,) if status == "not-identified" and answer.reading.where == "inside" else ()
    return Temperature(
        answer.temperature,
        method,
        samples=round(answer.curve.rows),
        classes=answer.curve.classes,
        implied_accuracy=answer.confidence,
        status=status,
        interval=None if error is None or vague else interval_around(answer.temperature, error),
        precision=answer.precision,
        warnings=bound_warnings(answer) + flat + row_warnings(answer.curve) + notes,
    )


# Standard errors of log T.


def loss_error(point: Curve | None, node: int = 0) -> float | None:
    """The sandwich standard error where, at a node, the loss of the first weighting is least."""
    if point is None or not point.curvature[0, node]:
        return None
    steepness = point.curvature[0, node] * point.lattice.nodes[node]
    return float(math.sqrt(point.square[0, node]) / steepness)


def matching_error(
    point: Curve | None, known: float = 0.0, sampling: float | None = None
) -> float | None:
    """The standard error where the mean confidence matches an accuracy with standard error `known`.

    It adds the error of the accuracy and the sampling error of the mean confidence, whose variance
    is `sampling` where the rows are not independent.
    """
    if point is None or point.rows < 2 or sampling == math.inf:
        return None
    mean = point.confidence[0] / point.weight
    variance = max(point.confidence_square[0] / point.weight - mean**2, 0.0)
    slope = point.lattice.nodes[0] * point.confidence_slope[0] / point.weight
    if not slope:
        return None
    by_row = variance * point.weight_square / point.weight**2
    return float(math.sqrt(max(by_row, sampling or 0.0) + known**2) / slope)


def nearest_node(curve: Curve, temperature: float) -> int:
    """The node of a curve nearest to a temperature."""
    return int(np.abs(np.log(curve.lattice.nodes * temperature)).argmin())


def interval_around(temperature: float, error: float) -> tuple[float, float]:
    """The 95 % interval of a temperature whose logarithm has this standard error."""
    return temperature * math.exp(-NORMAL * error), temperature * math.exp(NORMAL * error)


# Warnings.


def bound_warnings(answer: Answer) -> tuple[str, ...]:
    """Why no temperature inside the range was found."""
    sentence = _BOUND_WARNINGS[answer.reading.where]
    return (sentence,) if sentence else ()


def row_warnings(curve: Curve) -> tuple[str, ...]:
    """A warning if there are fewer rows than classes."""
    if curve.rows < curve.classes:
        return (f"There are fewer rows ({curve.rows:.0f}) than classes ({curve.classes}).",)
    return ()


def uts_warnings(curve: Curve, tails: Tails) -> tuple[str, ...]:
    """The conditions under which UTS was measured to fail."""
    found = []
    if curve.rows < ENOUGH_ROWS:
        found.append(
            f"UTS is biased toward high temperatures with fewer than {ENOUGH_ROWS} rows; there "
            f"are {curve.rows:.0f}."
        )
    mean = float(tails.confidence.sum() / tails.weight)
    if mean < CONFIDENT:
        found.append(
            f"The mean confidence at T = 1 is {mean:.3f}. Below {CONFIDENT}, UTS helped and harmed "
            "about equally often in the benchmark. tepid.calibrate keeps T = 1 in this case, "
            "unless you give labels, an accuracy or other evidence."
        )
    if np.count_nonzero(tails.predicted) == 1:
        only = int(tails.predicted.argmax())
        found.append(
            f"Every row is predicted as class {only}, so the rows say little about the others."
        )
    return tuple(found)


def sensitivity_warnings(answer: Answer) -> tuple[str, ...]:
    """A warning if the loss at half or twice the deviations has no minimum in the range."""
    names = ("half", "twice")
    edges = [n for n, r in zip(names, answer.readings[1:], strict=True) if r.where != "inside"]
    if not edges or answer.reading.where != "inside":
        return ()
    return (f"UTS finds no optimum in the range with {' and '.join(edges)} the deviations.",)


# Groups.


@dataclass(frozen=True)
class Place:
    """An estimate of log T with its standard error; `kept` is the share of its own distance."""

    log_t: float
    error: float
    kept: float = 1.0


def shrink_groups(pool: Place, groups: Mapping[str, Place]) -> dict[str, Place]:
    r"""The estimates of groups, each shrunk toward the estimate of all rows.

    Groups are taken to differ by $\log T_g \sim N(\log T, \tau^2)$, with $\tau^2$ estimated by the
    method of moments (DerSimonian & Laird 1986). Each group keeps $\tau^2 / (\tau^2 + s_g^2)$ of
    its distance, $s_g$ being its own standard error. Groups that differ by no more than chance get
    one temperature.
    """
    variance = _variance_between(list(groups.values()))
    return {name: _shrink(own, pool, variance, len(groups)) for name, own in groups.items()}


def _variance_between(places: list[Place]) -> float:
    """The variance of log T between groups, beyond what their own errors explain."""
    weights = [1 / place.error**2 for place in places]
    total = math.fsum(weights)
    spare = total - math.fsum(w * w for w in weights) / total if len(places) > 1 else 0.0
    if spare <= 0:
        return 0.0
    center = math.fsum(w * p.log_t for w, p in zip(weights, places, strict=True)) / total
    excess = math.fsum(w * (p.log_t - center) ** 2 for w, p in zip(weights, places, strict=True))
    return max(0.0, (excess - (len(places) - 1)) / spare)


def _shrink(own: Place, pool: Place, variance: float, groups: int) -> Place:
    kept = variance / (variance + own.error**2)
    apart = own.log_t - pool.log_t
    # The last term is the uncertainty of the variance between groups (Morris 1983).
    unsure = 2 / max(groups - 1, 1) * ((1 - kept) * apart) ** 2
    error = math.sqrt(kept * own.error**2 + ((1 - kept) * pool.error) ** 2 + unsure)
    return Place(pool.log_t + kept * apart, error, kept)


def shrinkage_note(own: float, pool: float, kept: float) -> str:
    """How a group's temperature came about."""
    return (
        f"These rows alone gave T = {own:.4g}. It was shrunk toward the T of all rows, "
        f"{pool:.4g}, and keeps {100 * kept:.0f} % of the distance."
    )


def combine_groups(fits: dict[Key, Fit], source: Source, engine: Engine) -> Temperature:
    """The temperature of all rows with those of the groups, shrunk by `shrink_groups`.

    A group without a temperature of its own gets the temperature of all rows.
    """
    pooled = fits[None]
    own = {str(key): fit for key, fit in fits.items() if key is not None}
    if not own:
        return pooled.temperature
    if not pooled.known:
        groups = {name: fit.temperature for name, fit in own.items()}
        return dataclasses.replace(pooled.temperature, groups=groups)
    known = {name: fit.place for name, fit in own.items() if fit.known}
    places = shrink_groups(pooled.place, known)
    shrunk = {name: _group(fit, pooled, places.get(name)) for name, fit in own.items()}

    def confidence_of(key: Key) -> Passes[float]:
        return mean_confidence(shrunk[str(key)].value)

    confidence = run_by_group(confidence_of, source, engine, tuple(shrunk))
    groups = {
        name: dataclasses.replace(t, implied_accuracy=confidence[name])
        for name, t in shrunk.items()
    }
    return dataclasses.replace(pooled.temperature, groups=groups)


def _group(fit: Fit, pooled: Fit, place: Place | None) -> Temperature:
    own, all_rows = fit.temperature, pooled.temperature
    if place is None:
        note = f"These rows alone gave no temperature ({own.status}); the T of all rows is used."
        return dataclasses.replace(
            all_rows, samples=own.samples, warnings=(note,), sensitivity=None
        )
    value = math.exp(place.log_t)
    return dataclasses.replace(
        own,
        value=value,
        interval=None if own.interval is None else interval_around(value, place.error),
        sensitivity=None,
        warnings=(shrinkage_note(own.value, all_rows.value, place.kept), *own.warnings),
    )
