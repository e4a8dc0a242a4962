"""From logits to a report on the disk."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tepid.engines import Engine, choose_engine
from tepid.errors import InputError
from tepid.methods.logits import check_repeatable
from tepid.replacing import replacing
from tepid.report import reading, sections, words
from tepid.report.content import content
from tepid.report.gallery import gallery
from tepid.report.page import page
from tepid.report.pictures import Pictures, open_pictures
from tepid.report.stops import place, stops
from tepid.sources import open_source
from tepid.temperature import Temperature

_LONGEST_NAME = 200


def write(  # what may be shown besides the logits is all optional
    path: str | os.PathLike[str],
    logits: Any,
    *,
    labels: Any = None,
    temperatures: Sequence[Temperature] | Mapping[str, Temperature] = (),
    names: Any = None,
    images: Any = None,
    title: str | None = None,
    columns: Any = None,
    probabilities: bool = False,
    engine: Engine | None = None,
) -> None:
    """Write a report on these logits as one HTML file that needs no network.

    `temperatures` are what `from_logits`, `load` and the others return, in a sequence or by name;
    the first is what the report is about. Without any, the report fits its own: UTS and `guarded`,
    and with labels also the temperature of the labels and that of their accuracy, which are then
    judged on the very rows that they were fitted to.

    `names` are the classes' names or a file with one on each line. `images` are one for each row:
    uint8 (n, h, w) or (n, h, w, 3), a mapping from row numbers to such, a file of either (`.npz`
    with `images` and perhaps `image_rows`), or a folder of picture files in the order of names.

    The rows are read twice beyond the fits and never held, so that the report of fifty million is
    as small as that of fifty.
    """
    source = open_source(logits, labels=labels, columns=columns, probabilities=probabilities)
    engine = choose_engine(engine, source)
    check_repeatable(source)
    pictures = None if images is None else open_pictures(images)
    titles = None if names is None else class_names(names)
    _check(pictures, titles, source.rows, source.classes)  # as early as can be
    fits = reading.given(temperatures) if len(temperatures) else reading.fitted(source, engine)
    among = None if pictures is None else pictures.among
    findings = reading.found(source, fits, engine, among)
    classes = findings.tails.classes
    _check(pictures, titles, findings.read, classes)
    called = [str(k) for k in range(classes)] if titles is None else titles
    every, places = stops(findings)
    before = place(every, 1.0)
    parts = [
        sections.in_short(findings, every, places, every[before]),
        sections.slider(findings),
        sections.reliability(every, places, before) if findings.curve.labelled else None,
        sections.classes(),
        gallery(findings, called, pictures),
        sections.groups(fits.temperatures),
    ]
    text = page(
        title or f"Calibration of {source.name}",
        _facts(findings),
        [part for part in parts if part is not None],
        content(findings, every, places, called),
    )
    with replacing(path) as file:
        file.write(text.encode(errors="replace"))  # a file's name may hold half a character


def class_names(names: Any) -> list[str]:
    """The names of the classes, from a sequence or from the lines of a file."""
    if not isinstance(names, (str, os.PathLike)):
        return _shown(str(name) for name in names)
    path = Path(names)
    if not path.is_file():
        raise InputError(f"names must be a file with one class on each line, got {path}")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except ValueError:
        raise InputError(f"names must be text in UTF-8, got another file in {path}") from None
    return _shown(text.removesuffix("\n").split("\n"))


def _shown(names: Iterable[str]) -> list[str]:
    """Names of one line that are not too long; a class without one goes by its number."""
    short = (" ".join(name.split())[:_LONGEST_NAME] for name in names)
    return [name or str(k) for k, name in enumerate(short)]


def _check(
    pictures: Pictures | None, names: list[str] | None, rows: int | None, classes: int | None
) -> None:
    if pictures is not None and rows is not None:
        pictures.check(rows)
    if names is not None and classes is not None and len(names) != classes:
        raise InputError(f"names must be one for each of the {classes} classes, got {len(names)}")


def _facts(findings: reading.Findings) -> str:
    labelled = "with labels" if findings.curve.labelled else "without labels"
    return f"{words.rows(findings)}, {findings.tails.classes:,} classes, {labelled}"
