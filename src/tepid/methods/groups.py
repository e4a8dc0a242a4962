"""One temperature per group, drawn towards that of all rows as far as a group is small."""

import dataclasses
import math
from dataclasses import dataclass

from tepid.engines import Engine
from tepid.methods.passes import Asking, Key, each_answered
from tepid.methods.search import mean_confidence
from tepid.sources import Source
from tepid.temperature import Temperature


@dataclass(frozen=True)
class Fit:
    """A temperature, and the standard error of its logarithm that sampling alone would give."""

    temperature: Temperature
    error: float | None

    @property
    def known(self) -> bool:
        """Whether there is a temperature, and it is known how well."""
        return self.temperature.status == "ok" and bool(self.error)


@dataclass(frozen=True)
class _Spread:
    """The variance of log T between groups, and how many groups told it."""

    variance: float
    groups: int


def together(fits: dict[Key, Fit], source: Source, engine: Engine) -> Temperature:
    r"""The temperature of all rows with those of the groups, each shrunk towards it.

    Groups are taken to differ by $\log T_g \sim N(\log T, \tau^2)$, with $\tau^2$ from the moments
    of what they alone gave (DerSimonian & Laird 1986); each then keeps
    $\tau^2 / (\tau^2 + s_g^2)$ of its distance, $s_g$ being its own standard error. Groups that
    differ by no more than chance get one temperature, and so does a group that has none itself.
    """
    pooled = fits[None]
    own: dict[Key, Fit] = {key: fit for key, fit in fits.items() if key is not None}
    if not own:
        return pooled.temperature
    known = [fit for fit in own.values() if fit.known]
    spread = _Spread(_between(known), len(known))
    shrunk = {key: _shrunk(fit, pooled, spread) for key, fit in own.items()}

    def judging(key: Key) -> Asking[float]:
        return mean_confidence(shrunk[key].value)

    confidence = each_answered(judging, source, engine, tuple(shrunk))
    groups = {
        str(key): dataclasses.replace(t, implied_accuracy=confidence[key])
        for key, t in shrunk.items()
    }
    return dataclasses.replace(pooled.temperature, groups=groups)


def _between(fits: list[Fit]) -> float:
    """The variance of log T between groups, beyond what their own errors explain."""
    weights = [1 / (fit.error or 1.0) ** 2 for fit in fits]
    places = [math.log(fit.temperature.value) for fit in fits]
    total = math.fsum(weights)
    spare = total - math.fsum(w * w for w in weights) / total if len(fits) > 1 else 0.0
    if spare <= 0:
        return 0.0
    centre = math.fsum(w * x for w, x in zip(weights, places, strict=True)) / total
    excess = math.fsum(w * (x - centre) ** 2 for w, x in zip(weights, places, strict=True))
    return max(0.0, (excess - (len(fits) - 1)) / spare)


def _shrunk(fit: Fit, pooled: Fit, spread: _Spread) -> Temperature:
    own, all_rows = fit.temperature, pooled.temperature
    if own.status == "abstained" or not pooled.known:
        return own
    if not fit.known:
        said = f"These rows alone gave no temperature ({own.status}); T is that of all rows."
        return dataclasses.replace(
            all_rows, samples=own.samples, warnings=(said,), sensitivity=None
        )
    error, error_pooled = fit.error or 0.0, pooled.error or 0.0
    kept = spread.variance / (spread.variance + error**2)
    apart = math.log(own.value / all_rows.value)
    log_t = math.log(all_rows.value) + kept * apart
    said = (
        f"These rows alone gave T = {own.value:.4g}; {100 * kept:.0f} % of its distance from the "
        f"{all_rows.value:.4g} of all rows was kept."
    )
    # The last term is for the variance between groups, which is itself an estimate (Morris 1983).
    unsure = 2 / max(spread.groups - 1, 1) * ((1 - kept) * apart) ** 2
    wide = 1.96 * math.sqrt(kept * error**2 + ((1 - kept) * error_pooled) ** 2 + unsure)
    interval = (math.exp(log_t - wide), math.exp(log_t + wide))
    return dataclasses.replace(
        own,
        value=math.exp(log_t),
        interval=None if own.interval is None else interval,
        sensitivity=None,
        warnings=(said, *own.warnings),
    )
