"""Lines of an lm-evaluation-harness log, `samples_TASK_DATE.jsonl`, as rows of logits.

Each line is one document under one filter. The logits are the log-likelihoods of its choices as
they were logged: `acc` of the harness is their argmax. `acc_norm` divides by the length of a
choice, which is another model of the answer and is not read here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tepid.sources.json_lines import Answer, LineError, find_field, finite, shown

FIELD = "resps"
# How many digits of a document's hash are part of its id.
_DIGITS = 12


@dataclass(frozen=True)
class SampleReader:
    """Reads the lines of one filter; a task with several filters logs each document for each."""

    filter: Any
    task: str | None
    names: None = field(default=None, init=False)
    identified: bool = field(default=True, init=False)

    def read(self, record: Mapping[str, Any]) -> Answer | None:
        """The log-likelihoods of the choices; None for a line of another filter."""
        if record.get("filter") != self.filter:
            return None
        resps = record.get("resps")
        if not isinstance(resps, list):
            raise LineError("have the list resps", shown(resps))
        metrics = record.get("metrics")
        if isinstance(metrics, list) and "acc_mutual_info" in metrics:
            resps = resps[: len(resps) // 2]  # the other half is without the question
        if len(resps) < 2:
            raise LineError(
                "be of a multiple_choice task, which has a log-likelihood for each of two or more "
                "choices",
                f"{len(resps)} in resps: {shown(resps)}",
            )
        return Answer([_log_likelihood(each) for each in resps])

    def label(self, record: Mapping[str, Any], name: str, logits: list[float]) -> int:
        """The position of the right choice, -1 where it is unknown.

        The harness logs a position or the text of a choice.
        """
        name = "target" if name == "labels" and "labels" not in record else name
        target = find_field(record, name)
        if target is None or target == "":
            return -1
        position = self._position(record, name, target, len(logits))
        _check_accuracy(record, name, position, logits)
        return position

    def id(self, record: Mapping[str, Any]) -> str:
        """`doc_id` and the first digits of `doc_hash`: unique in a task, the same for all models.

        Without a hash it is the task and `doc_id`.
        """
        number, digest = record.get("doc_id"), record.get("doc_hash")
        if not isinstance(number, (int, str)) or isinstance(number, bool):
            raise LineError("have a number or text as doc_id", shown(number))
        if isinstance(digest, str) and digest:
            return f"{number}-{digest[:_DIGITS]}"
        return f"{number}" if self.task is None else f"{self.task}-{number}"

    def group(self, record: Mapping[str, Any], name: str) -> Any:
        """A field; the task is in the file's name where no field holds it."""
        if name == "task" and "task" not in record:
            if self.task is None:
                raise LineError(
                    "have the task in the file's name, samples_TASK_DATE.jsonl, or in a field",
                    "neither",
                )
            return self.task
        return find_field(record, name)

    def processed(self, record: Mapping[str, Any]) -> float | None:  # noqa: ARG002  # as of responses
        """None: a log-likelihood is computed without a sampling temperature."""
        return None

    def _position(self, record: Mapping[str, Any], name: str, target: Any, k: int) -> int:
        text = str(target).strip()
        if isinstance(target, (int, str)) and not isinstance(target, bool):
            if re.fullmatch(r"-?[0-9]{1,9}", text):
                if -1 <= int(text) < k:
                    return int(text)
            else:
                choices = _continuations(record, k)
                if choices.count(text) == 1:
                    return choices.index(text)
        raise LineError(
            f"have in {name} the position of one of the {k} choices, or its text", shown(target)
        )


def task_of(file: str) -> str | None:
    """The task in a file's name, None if it is not named as the harness names it."""
    dated = r"samples_(.+?)(?:_[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9.:+-]+)?\.jsonl(?:\.[a-z0-9]+)?"
    found = re.fullmatch(dated, file)
    return None if found is None else found[1]


def _log_likelihood(response: Any) -> float:
    """The first of the repeats of a request: `["-1.25", "False"]`, numbers in older logs."""
    first = response[0] if isinstance(response, list) and response else None
    if not isinstance(first, list) or len(first) != 2:
        raise LineError(
            "be of a multiple_choice task, whose resps are pairs of a log-likelihood and whether "
            "it is greedy",
            shown(response),
        )
    return finite(first[0], "log-likelihoods in resps", text=True)


def _continuations(record: Mapping[str, Any], k: int) -> list[str]:
    """The texts whose log-likelihoods were asked for."""
    arguments = record.get("arguments")
    if isinstance(arguments, dict):
        pairs = [arguments.get(f"gen_args_{i}") for i in range(k)]
        texts = [pair.get("arg_1") if isinstance(pair, dict) else None for pair in pairs]
    elif isinstance(arguments, list):  # older logs
        texts = [
            pair[1] if isinstance(pair, list) and len(pair) > 1 else None for pair in arguments
        ]
    else:
        texts = []
    return [text.strip() if isinstance(text, str) else "" for text in texts[:k]]


def _check_accuracy(
    record: Mapping[str, Any], name: str, position: int, logits: list[float]
) -> None:
    """Raise if the harness counted the line otherwise: the field then does not mean a position."""
    accuracy, largest = record.get("acc"), max(logits)
    plain = isinstance(accuracy, (int, float)) and accuracy in (0, 1)
    if position < 0 or not plain or logits.count(largest) > 1:
        return
    if (logits.index(largest) == position) != bool(accuracy):
        raise LineError(
            f"have in {name} the position of the right choice", f"{position}, but acc {accuracy}"
        )
