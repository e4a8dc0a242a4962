"""The HTML page: escaped elements, and one document with its style, scripts and data inside."""

import base64
import hashlib
import html
import importlib.metadata
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from string import Template

import numpy as np

# In the order of their dependencies.
_SCRIPTS = ("draw", "reliability", "slider", "acceptance", "classes", "theme")


@dataclass(frozen=True)
class Section:
    """A section of the page; the table of contents lists its title."""

    name: str
    title: str
    inside: str

    def __str__(self) -> str:
        return (
            f'<section id="{self.name}" aria-labelledby="{self.name}-title">'
            f'<h2 id="{self.name}-title">{escape(self.title)}</h2>{self.inside}</section>'
        )


def render(title: str, facts: str, sections: Sequence[Section], data: object) -> str:
    """The whole document, with its style, scripts and data inside."""
    links = (f'<li><a href="#{s.name}">{escape(s.title)}</a></li>' for s in sections)
    style = _asset("page.css")
    script = "\n".join(_asset(f"{name}.js") for name in _SCRIPTS)
    return Template(_asset("page.html")).substitute(
        title=escape(title),
        facts=escape(facts),
        version=escape(importlib.metadata.version("tepid")),
        policy=f"default-src 'none'; img-src data:; style-src '{_csp_hash(style)}'; "
        f"script-src '{_csp_hash(script)}'; base-uri 'none'; form-action 'none'",
        style=style,
        script=script,
        data=script_json(data),
        contents="".join(links),
        sections="\n".join(map(str, sections)),
    )


def _asset(name: str) -> str:
    return (resources.files("tepid.report") / "assets" / name).read_text(encoding="utf-8")


def _csp_hash(text: str) -> str:
    """The hash by which the content security policy allows exactly this text."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def escape(text: object) -> str:
    """Text that is safe inside an element or a quoted attribute."""
    return html.escape(str(text), quote=True)


def table(caption: str, head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A table; the first cell of each row is its heading."""
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


def terms(pairs: Iterable[tuple[str, str]]) -> str:
    """The inside of a list of terms and their values."""
    return "".join(
        f"<div><dt>{escape(term)}</dt><dd>{escape(no_breaks(value))}</dd></div>"
        for term, value in pairs
    )


def readings(titles: Mapping[str, str]) -> str:
    """Numbers that a script fills in, by the names under which it does."""
    cells = (
        f'<div><dt>{title}</dt><dd id="read-{name}"></dd></div>' for name, title in titles.items()
    )
    return f'<dl class="readings">{"".join(cells)}</dl>'


def range_input(name: str, label: str, output: str) -> str:
    """A slider with its label and the element that shows its value."""
    return (
        f'<label for="{name}">{label} <output id="{output}" for="{name}"></output></label>'
        f'<input type="range" id="{name}" min="0" step="1">'
    )


def paragraph(text: str) -> str:
    """A paragraph of text."""
    return f"<p>{escape(no_breaks(text))}</p>"


def no_breaks(text: str) -> str:
    """The text with non-breaking spaces between numbers and their units."""
    return text.replace(" %", "\u00a0%").replace("T = ", "T\u00a0=\u00a0")


def percent(value: float) -> str:
    """A share as a percentage with two digits."""
    return f"{100 * value:.2f} %"


def script_json(value: object) -> str:
    """JSON that cannot end its script element; NaN and infinity become null."""
    text = json.dumps(_to_json(value), allow_nan=False, separators=(",", ":"))
    # In JSON these characters occur inside strings only, where they may be escaped.
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _to_json(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _to_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _to_json(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_to_json(item) for item in value]
    return _shorten(value) if isinstance(value, float) else value


def _shorten(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    short = float(f"{value:.9g}")
    return int(short) if short.is_integer() and abs(short) < 2**53 else short
