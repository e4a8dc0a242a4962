"""One page that needs nothing but a browser: its style, its script and its data stand in it."""

import base64
import hashlib
import importlib.metadata
from collections.abc import Sequence
from importlib import resources
from string import Template
from typing import Any

from tepid.report import markup
from tepid.report.markup import Section

# In the order in which they need each other.
_SCRIPTS = ("draw", "reliability", "slider", "classes", "theme")


def page(title: str, facts: str, sections: Sequence[Section], data: Any) -> str:
    """The whole document."""
    links = (f'<li><a href="#{s.name}">{markup.escape(s.title)}</a></li>' for s in sections)
    style = _text("page.css")
    script = "\n".join(_text(f"{name}.js") for name in _SCRIPTS)
    return Template(_text("page.html")).substitute(
        title=markup.escape(title),
        facts=markup.escape(facts),
        version=markup.escape(importlib.metadata.version("tepid")),
        policy=f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; "
        f"script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'",
        style=style,
        script=script,
        data=markup.script_json(data),
        contents="".join(links),
        sections="\n".join(map(str, sections)),
    )


def _text(name: str) -> str:
    return (resources.files("tepid.report") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """What lets this very text run where the page's policy forbids all else."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
