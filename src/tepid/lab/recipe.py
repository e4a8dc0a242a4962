"""Recipes: the rows of the paper's tables as they are trained, in TOML.

An unknown key, a missing key and a value of another type are errors.
"""

import dataclasses
import tomllib
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from tepid.errors import InputError

# Batch normalization needs two rows.
_LEAST = {"epochs": 1, "batch": 2, "train_rows": 0, "test_rows": 0, "size": 1, "rate": 0}
_CHOICES = {
    "normalize": ("channels", "imagenet", "unit"),
    "optimizer": ("sgd", "adam"),
    "schedule": ("steps", "one-cycle"),
}
# The fraction of a one-cycle schedule in which the rate rises.
_RISE = 0.3


@dataclass(frozen=True)
class Figures:
    """The paper's numbers for a network before or after calibration; ECE in percent."""

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
    """Network, data and training; the fields with defaults are those that most recipes omit.

    `milestones` are fractions of the training, so that a shorter one keeps its shape. `batch` is
    the size over all processes together.
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
    normalize: str = "channels"
    augment: tuple[str, ...] = ()
    optimizer: str = "sgd"
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
        """The recipe with other values, each given as `key=value` with the value in TOML."""
        changed: dict[str, Any] = {}
        for setting in settings:
            key, equals, value = (part.strip() for part in setting.partition("="))
            if not equals:
                raise InputError(f"--set must be key=value, got {setting}")
            _check_keys([key], vars(self).keys() - {"name", "paper"}, "--set")
            try:
                changed[key] = tomllib.loads(f"value = {value}")["value"]
            except tomllib.TOMLDecodeError:  # a string without quotes
                changed[key] = value
        return build(vars(self) | changed, "--set")

    def learning_rate(self, step: int, steps: int) -> float:
        """The learning rate at a step, counted from 0, of a training of `steps` steps.

        `steps` multiplies the rate by `factor` at each milestone, after `warmup_steps` steps at
        `warmup_rate`; `one-cycle` rises linearly to the rate over 30 % of the steps and falls to 0.

        >>> recipe = named("lenet5-mnist")
        >>> [round(recipe.learning_rate(step, 100), 6) for step in (0, 49, 50, 75)]
        [0.05, 0.05, 0.005, 0.0005]
        """
        if self.schedule == "one-cycle":
            done = (step + 0.5) / steps
            return self.rate * min(done / _RISE, (1 - done) / (1 - _RISE))
        if step < self.warmup_steps:
            return self.warmup_rate
        passed = sum(step >= milestone * steps for milestone in self.milestones)
        return self.rate * self.factor**passed

    def quick(self) -> "Recipe":
        """The recipe cut to a few steps on a few rows, to test that it runs."""
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
    """The names of the recipes that come with tepid, in alphabetical order."""
    stored = resources.files("tepid.lab").joinpath("recipes").iterdir()
    return tuple(sorted(f.name.removesuffix(".toml") for f in stored if f.name.endswith(".toml")))


def named(name: str) -> Recipe:
    """The recipe of that name."""
    if name not in names():
        raise InputError(f"recipe must be one of {', '.join(names())}, got {name}")
    stored = resources.files("tepid.lab").joinpath("recipes", f"{name}.toml")
    return parse_recipe(name, stored.read_text(encoding="utf-8"))


def parse_recipe(name: str, text: str) -> Recipe:
    """The recipe in a TOML text."""
    try:
        return build({"name": name} | tomllib.loads(text), f"recipe {name}")
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"recipe {name} must be TOML, got {error}") from None


def build(given: Mapping[str, Any], what: str) -> Recipe:
    """The recipe of these values, which are plain as in TOML and JSON; `what` is for errors."""
    kinds = {field.name: field.type for field in dataclasses.fields(Recipe)}
    _check_keys(given, kinds, what)
    values = {key: _convert(value, kinds[key], f"{what}: {key}") for key, value in given.items()}
    try:
        recipe = Recipe(**values)
    except TypeError as error:  # of a missing key
        raise InputError(f"{what} must be a recipe, got {error}") from None
    for key, least in _LEAST.items():
        if values.get(key, least) < least:
            raise InputError(f"{what}: {key} must be at least {least}, got {values[key]}")
    for key, choices in _CHOICES.items():
        if values.get(key, choices[0]) not in choices:
            wanted = " or ".join((", ".join(choices[:-1]), choices[-1]))
            raise InputError(f"{what}: {key} must be {wanted}, got {values[key]}")
    return recipe


def _check_keys(given: Iterable[str], known: Iterable[str], what: str) -> None:
    strange = sorted(set(given) - set(known))
    if strange:
        wanted = ", ".join(sorted(known))
        raise InputError(f"{what} must use the keys {wanted}, got {', '.join(strange)}")


def _convert(value: Any, kind: Any, what: str) -> Any:
    if kind is Paper and isinstance(value, Mapping):
        figures = {k: Figures(**v) if isinstance(v, Mapping) else v for k, v in value.items()}
        return Paper(**figures)  # type: ignore[arg-type]  # the accuracy is a number
    if typing.get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            raise InputError(f"{what} must be a list, got {value!r}")
        return tuple(value)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise InputError(f"{what} must be of type {kind.__name__}, got {value!r}")
    return value
