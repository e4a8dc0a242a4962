"""`tepid lab isic` and `tepid lab predict`: skin lesions as an application."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

import tepid
from tepid.cli import laboratory, options, output

_RECIPE = "resnet152-isic"


def isic(
    data: Annotated[
        Path, typer.Option(help="The challenge's folder, or an .npz with x, y and classes.")
    ],
    out: options.RunFolder,
    settings: options.Settings = None,
    seed: options.Seed = 0,
    quick: options.Quick = False,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch the weights of ImageNet.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Train on skin lesions or load a run, calibrate without labels, and write the report.

    A folder that holds a finished run is not trained again.

    Example: tepid lab isic --data ISIC2018 -o runs/isic --quick
    """
    images, training = laboratory.needing_torch()
    from tepid.lab import sets, skin, trained  # noqa: PLC0415  # after torch was looked for

    if not (out / sets.RUN).is_file() or settings or quick:
        recipe = tepid.lab.named(_RECIPE)
        recipe = (recipe.quick() if quick else recipe).with_settings(settings or [])
        read = images.read(recipe, data, seed, download=download, checked=True)
        told = laboratory.Line()
        if not training.train(recipe, read, out, seed, download=download, told=told):
            return  # another process goes on
    found = trained.data_of(out, data)
    temperature = skin.calibrate(out)
    pictures = found.test.pixels.permute(0, 2, 3, 1).numpy()
    page = skin.write_report(out, temperature, pictures, found.names)
    before, after = skin.score(sets.open_run(out), temperature)
    if as_json:
        both = {"uncalibrated": before, "uts": after}
        scores = {name: dataclasses.asdict(one) for name, one in both.items()}
        output.print_json({"notice": skin.NOTICE, "report": str(page), "scores": scores})
        return
    _say(before, after)
    output.doubts(temperature)
    screen = output.console()
    screen.print(f"wrote {out / skin.CALIBRATION} and {page}", markup=False, soft_wrap=True)
    screen.print(skin.NOTICE, soft_wrap=True)


def _say(before: Any, after: Any) -> None:
    table = Table("", "T", "NLL", "ECE", "ECE %", box=None, padding=(0, 2, 0, 0))
    for name, one in {"uncalibrated": before, "UTS, no labels": after}.items():
        numbers = (f"{one.temperature:.3f}", f"{one.nll:.3f}", f"{one.ece:.3f}")
        table.add_row(name, *numbers, f"{100 * one.ece:.2f}")
    output.console().print(table)


def predict(
    run: Annotated[Path, typer.Argument(help="The folder that tepid lab isic wrote.")],
    images: Annotated[list[Path], typer.Argument(help="Photographs of skin lesions.")],
    as_json: options.Json = False,
) -> None:
    """Give the calibrated probabilities of the seven skin lesions for photographs.

    Example: tepid lab predict runs/isic photo.jpg
    """
    laboratory.needing_torch()
    from tepid.lab import skin, trained  # noqa: PLC0415  # after torch was looked for

    found = trained.predict(run, images)
    if as_json:
        every = [dataclasses.asdict(one) | {"image": str(one.image)} for one in found]
        output.print_json({"notice": skin.NOTICE, "predictions": every})
        return
    screen = output.console()
    for one in found:
        columns = (str(one.image), "calibrated", "before")
        table = Table(*columns, box=None, padding=(0, 2, 0, 0))
        for name, calibrated, before in one.ranked:
            table.add_row(Text(name), f"{100 * calibrated:.2f} %", f"{100 * before:.2f} %")
        screen.print(table)
    screen.print(skin.NOTICE, soft_wrap=True)
