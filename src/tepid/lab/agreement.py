"""A measured figure beside the paper's: whether one split could have given it."""

import math
from dataclasses import dataclass
from typing import Any

# The paper's figures are of one split; two standard deviations hold 95 % of splits.
SPREADS = 2.0


@dataclass(frozen=True)
class Cell:
    """The mean and standard deviation of a figure over splits, and the paper's, NaN without one.

    `rounding` is half a unit of the last digit that the paper prints.
    """

    mean: float = math.nan
    sd: float = math.nan
    paper: float = math.nan
    rounding: float = 0.0

    @property
    def agrees(self) -> bool | None:
        r"""Whether $|\bar x - x_{paper}| \le 2 s$ and the rounding; None without both figures.

        The spread is that of one split, as the paper's figure is of one: the mean over many splits
        is known better than that, and the paper's figure is not.

        >>> Cell(mean=1.453, sd=0.021, paper=1.450).agrees
        True
        >>> Cell(mean=1.453, sd=0.021, paper=1.500).agrees
        False
        """
        gap = abs(self.mean - self.paper)
        if math.isnan(gap):
            return None
        return gap <= SPREADS * (0.0 if math.isnan(self.sd) else self.sd) + self.rounding

    def as_json(self) -> dict[str, Any]:
        """The cell as plain values, None for what is not there."""
        numbers = {"mean": self.mean, "sd": self.sd, "paper": self.paper}
        plain = {name: None if math.isnan(v) else v for name, v in numbers.items()}
        return plain | {"agrees": self.agrees}
