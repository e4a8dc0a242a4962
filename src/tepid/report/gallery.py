"""Some rows with what calibration did to them, as in the paper's Figures 2 and 3."""

from collections.abc import Sequence

from tepid.report import markup, words
from tepid.report.markup import Section
from tepid.report.picks import Pick
from tepid.report.pictures import Picture, Pictures
from tepid.report.reading import Findings


def gallery(findings: Findings, names: Sequence[str], pictures: Pictures | None) -> Section:
    """Some rows with their confidence before and after."""
    short = f"T = {findings.after.temperature:.4g}"
    kinds = {
        "Right: drawn by a fixed lot": findings.picks.right,
        "Wrong: the surest mistakes": findings.picks.wrong,
        "Rows whose confidence moved most": findings.picks.moved,
    }
    parts = [markup.paragraph(f"Confidence at T = 1 and at {short} ({findings.fits.shown}).")]
    for title, top in kinds.items():
        cards = "".join(_card(pick, names, pictures, short) for pick in top.picks())
        if cards:
            parts.append(f'<h3>{markup.escape(title)}</h3><ul class="gallery">{cards}</ul>')
    return Section("rows", "Some rows", "".join(parts))


def _card(pick: Pick, names: Sequence[str], pictures: Pictures | None, at: str) -> str:
    picture = Picture("", f"row {pick.row}") if pictures is None else pictures.of(pick.row)
    image = ""
    if picture.uri:
        image = f'<img src="{markup.escape(picture.uri)}" alt="{markup.escape(picture.name)}">'
    lines = [("predicted", names[pick.prediction])]
    if pick.label >= 0:
        lines.insert(0, ("label", names[pick.label]))
    lines += [("T = 1", words.percent(pick.before)), (at, words.percent(pick.after))]
    terms = "".join(
        f"<div><dt>{term}</dt><dd>{markup.escape(markup.held(value))}</dd></div>"
        for term, value in lines
    )
    name = markup.escape(picture.name)
    return f'<li>{image}<p class="name">{name}</p><dl>{terms}</dl></li>'
