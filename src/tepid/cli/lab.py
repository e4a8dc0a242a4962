"""`tepid lab …`: the paper's experiments, and its authors' later method.

Everything that needs PyTorch is imported when a command runs.
"""

import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

import tepid
from tepid.cli import console, options
from tepid.cli.calibrations import note_warnings
from tepid.cli.fit import show_fit
from tepid.cli.options import FileOptions

if TYPE_CHECKING:
    from rich.table import Table

    from tepid.lab.training import Progress

Folders = Annotated[
    list[Path],
    typer.Argument(help="Folders of NETWORK_DATA.npz archives or of runs of tepid lab train."),
]


@dataclass(frozen=True)
class TrainingOptions:
    """How a recipe is trained, and where its run is written."""

    out: Annotated[Path, typer.Option("-o", "--output", help="The run's folder.")]
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="key=value replaces a value of the recipe; repeatable."),
    ] = None
    seed: options.Seed = 0
    quick: Annotated[
        bool, typer.Option("--quick", help="Train a few steps on a few rows, to test that it runs.")
    ] = False

    def train(
        self, name: str, data: Path, *, download: bool, checked: bool = True
    ) -> dict[str, Any]:
        """Train a recipe: the record of the run, empty in all processes but the first."""
        recipe = tepid.lab.named(name)
        recipe = (recipe.quick() if self.quick else recipe).with_settings(self.settings or [])
        datasets, training = _import_torch_modules()
        read = datasets.read(recipe, data, self.seed, download=download, checked=checked)
        record: dict[str, Any] = training.train(
            recipe, read, self.out, self.seed, download=download, progress=_print_progress
        )
        return record


