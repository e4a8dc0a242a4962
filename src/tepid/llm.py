"""Language models that choose an option: calibrate them from an evaluation log.

`tepid.calibrate` and every command read logs wherever they take a path of logits. The functions
here read a log into memory and count what was missing.
"""

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tepid.errors import InputError, LogWarning
from tepid.posterior import calibrate
from tepid.sources import paths
from tepid.sources.logs import LogPart, halved, join_logs, log_parts, open_log, warn_counts
from tepid.sources.responses import Options, ResponseReader
from tepid.sources.source import Source
from tepid.validation import Array, Float64, Int64

__all__ = [
    "BoundEffect",
    "Log",
    "LogWarning",
    "bound_effect",
    "option_logits",
    "read_responses",
    "read_samples",
]


@dataclass(frozen=True, eq=False)
class Log:
    """The rows of an evaluation log.

    Attributes:
        logits: Log-likelihoods or log-probabilities of the options (n, k), -inf where a question
            has fewer.
        ids: The id of each row, None if the log has none.
        labels: The position of the right option, -1 where it is unknown; None if not asked for.
        groups: The group of each row, None if not asked for.
        choices: The names of the options, None where they differ between questions.
        bounded: Which logits are upper bounds (n, k): the option was not listed.
        skipped: How many responses name no option or failed, and are left out.
        temperature: The sampling temperature with which the values were processed, if the log
            shows one other than 1.
    """

    logits: Float64
    ids: Array | None
    labels: Int64 | None
    groups: Array | None
    choices: tuple[str, ...] | None
    bounded: Array
    skipped: int
    temperature: float | None

    def __len__(self) -> int:
        return len(self.logits)

    def __str__(self) -> str:
        n, k = self.logits.shape
        said = [f"{n} rows of {k} options"]
        if self.skipped:
            said.append(f"{self.skipped} responses left out")
        if self.bounded.any():
            said.append(f"{self.bounded.any(axis=1).sum()} rows with an option that is not listed")
        return "; ".join(said)

    def halved(self) -> "Log":
        """The same log with half the bound for each option that is not listed."""
        return dataclasses.replace(self, logits=self.logits - math.log(2) * self.bounded)


def read_samples(
    path: str | os.PathLike[str] | Sequence[Any],
    *,
    labels: str | None = None,
    groups: str | None = None,
    ids: str = "id",
    where: Mapping[str, Any] | None = None,
) -> Log:
    """The rows of a log of lm-evaluation-harness, `samples_TASK_DATE.jsonl`.

    A document that was logged for several filters counts once. Only multiple_choice tasks have a
    log-likelihood for each choice; other tasks are refused.

    Args:
        path: One log, or several: a list, a folder or a glob.
        labels: The field of the labels, `"target"`; it is not read unless it is named.
        groups: The field of the groups. `"task"` is the task of each file, and `"doc.subject"` a
            field of the document.
        ids: The field of the ids. By default `doc_id` and the first 12 digits of `doc_hash`, which
            are the same for every model.
        where: Fields and the value that a line must have to be read.
    """
    return _read(path, {"labels": labels, "group": groups, "id": ids}, where)


