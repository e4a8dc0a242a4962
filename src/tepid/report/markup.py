"""HTML from plain values; whatever was not made here is escaped."""

import html
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Section:
    """A part of the page, with the name and the title that the contents list shows."""

    name: str
    title: str
    inside: str

    def __str__(self) -> str:
        return (
            f'<section id="{self.name}" aria-labelledby="{self.name}-title">'
            f'<h2 id="{self.name}-title">{escape(self.title)}</h2>{self.inside}</section>'
        )


def escape(text: object) -> str:
    """Text as it may stand in an element or between the quotes of an attribute."""
    return html.escape(str(text), quote=True)


def script_json(value: Any) -> str:
    """JSON that cannot end the script element it stands in; what is not a number becomes null."""
    text = json.dumps(_plain(value), allow_nan=False, separators=(",", ":"))
    # Inside a string each may be written as its number, and JSON has none of them elsewhere.
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return _short(value) if isinstance(value, float) else value


def _short(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    short = float(f"{value:.9g}")
    return int(short) if short.is_integer() and abs(short) < 2**53 else short


def table(caption: str, head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A table whose first column names its rows; every cell is text."""
    heads = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    rows = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in body
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def details(summary: str, inside: str) -> str:
    """What is shown when it is asked for."""
    return f"<details><summary>{escape(summary)}</summary>{inside}</details>"


def paragraph(text: str) -> str:
    """A paragraph of text."""
    return f"<p>{escape(held(text))}</p>"


def held(text: str) -> str:
    """The text with its numbers and their units on one line."""
    return text.replace(" %", "\u00a0%").replace("T = ", "T\u00a0=\u00a0")
