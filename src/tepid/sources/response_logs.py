"""Responses of OpenAI-compatible servers with `top_logprobs` as rows of logits, one per option.

Read are chat completions (`choices[0].logprobs.content`), legacy completions
(`choices[0].logprobs.top_logprobs` as mappings), and the own formats of llama.cpp
(`completion_probabilities`) and Ollama (`logprobs`). A line is a response, or holds one in
`response`, or in `response.body` as in the files of batches.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tepid.errors import InputError
from tepid.sources.json_lines import Answer, LineError, find_field, finite, shown

FIELDS = "choices, completion_probabilities or logprobs"
# Servers write this or less where a token is no longer listed, or is impossible.
_UNLISTED = -9999.0
# How tokenizers mark a blank and a line break at the start of a token.
_BLANKS = " \t\r\n\u0120\u2581\u010a"


class Token(NamedTuple):
    """A generated token, the one with its value, and the tokens listed at its position, as logged.

    `key` is the field of a value: `logprob` or `prob`.
    """

    text: str
    own: Any
    listed: Any
    key: str = "logprob"


@dataclass(frozen=True)
class Options:
    """The options, and how a token names one: as it is but for blanks and case, or by a pattern.

    `exact` has the position of each option, `folded` that of each in any letter case; it is empty
    where options differ by case alone.
    """

    names: tuple[str, ...]
    pattern: str | None
    exact: Mapping[str, int]
    folded: Mapping[str, int]

    @classmethod
    def of(cls, names: Iterable[str], pattern: str | None = None) -> "Options":
        """The options; raises unless there are two or more, all different."""
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise InputError(f"choices must be a list of texts, got {names!r}")
        found = tuple(name.strip(_BLANKS) for name in names)
        exact = {name: position for position, name in enumerate(found)}
        if len(found) < 2 or len(exact) < len(found) or "" in exact:
            raise InputError(f"choices must be two or more different texts, got {list(names)!r}")
        check_pattern(pattern)
        folded = {name.casefold(): position for position, name in enumerate(found)}
        return cls(found, pattern, exact, folded if len(folded) == len(found) else {})

    def position(self, token: str) -> int | None:
        """The option that a token names, in any letter case."""
        name = name_in(token, self.pattern)
        return None if name is None else self.exact.get(name, self.folded.get(name.casefold()))


def check_pattern(pattern: str | None) -> None:
    """Raise unless this is a regular expression."""
    if pattern is None:
        return
    try:
        re.compile(pattern)
    except (re.error, TypeError) as error:
        raise InputError(
            f"pattern must be a regular expression, got {pattern!r}: {error}"
        ) from None


def name_in(token: str, pattern: str | None) -> str | None:
    """What a token says without blanks; the first group of the pattern, or its whole match."""
    plain = token.strip(_BLANKS)
    if pattern is None:
        return plain
    found = re.fullmatch(pattern, plain)
    return None if found is None else found[1 if found.re.groups else 0]


@dataclass(frozen=True)
class ResponseReader:
    """Reads the probabilities of options at the position of the answer.

    Without a position it is found as `tepid.llm.read_responses` says. `bound` is the share of the
    upper bound that an option gets which is not listed.
    """

    options: Options
    position: int | None = None
    bound: float = 1.0
    identified: bool = True
    task: None = field(default=None, init=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the classes."""
        return self.options.names

    def read(self, record: Mapping[str, Any]) -> Answer | None:
        """The log-probabilities of the options; None where no option is named."""
        tokens = read_tokens(record)
        at = self._answer_at(tokens)
        return None if at is None else self._answer(tokens[at])

    def label(self, record: Mapping[str, Any], name: str, logits: list[float]) -> Any:  # noqa: ARG002  # as of samples
        """The name or position of the right option, as it is logged."""
        label = find_field(record, name)
        if label is not None and (isinstance(label, bool) or not isinstance(label, (str, int))):
            raise LineError(f"have in {name} the name or the position of an option", shown(label))
        return label

    def id(self, record: Mapping[str, Any]) -> str:
        """`custom_id`, or the `id` that stands beside the response."""
        found = own_id(record)
        if found is None:
            raise LineError(
                "have a custom_id, or an id beside the response, in each line", "a line without"
            )
        return found

    def group(self, record: Mapping[str, Any], name: str) -> Any:
        """A field."""
        return find_field(record, name)

    def processed(self, record: Mapping[str, Any]) -> float | None:
        """The sampling temperature, if the log-probabilities were computed with it and it is not 1.

        A log shows this by `logprobs_mode` of vLLM or `post_sampling_probs` of llama.cpp.
        """
        places = list(_settings(record))
        modes = ("processed_logprobs", "processed_logits")
        if not any(
            place.get("logprobs_mode") in modes or place.get("post_sampling_probs") is True
            for place in places
        ):
            return None
        given = (place.get("temperature") for place in places)
        plain = (t for t in given if isinstance(t, (int, float)) and not isinstance(t, bool))
        return next((float(t) for t in plain if 0 <= t < 1e6 and t != 1), None)

    def _answer_at(self, tokens: Sequence[Token]) -> int | None:
        if self.position is not None:
            inside = -len(tokens) <= self.position < len(tokens)
            return self.position if inside else None
        for place, token in enumerate(tokens):
            if name_in(token.text, self.options.pattern) in self.options.exact:
                return place
        # In other cases only as the very first word: " a" in a sentence is no answer.
        first = next((p for p, token in enumerate(tokens) if token.text.strip(_BLANKS)), None)
        named = first is not None and self.options.position(tokens[first].text) is not None
        return first if named else None

    def _answer(self, token: Token) -> Answer | None:
        listed, least = _values(token)
        found: dict[int, list[float]] = {}
        for text, value in listed:
            position = self.options.position(text)
            if position is not None:
                found.setdefault(position, []).append(value)
        if not found:
            return None
        missing = tuple(p for p in range(len(self.names)) if p not in found)
        unlisted = least + math.log(self.bound / len(missing)) if missing else 0.0
        logits = [_log_sum(found[p]) if p in found else unlisted for p in range(len(self.names))]
        return Answer(logits, missing)


