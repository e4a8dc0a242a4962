"""For the API pages: doctests become code blocks, which Markdown does not make of them."""

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)


class FenceDoctests(griffe.Extension):
    """Fences what runs from a prompt to the next blank line."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every object that is read."""
        if obj.docstring is not None:
            text = obj.docstring.value
            obj.docstring.value = _DOCTEST.sub(r"```pycon\n\g<0>\n```", text)
