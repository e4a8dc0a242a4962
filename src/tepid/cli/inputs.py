"""How a command opens its logits: which columns, which rows, and what the values are."""

from dataclasses import dataclass
from typing import Any

import tepid


@dataclass(frozen=True)
class Reading:
    """The options that say how files are read."""

    columns: str | None = None
    where: tuple[str, ...] = ()
    header: bool | None = None
    probabilities: bool = False
    class_axis: int | None = None

    def open(self, logits: str | list[str], **beside: Any) -> "tepid.sources.Source":
        """The logits of a command, with labels, weights and groups beside them."""
        return tepid.sources.open_source(
            logits if isinstance(logits, str) or len(logits) > 1 else logits[0],
            class_axis=self.class_axis,
            where=self._conditions(),
            **self._layout(),
            **beside,
        )

    def open_other(self, logits: str, **beside: Any) -> "tepid.sources.Source":
        """Other logits of the same layout, of which all rows are read.

        A file of another kind has no columns or no header to which the options could apply.
        """
        paths, layout = tepid.sources.paths, self._layout()
        ending = paths.suffix(paths.split_member(logits)[0])
        if ending in paths.ARRAYS:
            layout["columns"] = None
        if ending in (*paths.ARRAYS, *paths.ARROW):
            layout["header"] = None
        return tepid.sources.open_source(logits, **layout, **beside)

    def _layout(self) -> dict[str, Any]:
        columns = None if self.columns is None else [c.strip() for c in self.columns.split(",")]
        return {
            "columns": columns, "header": self.header, "probabilities": self.probabilities,
        }  # fmt: skip

    def _conditions(self) -> dict[str, str] | None:
        pairs = [condition.partition("=") for condition in self.where]
        for (name, sign, _), condition in zip(pairs, self.where, strict=True):
            if not sign or not name:
                raise tepid.InputError(f"--where must be column=value, got {condition}")
        conditions = {name.strip(): value.strip() for name, _, value in pairs}
        if len(conditions) < len(pairs):
            raise tepid.InputError(
                f"--where must name each column once, got {' and '.join(self.where)}"
            )
        return conditions or None