def read_responses(
    path: str | os.PathLike[str] | Sequence[Any],
    *,
    choices: Sequence[str] | None = None,
    pattern: str | None = None,
    position: int | None = None,
    labels: str | None = None,
    groups: str | None = None,
    ids: str | None = None,
    where: Mapping[str, Any] | None = None,
) -> Log:
    """The rows of a log of responses with `top_logprobs`, from OpenAI, vLLM, llama.cpp and others.

    Each line is a response, or an object with the response in `response` or `response.body`. The
    probabilities of tokens that name the same option (`A`, ` A`, `a`) are added. An option that is
    not listed gets the smallest listed probability, divided among those that are missing: an upper
    bound, whose effect `bound_effect` measures.

    Args:
        path: One log, or several: a list, a folder or a glob.
        choices: The options, such as `["A", "B", "C", "D"]`.
        pattern: A regular expression for a whole token without blanks. Its first group, or its
            match, is the option. Without `choices` the options are those that it finds.
        position: The generated token that is the answer, from 0, or from -1 for the last. By
            default the first one that is an option as it is written; failing that, the first one
            that is not blank if it is an option in other letter case.
        labels: The field of the labels; it is not read unless it is named.
        groups: The field of the groups.
        ids: The field of the ids. By default `custom_id`, or the `id` beside `response`.
        where: Fields and the value that a line must have to be read.
    """
    if choices is None and pattern is None:
        raise InputError("choices or pattern must be given, got neither")
    if choices is None and len(paths.expand(path, "log")) > 1:
        raise InputError("choices must be given for several logs, got a pattern alone")
    return _read(
        path,
        {"labels": labels, "group": groups, "id": ids},
        where,
        choices,
        pattern=pattern,
        position=position,
    )


def option_logits(
    response: Mapping[str, Any],
    *,
    choices: Sequence[str],
    pattern: str | None = None,
    position: int | None = None,
) -> Float64:
    """The log-probabilities of the options in one response (k,), for `Temperature` to rescale.

    The response is that of a server as a mapping; the arguments are those of `read_responses`.

    >>> top = [{"token": "A", "logprob": -0.1}, {"token": "B", "logprob": -2.5}]
    >>> token = {"token": "A", "logprob": -0.1, "top_logprobs": top}
    >>> response = {"choices": [{"logprobs": {"content": [token]}}]}
    >>> option_logits(response, choices=["A", "B"]).tolist()
    [-0.1, -2.5]
    """
    reader = ResponseReader(Options.of(choices, pattern), position)
    found = reader.read(response)
    if found is None:
        raise InputError(f"response must name one of {', '.join(choices)}, got none of them")
    return np.array(found.logits)


class BoundEffect(NamedTuple):
    """T with the upper bound for options that are not listed, and with half of it."""

    value: float
    halved: float

    def __str__(self) -> str:
        return f"T = {self.value:.4g}; with half the bound {self.halved:.4g}"


def bound_effect(log: Log, labels: Any = None, **evidence: Any) -> BoundEffect:
    """How far T moves when the bound for options that are not listed is halved: two fits.

    `labels` and `evidence` are those of `tepid.calibrate`.
    """
    one = calibrate(log.logits, labels, **evidence)
    two = calibrate(log.halved().logits, labels, **evidence) if log.bounded.any() else one
    return BoundEffect(one.value, two.value)


def _read(
    path: Any,
    named: Mapping[str, str | None],
    where: Mapping[str, Any] | None,
    choices: Sequence[str] | None = None,
    **options: Any,
) -> Log:
    fields = {role: name for role, name in named.items() if name is not None}
    sources = join_logs(
        [
            open_log(file, paths.base_name(file), fields, choices, where, **options)
            for file in paths.expand(path, "log")
        ]
    )
    for source in sources:
        warn_counts(source)
    whole = [source.whole() for source in sources]
    kept: dict[str, Any] = {}
    for role in ("logits", "id", "labels", "group"):
        there = [getattr(batch, role) for batch in whole]
        kept[role] = None if any(column is None for column in there) else np.concatenate(there)
    parts: list[LogPart] = [part for source in sources for part in log_parts(source)]
    return Log(
        kept["logits"],
        kept["id"],
        kept["labels"],
        kept["group"],
        parts[0].reader.names,
        np.concatenate([_bounded(s, b.logits) for s, b in zip(sources, whole, strict=True)]),
        sum(part.counts.skipped for part in parts),
        next((t for part in parts if (t := part.counts.temperature) is not None), None),
    )


def _bounded(source: Source, logits: Float64) -> Array:
    """Which logits change with the bound."""
    other = halved(source.select())
    if other is None:
        return np.zeros(logits.shape, bool)
    changed: Array = other.whole().logits != logits
    return changed