lab = typer.Typer(
    name="lab",
    help="Reproduce the UTS paper (Mozafari et al. 2019): train its networks, print its tables.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def recipes(as_json: options.Json = False) -> None:
    """List the recipes: one for each row of the paper's tables.

    Example: tepid lab recipes
    """
    known = [tepid.lab.named(name) for name in tepid.lab.names()]
    if as_json:
        console.print_json([dataclasses.asdict(recipe) for recipe in known])
        return
    table = _table("recipe", "what", "accuracy in the paper", "epochs", "hours on one GPU")
    for recipe in known:
        accuracy, hours = f"{recipe.paper.accuracy:.2f} %", f"{recipe.expected_hours:g}"
        table.add_row(recipe.name, recipe.title, accuracy, str(recipe.epochs), hours)
    console.console().print(table)


def _table(*columns: str) -> "Table":
    table = console.table(*columns, left=len(columns))
    table.padding = (0, 2, 0, 0)
    return table


def train(
    *,
    recipe: Annotated[str, typer.Argument(help="The name of a recipe, from `tepid lab recipes`.")],
    data: Annotated[
        Path, typer.Option(help="The folder with the images; --download writes there.")
    ],
    run: TrainingOptions,
    download: Annotated[
        bool, typer.Option("--download", help="Download missing images and weights.")
    ] = False,
    unchecked: Annotated[
        bool,
        typer.Option(
            "--unchecked",
            help="Accept files with other checksums; CIFAR files are pickles, which can run code.",
        ),
    ] = False,
) -> None:
    """Train the network of one row of the paper's tables and write its logits and labels.

    The same command goes on where it was interrupted, and several GPUs share the work by
    torchrun --nproc-per-node N -m tepid lab train …

    Example: tepid lab train lenet5-mnist --data images -o runs/lenet5 --quick
    """
    record = run.train(recipe, data, download=download, checked=not unchecked)
    if record:
        title, rows = tepid.lab.named(recipe).title, record["config"]["rows"]["test"]
        right = f"{100 * record['accuracy']:.2f} % of {rows} are right"
        console.print_line(f"{title}: {right}; wrote {run.out}")


def _import_torch_modules() -> tuple[ModuleType, ModuleType]:
    """The modules of images and of training; raises if PyTorch or torchvision is missing."""
    try:
        from tepid.lab import datasets, training  # noqa: PLC0415  # seconds, and an extra
    except ImportError as error:
        raise tepid.InputError(
            f"tepid lab must have PyTorch and torchvision, got: {error}; "
            "pip install 'tepid[lab]' brings them"
        ) from None
    return datasets, training


def _print_progress(told: "Progress") -> None:
    """Print how far a training is: overwrite a line of a terminal, or print one per epoch."""
    terminal, whole = sys.stderr.isatty(), told.done == int(told.done)
    if not (whole or terminal):
        return
    minutes, seconds = divmod(round(told.seconds_left), 60)
    line = (
        f"epoch {told.done:.2f} of {told.epochs}: loss {told.loss:.4f}, "
        f"accuracy {100 * told.accuracy:.2f} %, {minutes}:{seconds:02} left"
    )
    sys.stderr.write(f"\r{line:<79}" if terminal else line)
    sys.stderr.write("\n" if whole else "")


# --- the authors' later method


def odds(
    *,
    logits: options.Shards,
    prior: Annotated[
        str | None, typer.Option(help="A file with the class frequencies; by default uniform.")
    ] = None,
    groups: options.Groups = None,
    out: options.Output = None,
    sample_weight: options.SampleWeight = None,
    reading: FileOptions,
    threads: options.ThreadCount = None,
    as_json: options.Json = False,
) -> None:
    """Find a temperature from logits alone by the weighting of Mozafari et al. (2020).

    Example: tepid lab odds logits.npy
    """
    from tepid.lab.odds import from_odds  # noqa: PLC0415  # NumPy, only when asked

    if out is not None:
        options.check_output(out, *logits, prior, sample_weight, groups)
        options.check_suffix(out, ".json")
    frequencies = None if prior is None else tepid.sources.open_column(prior, "prior")
    source = reading.open(logits, sample_weight=sample_weight, groups=groups)
    with console.threads_with_progress(threads) as engine:
        result = from_odds(source, prior=frequencies, engine=engine)
    show_fit(result, out, as_json=as_json)


# --- tables and figures


def table(
    folders: Folders,
    seeds: Annotated[int, typer.Option(help="Number of random splits.")] = 20,
    form: Annotated[
        str, typer.Option("--format", help="Output format: markdown, latex or html.")
    ] = "markdown",
    out: options.Output = None,
    threads: options.ThreadCount = None,
    as_json: options.Json = False,
) -> None:
    """Run the paper's protocol on your logits and print the results beside its tables.

    Example: tepid lab table runs
    """
    from tepid.lab import sets, tables  # noqa: PLC0415  # numba, only when asked
    from tepid.store import atomic_write  # noqa: PLC0415  # the same

    if form not in tables.FORMATS:
        raise tepid.InputError(f"--format must be one of {', '.join(tables.FORMATS)}, got {form}")
    if out is not None:
        records = (record for folder in folders for record in folder.rglob(sets.RUN))
        options.check_output(out, *folders, *records)
    with console.threads_with_progress(threads) as engine:
        found = tables.table(folders, seeds=seeds, engine=engine)
    if as_json:
        text = console.json_text(found.as_json()) + "\n"
    else:
        text = tables.FORMATS[form](found.sheets, found.notes)
    if out is None:
        typer.echo(text, nl=False)
        return
    with atomic_write(out) as file:
        file.write(text.encode(errors="backslashreplace"))  # names of files may be any bytes
    console.print_line(f"wrote {out}")


def figures(
    folders: Folders,
    out: Annotated[Path, typer.Option("-o", "--output", help="The folder to write into.")] = Path(
        "figures"
    ),
    images: Annotated[
        str | None,
        typer.Option(help="Images of the rows of one set: .npy or .npz of uint8, or .npz#member."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="The folder with the images of one run, instead of --images."),
    ] = None,
    names: Annotated[
        Path | None, typer.Option(help="A text file with one class name per line.")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="png, svg or pdf.")] = "png",
    as_json: options.Json = False,
) -> None:
    """Draw the paper's figures: the sets M_k, reliability diagrams, and example images.

    Example: tepid lab figures runs -o figures
    """
    from tepid.lab import figures as paper_figures  # noqa: PLC0415  # numba, only when asked
    from tepid.report import class_names  # noqa: PLC0415  # the same
    from tepid.report.images import read_pixels  # noqa: PLC0415  # the same

    shown = None if images is None else read_pixels(images)
    called = None if names is None else class_names(names)
    if data is not None:
        if len(folders) != 1:
            raise tepid.InputError(f"--data must be that of one run, got {len(folders)} folders")
        _import_torch_modules()
        from tepid.lab import runs  # noqa: PLC0415  # after torch was looked for

        shown, own = runs.read_test_images(folders[0], data)
        called = called or own
    try:
        written = paper_figures.write(folders, out, form=form, images=shown, names=called)
    except ImportError as error:
        raise tepid.InputError(str(error)) from None
    if as_json:
        console.print_json([str(path) for path in written])
        return
    for path in written:
        console.print_line(f"wrote {path}")


