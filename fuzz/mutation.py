"""Mutations of bytes, text and JSON. Every choice is drawn from the generator that is given."""

import copy
import json
import random
import re
from typing import Any

Rng = random.Random

# Sizes and offsets at which counters overflow, wrap or become negative.
INTEGERS = (
    0, 1, 2, 3, 7, 8, 16, 127, 128, 255, 256, 1 << 15, (1 << 16) - 1, 1 << 16, (1 << 24) - 1,
    (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, (1 << 62), (1 << 63) - 1, 1 << 63,
    (1 << 64) - 1,
)  # fmt: skip
NUMBERS = (
    *map(str, INTEGERS), "-1", "-0", "1e308", "-1e308", "1e400", "1e-400", "nan", "inf", "-inf",
    "NaN", "Infinity", "0x10", "1_000", "1.", ".5", "01", "+1", "1e", "True", "None", "١٢",
    "9" * 40, "9" * 5000,
)  # fmt: skip
WORDS = (
    b"", b"\0", b"\n", b"\r\n", b"\r", b'"', b"'", b",", b";", b"\t", b"#", b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"[", b"]", b"{", b"}", b"(", b")", b":", b"/", b"..", b"%", b"null", b"true", b"NaN",
    b"\xe2\x80\xa8", b"\xed\xa0\x80", b"[" * 3000, b"(" * 300, b'{"a":' * 3000, b"-" * 70000,
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 1 << 31, 1 << 63, -(1 << 63), 10**400, 0.5, -0.5, 1e308, -1e308,
    float("nan"), float("inf"), float("-inf"), 1e-300, "", "a", "0", "1", "nan", "-1", "a\nb",
    "\ud800", "\0", "x" * 100, [], {}, [[]], [None], [1, 2], {"a": 1}, [[[[[]]]]],
)  # fmt: skip


def mutate_bytes(rng: Rng, content: bytes, other: bytes) -> bytes:
    """From one to four changes; `other` is another file of the same format."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        content = rng.choice(_BYTES)(rng, content, other)
    return content


def mutate_text(rng: Rng, content: bytes, other: bytes) -> bytes:
    """The same, with numbers and signs of text among the changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
        content = rng.choice(_TEXT)(rng, content, other)
    return content


def _span(rng: Rng, content: bytes, most: int = 64) -> tuple[int, int]:
    start = rng.randrange(len(content) + 1)
    most = rng.choice((1, 4, most, len(content) or 1))
    return start, min(len(content), start + rng.randint(0, most))


def _flip(rng: Rng, content: bytes, _: bytes) -> bytes:
    if not content:
        return content
    changed = bytearray(content)
    changed[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _set_byte(rng: Rng, content: bytes, _: bytes) -> bytes:
    if not content:
        return content
    changed = bytearray(content)
    changed[rng.randrange(len(content))] = rng.randrange(256)
    return bytes(changed)


def _set_integer(rng: Rng, content: bytes, _: bytes) -> bytes:
    width = rng.choice((1, 2, 4, 8))
    if len(content) < width:
        return content
    number = rng.choice((*INTEGERS, len(content), len(content) - 1, rng.randrange(1 << 16)))
    order = rng.choice(("little", "little", "big"))
    place = rng.randrange(len(content) - width + 1)
    if rng.random() < 0.2:  # near to what is there
        found = int.from_bytes(content[place : place + width], order)
        number = found + rng.choice((-1, 1, -8, 8))
    number %= 1 << 8 * width
    return content[:place] + number.to_bytes(width, order) + content[place + width :]


def _truncate(rng: Rng, content: bytes, _: bytes) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _delete(rng: Rng, content: bytes, _: bytes) -> bytes:
    start, stop = _span(rng, content)
    return content[:start] + content[stop:]


def _repeat(rng: Rng, content: bytes, _: bytes) -> bytes:
    start, stop = _span(rng, content)
    times = rng.choice((1, 1, 2, 50)) if stop - start < 1000 else 1
    return content[:stop] + content[start:stop] * times + content[stop:]


def _insert(rng: Rng, content: bytes, _: bytes) -> bytes:
    place = rng.randrange(len(content) + 1)
    return content[:place] + rng.randbytes(rng.randint(1, 16)) + content[place:]


def _zero(rng: Rng, content: bytes, _: bytes) -> bytes:
    start, stop = _span(rng, content)
    return content[:start] + rng.choice((b"\0", b"\xff")) * (stop - start) + content[stop:]


def _move(rng: Rng, content: bytes, _: bytes) -> bytes:
    start, stop = _span(rng, content)
    place = rng.randrange(len(content) + 1)
    return content[:place] + content[start:stop] + content[place + stop - start :]


def _splice(rng: Rng, content: bytes, other: bytes) -> bytes:
    return content[: rng.randrange(len(content) + 1)] + other[rng.randrange(len(other) + 1) :]


def _word(rng: Rng, content: bytes, _: bytes) -> bytes:
    start, stop = _span(rng, content, 4)
    word = rng.choice(WORDS)
    return content[:start] + word + content[rng.choice((start, stop, start + len(word))) :]


def _number(rng: Rng, content: bytes, _: bytes) -> bytes:
    found = list(re.finditer(rb"[-+]?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?", content[: 1 << 16]))
    if not found:
        return content
    match = rng.choice(found)
    new = rng.choice(NUMBERS) if rng.random() < 0.7 else str(rng.randrange(-3, 40))
    return content[: match.start()] + new.encode() + content[match.end() :]


_BYTES = (
    _flip, _flip, _set_byte, _set_integer, _set_integer, _truncate, _delete, _repeat, _insert,
    _zero, _move, _splice,
)  # fmt: skip
_TEXT = (*_BYTES, _word, _word, _word, _number, _number, _number, _number)


# JSON ---------------------------------------------------------------------------------------------


def mutate_json(rng: Rng, content: bytes, other: bytes) -> bytes:
    """Change values inside of JSON; text where it is none."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return mutate_text(rng, content, other)
    for _ in range(rng.choice((1, 1, 2, 3))):
        value = _changed(rng, value)
    return _dump(value)


def mutate_lines(rng: Rng, content: bytes, other: bytes) -> bytes:
    """Change one line of JSON lines, or the text as a whole."""
    lines = content.splitlines(keepends=True)
    if not lines or rng.random() < 0.3:
        return mutate_text(rng, content, other)
    place = rng.randrange(len(lines))
    lines[place] = mutate_json(rng, lines[place], other).rstrip(b"\n") + b"\n"
    return b"".join(lines)


def _dump(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


def _changed(rng: Rng, value: Any) -> Any:
    """One change at a random place below a value."""
    inside = isinstance(value, (dict, list)) and value
    if not inside or rng.random() < 0.1:
        return _other_value(rng, value)
    key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
    if rng.random() < 0.75:
        value[key] = _changed(rng, value[key])
    elif isinstance(value, list):
        _change_list(rng, value, key)
    elif rng.random() < 0.6:
        del value[key]
    else:
        value[rng.choice(("", "a", "format", "a\nb", key + "x"))] = value.pop(key)
    return value


def _change_list(rng: Rng, value: list[Any], key: int) -> None:
    if rng.random() < 0.5:
        del value[key]
    else:
        again = value[rng.randrange(len(value))]
        value[key:key] = [copy.deepcopy(again) for _ in range(rng.choice((1, 1, 40)))]


def _other_value(rng: Rng, value: Any) -> Any:
    if isinstance(value, (int, float)) and rng.random() < 0.3:
        return rng.choice((-value, value + 1, value - 1, str(value), 1.5))
    if isinstance(value, str) and rng.random() < 0.4:
        return mutate_text(rng, value.encode("utf-8", "replace"), b"").decode("utf-8", "replace")
    return copy.deepcopy(rng.choice(VALUES))  # a later change must not reach the constant
