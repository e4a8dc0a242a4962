"""A row of the paper's tables, as it is trained; in TOML, where an unknown key is an error."""

import dataclasses
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from typing import Any

from tepid.errors import InputError
from tepid.lab.typed import refuse_unknown, typed

# Batch normalisation needs two rows.
_LEAST = {"epochs": 1, "batch": 2, "train_rows": 0, "test_rows": 0, "size": 1, "rate": 0}
_CHOICES = {
    "normalise": ("channels", "imagenet", "unit"),
    "optimiser": ("sgd", "adam"),
    "schedule": ("steps", "one-cycle"),
}


@dataclass(frozen=True)
class Figures:
    """What the paper gives for one state of a network: NLL, ECE in percent, and its T."""

    nll: float
    ece: float
    temperature: float = 1.0


@dataclass(frozen=True)
class Paper:
    """The row of the paper's table; `ts` is None where the paper has none. Accuracy in percent."""

    accuracy: float
    uncalibrated: Figures
    uts: Figures
    ts: Figures | None = None


@dataclass(frozen=True)
class Recipe:
    """What is trained, on what and how; the defaults are what most recipes do without.

    `milestones` are parts of the training, so that a shorter one keeps its shape; the rate is
    multiplied by `factor` at each of them. `batch` is that of all processes together.
    """

    name: str
    title: str
    network: str
    data: str
    epochs: int
    batch: int
    rate: float
    sources: tuple[str, ...]
    expected_accuracy: float
    expected_hours: float
    paper: Paper
    depth: int = 0
    width: int = 0
    dropout: float = 0.0
    pretrained: bool = False
    size: int = 32
    normalise: str = "channels"
    augment: tuple[str, ...] = ()
    optimiser: str = "sgd"
    momentum: float = 0.9
    nesterov: bool = False
    weight_decay: float = 0.0
    schedule: str = "steps"
    milestones: tuple[float, ...] = ()
    factor: float = 0.1
    warmup_steps: int = 0
    warmup_rate: float = 0.0
    amp: bool = False
    keep_lesions: bool = False
    train_rows: int = 0
    test_rows: int = 0

    def with_settings(self, settings: Iterable[str]) -> "Recipe":
        """The same recipe with `key=value` in the place of its own values, value as in TOML."""
        changed: dict[str, Any] = {}
        for setting in settings:
            key, equals, value = setting.partition("=")
            if not equals:
                raise InputError(f"--set must be key=value, got {setting}")
            changed[key.strip()] = _value(value.strip())
        known = {field.name for field in dataclasses.fields(self)} - {"name", "paper"}
        refuse_unknown(changed, known, "--set")
        return _sane(typed(Recipe, vars(self) | changed, "--set"), "--set")

    def quick(self) -> "Recipe":
        """The same code for a few steps on a few rows: whether it runs, and nothing else."""
        batch = min(self.batch, 8)
        return dataclasses.replace(
            self,
            epochs=2,
            batch=batch,
            train_rows=2 * batch,
            test_rows=2 * batch,
            pretrained=False,
        )


def names() -> tuple[str, ...]:
    """The recipes that come with tepid, in the order of the alphabet."""
    stored = resources.files("tepid.lab").joinpath("recipes")
    return tuple(
        sorted(f.name.removesuffix(".toml") for f in stored.iterdir() if f.name.endswith(".toml"))
    )


def named(name: str) -> Recipe:
    """The recipe of that name."""
    if name not in names():
        raise InputError(f"recipe must be one of {', '.join(names())}, got {name}")
    stored = resources.files("tepid.lab").joinpath("recipes", f"{name}.toml")
    return of_toml(name, stored.read_text(encoding="utf-8"))


def of_toml(name: str, text: str) -> Recipe:
    """The recipe that a TOML text holds."""
    try:
        read = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"recipe {name} must be TOML, got {error}") from None
    return _sane(typed(Recipe, {"name": name} | read, f"recipe {name}"), f"recipe {name}")


def _sane(recipe: Recipe, what: str) -> Recipe:
    """The same recipe, if its values are of those that can be trained with."""
    for key, least in _LEAST.items():
        if getattr(recipe, key) < least:
            raise InputError(f"{what}: {key} must be at least {least}, got {getattr(recipe, key)}")
    for key, choices in _CHOICES.items():
        if getattr(recipe, key) not in choices:
            wanted = " or ".join((", ".join(choices[:-1]), choices[-1]))
            raise InputError(f"{what}: {key} must be {wanted}, got {getattr(recipe, key)}")
    return recipe


def _value(text: str) -> Any:
    """A value as TOML has it; what TOML cannot read is a string without its quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
