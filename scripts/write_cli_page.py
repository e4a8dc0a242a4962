"""Write docs/command-line.md from the commands themselves.

python scripts/write_cli_page.py
"""

import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from tepid.cli.app import app

PAGE = Path(__file__).parents[1] / "docs" / "command-line.md"
_HEAD = """\
# Command line

<!-- Written by scripts/write_cli_page.py from the commands themselves. -->

Installing tepid installs the command `tepid`; `python -m tepid` is the same.

- Logits are files, folders, globs or URLs; [file formats](file-formats.md) lists the formats.
- `file.npz#scores` is the array (member) `scores` of `file.npz`.
- `--json` prints JSON instead of tables; progress, notes and errors go to standard error.
- Bad input ends a command with one sentence that names the file, the row and the value, and with
  exit code 2. Ctrl-C ends it with exit code 130. Files are written atomically.
- `--threads` sets the number of threads; its default is the environment variable
  `TEPID_THREADS`, or one thread per processor.
- {epilog}

| command | what it does |
|---|---|
"""


def page() -> str:
    """The page, as it should be."""
    group: Any = typer.main.get_command(app)
    head = _HEAD.format(epilog=group.epilog)
    verbs = dict(_verbs(group))
    head += "".join(
        f"| [`tepid {name}`](#tepid-{name.replace(' ', '-')}) | {_said(command)[0]} |\n"
        for name, command in verbs.items()
    )
    return head + "".join(_section(name, command) for name, command in verbs.items())


def _verbs(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Every command with its name, those of a group within by both names."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _verbs(command, f"{before}{name} ")
        elif not command.hidden:
            yield before + name, command


def _said(command: Any) -> tuple[str, str]:
    """The first sentence of the help, and the example in it."""
    first, *rest = (part.strip() for part in command.help.split("\n\n"))
    examples = [part.removeprefix("Example: ") for part in rest if part.startswith("Example: ")]
    return " ".join(first.split()), examples[0] if examples else ""


def _section(name: str, command: Any) -> str:
    sentence, example = _said(command)
    kinds = typing.get_type_hints(command.callback)
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = " ".join(_in_usage(p) for p in arguments)
    text = f"\n## tepid {name}\n\n{sentence}\n\n```console\n$ {example}\n```\n"
    if arguments:
        text += f"\n`tepid {name} {usage} [OPTIONS]`\n\n| argument | |\n|---|---|\n"
        text += "".join(f"| `{p.name.upper()}` | {_cell(p.help)} |\n" for p in arguments)
    text += "\n| option | | default |\n|---|---|---|\n"
    return text + "".join(_option(p, kinds.get(p.name)) for p in options)


def _in_usage(argument: Any) -> str:
    return argument.name.upper() if argument.required else f"[{argument.name.upper()}]"


def _option(option: Any, kind: Any) -> str:
    names = ", ".join(f"`{name}`" for name in sorted(option.opts, key=len, reverse=True))
    names += "" if option.is_flag else f" {_value(kind)}"
    shown = option.default
    plain = option.is_flag or shown is None or shown == [] or callable(shown)
    default = "required" if option.required else "" if plain else f"`{shown}`"
    return f"| {names} | {_cell(option.help)} | {default} |\n"


def _value(kind: Any) -> str:
    """What stands for the value: read off the annotation, since typer keeps it where it likes."""
    kinds = {kind, *typing.get_args(kind)}
    letters = {int: "N", float: "X", Path: "FILE"}
    return next((letter for type_, letter in letters.items() if type_ in kinds), "TEXT")


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