# --- skin lesions


_SKIN = "resnet152-isic"


def isic(
    *,
    data: Annotated[
        Path,
        typer.Option(
            help="The folder of the ISIC 2018 challenge, or an .npz with x, y and classes."
        ),
    ],
    run: TrainingOptions,
    download: Annotated[
        bool, typer.Option("--download", help="Download the ImageNet weights.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Train on skin lesions or load a run, calibrate without labels, and write the report.

    A folder that holds a finished run is not trained again.

    Example: tepid lab isic --data ISIC2018 -o runs/isic --quick
    """
    _import_torch_modules()
    from tepid.lab import runs, sets  # noqa: PLC0415  # after torch was looked for

    out = run.out
    wanted = not (out / sets.RUN).is_file() or run.settings or run.quick
    if wanted and not run.train(_SKIN, data, download=download):
        return  # the first process goes on
    images, names = runs.read_test_images(out, data)
    temperature = runs.calibrate(out)
    page = runs.write_report(out, temperature, images, names)
    before, after = runs.score(sets.open_run(out), temperature)
    if as_json:
        both = {"uncalibrated": before, "uts": after}
        scores = {name: dataclasses.asdict(one) for name, one in both.items()}
        console.print_json({"notice": runs.NOTICE, "report": str(page), "scores": scores})
        return
    table = _table("", "T", "NLL", "ECE", "ECE %")
    for name, one in {"uncalibrated": before, "UTS, no labels": after}.items():
        numbers = (f"{one.temperature:.3f}", f"{one.nll:.3f}", f"{one.ece:.3f}")
        table.add_row(name, *numbers, f"{100 * one.ece:.2f}")
    console.console().print(table)
    note_warnings(temperature)
    console.print_line(f"wrote {out / runs.CALIBRATION} and {page}")
    console.print_line(runs.NOTICE)


def predict(
    run: Annotated[Path, typer.Argument(help="The folder that tepid lab isic wrote.")],
    images: Annotated[list[Path], typer.Argument(help="Photographs of skin lesions.")],
    as_json: options.Json = False,
) -> None:
    """Classify photographs of skin lesions, with calibrated probabilities.

    Example: tepid lab predict runs/isic photo.jpg
    """
    _import_torch_modules()
    from tepid.lab import runs  # noqa: PLC0415  # after torch was looked for

    found = runs.predict(run, images)
    if as_json:
        every = [dataclasses.asdict(one) | {"image": str(one.image)} for one in found]
        console.print_json({"notice": runs.NOTICE, "predictions": every})
        return
    for one in found:
        table = _table(str(one.image), "calibrated", "before")
        for name, share in sorted(one.probabilities.items(), key=lambda item: -item[1]):
            table.add_row(name, f"{100 * share:.2f} %", f"{100 * one.uncalibrated[name]:.2f} %")
        console.console().print(table)
    console.print_line(runs.NOTICE)


for _command in (recipes, train, odds, table, figures, isic, predict):
    lab.command()(console.with_notes(options.expand(_command)))
