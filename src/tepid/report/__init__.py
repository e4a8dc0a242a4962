"""One HTML file with the result of a calibration and a slider for the temperature."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tepid.engines import Engine, choose_engine
from tepid.errors import InputError
from tepid.methods.exact import check_repeatable
from tepid.report import page, sections
from tepid.report.charts import chart_data
from tepid.report.findings import fit_temperatures, make_slider, name_fits, sum_findings
from tepid.report.images import Images, open_images
from tepid.sources import open_source
from tepid.store import atomic_write
from tepid.temperature import Temperature

__all__ = ["write"]

_LONGEST_NAME = 200


def write(
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

    `temperatures` are results of `tepid.calibrate`, `tepid.load` and the exact methods, in a
    sequence or by name; the report is about the first. Without any, the report fits its own:
    `calibrate` on logits alone and UTS, and with labels also the temperature of the labels and that
    of their accuracy. Those two are then measured on the rows to which they were fitted.

    `names` are the class names, or a file with one on each line. `images` are one for each row:
    uint8 (n, h, w) or (n, h, w, 3), a mapping from row numbers to such arrays, a file of either
    (`.npz` with `images` and optionally `image_rows`), or a folder of image files in the order of
    their names.

    The rows are read three times, and twice if `temperatures` are given. They
    are never held in memory, and the size of the report does not depend on their number.
    """
    source = open_source(logits, labels=labels, columns=columns, probabilities=probabilities)
    engine = choose_engine(engine, source)
    check_repeatable(source)
    opened = None if images is None else open_images(images)
    given = None if names is None else class_names(names)
    _check(opened, given, source.rows, source.classes)  # before reading, if the size is known
    fits = name_fits(temperatures) if len(temperatures) else fit_temperatures(source, engine)
    findings = sum_findings(source, fits, engine, None if opened is None else opened.among)
    _check(opened, given, findings.rows_read, findings.classes)
    shown = [str(k) for k in range(findings.classes)] if given is None else given
    slider = make_slider(findings)
    text = page.render(
        title or f"Calibration of {source.name}",
        sections.facts(findings),
        sections.all_sections(findings, slider, shown, opened),
        chart_data(findings, slider, shown),
    )
    with atomic_write(path) as file:
        file.write(text.encode(errors="replace"))  # file names may hold lone surrogates


def class_names(names: Any) -> list[str]:
    """The names of the classes, from a sequence or from the lines of a file.

    A name has one line and a limited length; an empty name becomes the number of its class.
    """
    if isinstance(names, (str, os.PathLike)):
        path = Path(names)
        if not path.is_file():
            raise InputError(f"names must be a file with one class on each line, got {path}")
        try:
            text = path.read_text(encoding="utf-8-sig")
        except ValueError:
            raise InputError(f"names must be text in UTF-8, got another file in {path}") from None
        names = text.removesuffix("\n").split("\n")
    short = (" ".join(str(name).split())[:_LONGEST_NAME] for name in names)
    return [name or str(k) for k, name in enumerate(short)]


def _check(
    images: Images | None, names: list[str] | None, rows: int | None, classes: int | None
) -> None:
    if images is not None and rows is not None:
        images.check(rows)
    if names is not None and classes is not None and len(names) != classes:
        raise InputError(f"names must be one for each of the {classes} classes, got {len(names)}")