def _log_sum(values: Sequence[float]) -> float:
    """The logarithm of the sum of probabilities, from their logarithms."""
    largest = max(values)
    return largest + math.log(math.fsum(math.exp(value - largest) for value in values))


def find_options(record: Mapping[str, Any], pattern: str, position: int | None) -> set[str]:
    """The options that a pattern finds at the position of the answer."""
    tokens = read_tokens(record)
    if position is None:
        at = next((p for p, t in enumerate(tokens) if name_in(t.text, pattern) is not None), None)
    else:
        at = position if -len(tokens) <= position < len(tokens) else None
    if at is None:
        return set()
    names = (name_in(text, pattern) for text, _ in _values(tokens[at])[0])
    return {name for name in names if name}


# The parts of a line ------------------------------------------------------------------------------


def body_of(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The response in a line; None for a request that failed."""
    response = record.get("response")
    if isinstance(response, Mapping):
        return response["body"] if isinstance(response.get("body"), Mapping) else response
    if "response" in record and response is None:
        return None
    return record


def is_response(record: Mapping[str, Any]) -> bool:
    """Whether a line has the fields of a response."""
    body = body_of(record)
    if body is None:
        return "custom_id" in record
    choices, logprobs = body.get("choices"), body.get("logprobs")
    listed = isinstance(choices, list) and all(isinstance(each, Mapping) for each in choices)
    own = isinstance(body.get("completion_probabilities"), list) or isinstance(logprobs, list)
    return listed or own or "custom_id" in record


def own_id(record: Mapping[str, Any]) -> str | None:
    """The name of the question; the `id` of a response itself is new in every run."""
    wrapped = isinstance(record.get("response"), Mapping) or record.get("response", "") is None
    found = record.get("custom_id", record.get("id") if wrapped else None)
    plain = isinstance(found, (str, int)) and not isinstance(found, bool)
    return str(found) if plain else None


def _settings(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The places in which a line may show how the response was sampled."""
    request, body = record.get("request"), body_of(record)
    inner = request.get("body") if isinstance(request, Mapping) else None
    for place in (record, request, inner, record.get("body"), body):
        if isinstance(place, Mapping):
            yield place
            for name in ("generation_settings", "options", "sampling_params"):
                if isinstance(place.get(name), Mapping):
                    yield place[name]


def read_tokens(record: Mapping[str, Any]) -> list[Token]:
    """The generated tokens of a line; none for a request that failed."""
    body = body_of(record)
    if body is None or _failed(record):
        return []
    if isinstance(body.get("completion_probabilities"), list):
        return [_token(each) for each in body["completion_probabilities"]]
    if isinstance(body.get("logprobs"), list):
        return [_token(each) for each in body["logprobs"]]
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise LineError(f"have one of the fields {FIELDS}", shown(body))
    logprobs = choices[0].get("logprobs")
    if not isinstance(logprobs, Mapping):
        raise LineError(
            "hold log-probabilities, which a request with logprobs and top_logprobs gives",
            f"logprobs {shown(logprobs)}",
        )
    if "tokens" in logprobs:
        return list(_legacy_tokens(logprobs))
    content = logprobs.get("content")
    if content is None:  # a refusal
        return []
    if not isinstance(content, list):
        raise LineError("have a list as content of logprobs", shown(content))
    return [_token(each) for each in content]


def _failed(record: Mapping[str, Any]) -> bool:
    response = record.get("response")
    status = response.get("status_code") if isinstance(response, Mapping) else None
    return bool(record.get("error")) or status not in (None, 200)


def _token(entry: Any) -> Token:
    if not isinstance(entry, Mapping):
        raise LineError("have an object for each token", shown(entry))
    text = entry.get("token", entry.get("content"))
    if not isinstance(text, str):
        raise LineError("have the text of each token", shown(text))
    for name, key in (("top_logprobs", "logprob"), ("top_probs", "prob"), ("probs", "prob")):
        if isinstance(entry.get(name), list):
            return Token(text, entry.get(key), entry[name], key)
    return Token(text, entry.get("logprob"), [])


def _legacy_tokens(logprobs: Mapping[str, Any]) -> Iterator[Token]:
    columns = [logprobs.get(name) for name in ("tokens", "token_logprobs", "top_logprobs")]
    if any(not isinstance(column, list) for column in columns):
        raise LineError("have lists of tokens, token_logprobs and top_logprobs", shown(columns))
    if len({len(column) for column in columns if column is not None}) > 1:
        raise LineError("have top_logprobs for each token", "lists of unequal length")
    for text, own, top in zip(*columns, strict=True):
        if not isinstance(text, str):
            raise LineError("have the text of each token", shown(text))
        pairs = top.items() if isinstance(top, Mapping) else ()
        yield Token(text, own, [{"token": token, "logprob": value} for token, value in pairs])


def _values(token: Token) -> tuple[list[tuple[str, float]], float]:
    """The log-probabilities at a position, and an upper bound for tokens that are not listed.

    The generated token bounds nothing: servers add it where it is not among the most likely.
    """
    listed = [_listed(each, token.key) for each in token.listed]
    if len(listed) < 2:
        raise LineError(
            "list two or more tokens at the answer: request top_logprobs, 20 or as many as the "
            "server gives",
            str(len(listed)),
        )
    found = [(text, value) for text, value in listed if value > _UNLISTED]
    others = [value for text, value in found if text != token.text]
    # With no other value, what the generated token leaves, which float32 resolves to 2⁻²⁴.
    largest = max((value for _, value in found), default=0.0)
    least = min(others) if others else math.log(max(-math.expm1(min(largest, 0.0)), 2**-24))
    if token.own is not None and all(text != token.text for text, _ in listed):
        own = _logarithm(token.own, token.key)
        found += [(token.text, own)] if own > _UNLISTED else []
    return found, least


def _listed(entry: Any, key: str) -> tuple[str, float]:
    text = entry.get("token", entry.get("tok_str")) if isinstance(entry, Mapping) else None
    if not isinstance(text, str):
        raise LineError("have a token and its probability for each listed token", shown(entry))
    return text, _logarithm(entry.get(key), key)


def _logarithm(value: Any, key: str) -> float:
    if value == -math.inf:  # an impossible token, as Python writes it
        return -math.inf
    number = finite(value, f"{key} of tokens")
    if key == "prob":
        return math.log(number) if number > 0 else -math.inf
    return number
