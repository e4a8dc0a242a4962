"""Temperature: the result, which turns logits into probabilities and states how far to trust it."""

import dataclasses
import importlib
import importlib.metadata
import json
import math
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from tepid import errors, kernels, shapes, tables, validation
from tepid.errors import InputError
from tepid.store import atomic_write, check_regular

if TYPE_CHECKING:
    from tepid.decisions import (
        Performance,
        PredictionSets,
        RiskCoverage,
        Temperatures,
        Threshold,
    )
    from tepid.engines import Engine
    from tepid.sources import Source

FORMAT = 2
Status = Literal["ok", "weak", "at-bound", "not-identified"]
Verdict = Literal["use", "check", "keep"]
# Methods that use logits alone; files of version 1 may have the second.
_LOGITS_ALONE = ("uts", "guarded", "uts-online", "odds")
# How many groups `print` shows.
_SHOWN = 8
_FIRST_STEP = "Label 25 random rows (tepid ask LOGITS -n 25 -o to_label.csv), or give the accuracy."


@dataclass(frozen=True)
class Contribution:
    """What one kind of evidence contributes to a temperature.

    `value` and `interval` are what it gives beside the logits alone. `weight` is its share of the
    information on log T; the weights of all kinds sum to one.
    """

    value: float
    interval: tuple[float, float]
    weight: float


@dataclass(frozen=True)
class Temperature:
    """A temperature T > 0 with what is needed to distrust it; call it on logits.

    T divides: above 1 it softens. `print` shows it in five lines, and its groups in a sixth.

    Attributes:
        value: T.
        method: `calibrate`, or the exact method: `uts`, `temperature` or `accuracy`.
        samples: The number of rows.
        classes: The number of classes.
        implied_accuracy: The mean confidence at T on these rows. If the model's accuracy differs,
            ECE is at least that difference.
        status: `ok`; `weak` where the ends of the interval differ by more than a factor of 4;
            `at-bound` where no T inside the range is best; `not-identified` where nothing
            determines T, as for logits alone, or where the loss is nearly flat.
        interval: The 95 % interval of T.
        verdict: Of `tepid.calibrate`: `use` where T is at least 90 % certain to lower the log loss,
            `check` where it is less certain or the evidence is in doubt, and `keep` where T = 1 is
            kept. None for the exact methods.
        reason: Why, in a sentence.
        next_step: What would help most.
        helps: The probability that T has a lower expected log loss than T = 1.
        evidence: What each kind of evidence contributes, by name.
        tension: The kinds of evidence that contradict the others.
        sensitivity: Of UTS, the temperatures for half and twice the deviations.
        precision: A bound on the relative error of `value` against the exact optimum; for UTS, over
            the pairs that it selected, of which one within 1e-6 of its threshold may fall on
            either side.
        warnings: What makes T unreliable, in sentences.
        groups: A temperature for each group, or for each label, that was fitted apart.
        label_names: The names of the labels, for multi-label rows; otherwise empty.

    >>> Temperature(2.0, "labels", samples=10, classes=2, implied_accuracy=0.8)([[0.0, 4.0]])
    array([[0.119, 0.881]])
    """

    value: float
    method: str
    _: dataclasses.KW_ONLY
    samples: int
    classes: int
    implied_accuracy: float
    status: Status = "ok"
    interval: tuple[float, float] | None = None
    verdict: Verdict | None = None
    reason: str = ""
    next_step: str = ""
    helps: float | None = None
    evidence: Mapping[str, Contribution] = dataclasses.field(default_factory=dict, hash=False)
    tension: tuple[str, ...] = ()
    sensitivity: tuple[float, float] | None = None
    precision: float = 5e-6
    warnings: tuple[str, ...] = ()
    groups: Mapping[str, "Temperature"] = dataclasses.field(default_factory=dict, hash=False)
    label_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        validation.replace_fields(
            self,
            value=validation.check_temperature(self.value),
            samples=validation.whole(self.samples, "samples", 0),
            classes=validation.whole(self.classes, "classes", 2),
            implied_accuracy=validation.number(self.implied_accuracy, "implied_accuracy"),
            interval=_pair(self.interval),
        )

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        head = f"T = {self.value:.4g}"
        if self.interval is not None:
            head += " (95 % interval {:.4g} to {:.4g})".format(*self.interval)
        parts = [
            f"{name} T = {part.value:.3g}, weight {part.weight:.2f}"
            for name, part in self.evidence.items()
        ]
        lines = {
            "temperature": head,
            "verdict" if self.verdict else "status": f"{self.verdict}: {self.reason}"
            if self.verdict
            else self.status,
            "evidence": "; ".join(parts) or self.method,
            "implied accuracy": f"{100 * self.implied_accuracy:.2f} % of {self._counted()}",
            "next step": self.next_step or " ".join(self.warnings) or "none",
        }
        if self.groups:
            each = [f"{name} T = {t.value:.4g}" for name, t in self.groups.items()]
            more = f"; and {len(each) - _SHOWN} more" if len(each) > _SHOWN else ""
            kind = "labels" if self.label_names else "groups"
            lines[kind] = "; ".join(each[:_SHOWN]) + more
        return "\n".join(f"{name + ':':<18}{line}" for name, line in lines.items())

    def _counted(self) -> str:
        if self.label_names:
            return f"{self.samples} labels, {len(self.label_names)} in each row"
        return f"{self.samples} rows, {self.classes} classes"

    def __call__(
        self,
        logits: Any,
        *,
        groups: Any = None,
        class_axis: int | None = None,
        columns: Any = None,
        probabilities: bool = False,
    ) -> Any:
        """Probabilities, softmax(logits / T), in the shape and memory order of the logits.

        float64 gives float64, everything else float32; torch tensors give tensors on their device;
        binary logits (n,) or (n, 1) give (n, 2). A row's largest logit keeps its largest
        probability, and float32 logits keep their order. With `groups`, one name per row, each row
        gets its group's temperature, and that of all rows where its group was not fitted. `columns`
        are those of a data frame that are the logits. With `probabilities` the values are
        uncalibrated probabilities instead of logits. Of multi-label rows each label gets its own
        probability, sigmoid(logit / T), with the T of the label if it has one.
        """
        probabilities = validation.flag(probabilities, "probabilities")
        if columns is not None:
            if not tables.is_frame(logits):
                raise InputError(f"columns must go with a data frame, got {columns!r}")
            self.check_label_order(columns)
            logits = tables.read_frame(logits, columns=columns)
        if self.label_names:
            return self._sigmoid(logits, groups, class_axis, probabilities=probabilities)
        if probabilities:
            return self(
                validation.log_probabilities(logits, class_axis),
                groups=groups,
                class_axis=class_axis,
            )
        if groups is not None:
            return self._by_group(logits, groups, class_axis)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(logits, torch.Tensor):
            return self._tensor(torch, logits, class_axis)
        return self._array(validation.as_array(logits), class_axis)

    def _array(self, logits: Any, class_axis: int | None) -> Any:
        z = shapes.class_last(logits, class_axis)
        shapes.check_classes(z, self.classes)
        k = self.classes
        if validation.look_like_probabilities(z):
            validation.warn_probabilities()
        lead = z.shape[:1] if z.ndim == 1 else z.shape[:-1]
        wide = z.dtype.kind == "f" and z.dtype.itemsize >= 8
        dtype = np.float64 if wide else np.float32
        if z.ndim == 2 and len(z) <= shapes.rows_per_batch(k):
            return shapes.class_back(self._block(z, dtype, 0), class_axis)
        out = np.empty((*lead, k), dtype)
        start = 0
        for part in shapes.parts(lead, shapes.rows_per_batch(k)):
            block = z[part].reshape(-1, z.shape[-1] if z.ndim > 1 else 1)
            out[part] = self._block(block, out.dtype, start).reshape(out[part].shape)
            start += len(block)
        return shapes.class_back(out, class_axis)

    def _by_group(self, logits: Any, groups: Any, class_axis: int | None) -> Any:
        names = validation.group_column(groups)
        out = self(logits, class_axis=class_axis)
        rows = shapes.class_last(validation.as_array(logits), class_axis)
        lead = np.shape(rows)[: max(1, rows.ndim - 1)]
        if np.ndim(groups) > 1 and np.shape(groups) != lead:
            raise InputError(f"groups must have the shape {lead}, got {np.shape(groups)}")
        if len(names) != math.prod(rows.shape[:1] if rows.ndim == 1 else rows.shape[:-1]):
            must = f"have one entry for each of the rows of {tuple(rows.shape)}"
            raise InputError(f"groups must {must}, got {len(names)}")
        there = names.reshape(shapes.class_last(out, class_axis).shape[:-1])
        for name, temperature in self.groups.items():
            chosen = there == name
            if chosen.any():
                shapes.class_last(out, class_axis)[chosen] = temperature(rows[chosen])
        return out

    def _sigmoid(
        self, logits: Any, groups: Any, class_axis: int | None, *, probabilities: bool
    ) -> Any:
        if groups is not None:
            raise InputError("groups must be left out for multi-label rows, got some")
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(logits, torch.Tensor):
            z = shapes.class_last(logits, class_axis)
            self._check_labels(z)
            z = z if z.dtype == torch.float64 else z.float()
            _refuse_label_rows(z, probabilities=probabilities)
            z = torch.logit(z) if probabilities else z
            scale = torch.as_tensor(self.per_label, dtype=z.dtype, device=z.device)
            return shapes.class_back(torch.sigmoid(z / scale), class_axis)
        rows = shapes.class_last(validation.as_array(logits), class_axis)
        self._check_labels(rows)
        flat = rows.reshape(-1, rows.shape[-1])
        z = multilabel().label_logits(flat, "logits", probabilities=probabilities)
        wide = rows.dtype.kind == "f" and rows.dtype.itemsize >= np.float64().itemsize
        with np.errstate(over="ignore"):  # exp(inf) leads to a probability of 0
            p = 1 / (1 + np.exp(-z / np.array(self.per_label)))
        out = p.astype(np.float64 if wide else np.float32).reshape(rows.shape)
        return shapes.class_back(out, class_axis)

    def _check_labels(self, z: Any) -> None:
        k = len(self.label_names)
        if z.ndim < 2 or z.shape[-1] != k:
            raise InputError(f"logits must be (n, {k}), one for each label, got {tuple(z.shape)}")

    def check_label_order(self, columns: Any) -> None:
        """Refuse columns that are the labels of the calibration in another order."""
        names = () if columns is None or isinstance(columns, str) else tuple(map(str, columns))
        if names != self.label_names and sorted(names) == sorted(self.label_names):
            order = ", ".join(self.label_names[:20])
            raise InputError(f"columns must be in the order of the calibration's labels, {order}")

    @property
    def per_label(self) -> tuple[float, ...]:
        """T of each label, for multi-label rows."""
        return tuple(self.groups.get(name, self).value for name in self.label_names)

    def label(self, name: Any) -> "Temperature":
        """The temperature of one label of multi-label rows, for its binary logits (n,).

        It has everything that the temperature of a binary classifier has, such as `threshold`.

        >>> known = {"samples": 6, "classes": 2, "implied_accuracy": 0.9}
        >>> t = Temperature(2.0, "manual", **known, label_names=("cat", "dog"))
        >>> t.label("dog")([4.0])
        array([[0.119, 0.881]])
        """
        if str(name) not in self.label_names:
            known = ", ".join(self.label_names[:20]) or "none, since it is not multi-label"
            raise InputError(f"label must be among those of the temperature, {known}, got {name!r}")
        return self.groups.get(str(name), dataclasses.replace(self, label_names=(), groups={}))

    def _block(self, z: Any, dtype: Any, start: int) -> Any:
        out = np.empty((len(z), self.classes), dtype)
        try:
            block = (
                validation.as_kernel_input(z)
                if dtype == np.float32
                else validation.centered(shapes.matrix(z))
            )
            bad = kernels.softmax(block, min(1.0 / self.value, sys.float_info.max), out)
            if bad >= 0:
                raise validation.unusable(z, bad)
        except errors.RowError as error:
            raise error.moved(start) from None
        return out

    def _tensor(self, torch: Any, logits: Any, class_axis: int | None) -> Any:
        if not validation.is_foreign(logits):
            return torch.from_numpy(self._array(validation.as_array(logits), class_axis))
        z = shapes.class_last(logits, class_axis)
        if z.ndim == 1 or z.shape[-1] == 1:
            z = shapes.matrix(z.reshape(-1)).reshape(*(z.shape if z.ndim == 1 else z.shape[:-1]), 2)
        self.check_classes(z.shape[-1])
        z = z.to(z.dtype if z.dtype == torch.float64 else torch.float32)
        # inf - inf is NaN, so a row is NaN somewhere exactly if it cannot be used.
        distance = z - z.amax(dim=-1, keepdim=True)
        _refuse_unusable(z, distance)
        limits = torch.finfo(z.dtype)
        beta = min(max(1.0 / self.value, limits.tiny), limits.max)
        return shapes.class_back(torch.softmax(beta * distance, dim=-1), class_axis)

    def threshold(
        self,
        logits: Any,
        *,
        precision: float | None = None,
        coverage: float | None = None,
        cost: tuple[float, float] | None = None,
        per_class: bool = False,
        names: Sequence[Any] | None = None,
        engine: "Engine | None" = None,
        **reading: Any,
    ) -> "Threshold":
        """The confidence from which predictions are accepted, without labels; call it on logits.

        The rows at or above it are accepted, the others go to a person. Give one of `precision`,
        `coverage` and `cost`; without any, `precision` is 0.95. The result also has a cautious
        threshold, which keeps the promise at the upper end of T's interval. "Nothing can be
        accepted" is an answer. A temperature from logits alone is refused.

        Args:
            logits: The rows to decide on, as in `tepid.calibrate`.
            precision: The expected share of correct predictions among accepted rows.
            coverage: The share of rows to accept.
            cost: The costs of an error and of a review; their expected sum is least.
            per_class: Also a threshold for the rows that are predicted as each class.
            names: The names of the classes.
            engine: Where the sums are computed.
            reading: `sample_weight`, `groups`, `class_axis`, `columns` and `probabilities`, as in
                `tepid.calibrate`.

        >>> logits = [[0.0, 4.0], [0.0, 1.0], [2.0, 0.0]]
        >>> t = Temperature(1.0, "manual", samples=3, classes=2, implied_accuracy=0.86)
        >>> found = t.threshold(logits, precision=0.9)
        >>> found.accepted.share, found(logits).tolist()
        (0.667, [True, False, True])
        """
        self._refuse_not_identified("threshold")
        if precision is None and coverage is None and cost is None:
            precision = 0.95
        goal = decisions().Goal(precision, coverage, cost)
        found: Threshold = decisions().find_threshold(
            self._open(logits, reading),
            _ends(self),
            goal,
            names=names,
            per_class=per_class,
            verdict=self.verdict,
            engine=engine,
        )
        return found

    def prediction_sets(
        self,
        logits: Any,
        coverage: float = 0.9,
        *,
        labeled: Any = None,
        engine: "Engine | None" = None,
        **reading: Any,
    ) -> "PredictionSets":
        """The sets of classes that are expected to contain the label this often; call it on logits.

        A set holds the classes whose probability is at least a level, at which the expected
        coverage is the wanted one. With `labeled`, a pair (logits, labels) of rows that T was not
        fitted to, the result also has `conformal`: split conformal prediction with its
        finite-sample guarantee. `reading` is as in `threshold`. A temperature from logits alone is
        refused.
        """
        self._refuse_not_identified("prediction_sets")
        found: PredictionSets = decisions().find_sets(
            self._open(logits, reading),
            _ends(self),
            coverage,
            labeled=None if labeled is None else self._checked(decisions().open_labeled(labeled)),
            verdict=self.verdict,
            engine=engine,
        )
        return found

    def expected_performance(
        self,
        logits: Any,
        *,
        names: Sequence[Any] | None = None,
        engine: "Engine | None" = None,
        **reading: Any,
    ) -> "Performance":
        """Expected accuracy, precision, recall, F1, confusion matrix, log loss and Brier score.

        Without labels: the calibrated probabilities are the distribution of the label of each row.
        For two classes also ROC AUC and average precision. `reading` is as in `threshold`. For a
        temperature from logits alone the intervals are wide.
        """
        found: Performance = decisions().find_performance(
            self._open(logits, reading),
            _ends(self),
            names=names,
            verdict=self.verdict,
            engine=engine,
        )
        return found

    def risk_coverage(
        self, logits: Any, *, engine: "Engine | None" = None, **reading: Any
    ) -> "RiskCoverage":
        """The expected risk of accepted rows at every threshold; `reading` is as in `threshold`."""
        found: RiskCoverage = decisions().find_risk_coverage(
            self._open(logits, reading), _ends(self), verdict=self.verdict, engine=engine
        )
        return found

    def _open(self, logits: Any, reading: Mapping[str, Any]) -> "Source":
        source = self._checked(decisions().open_rows(logits, reading))
        if source.grouped and not self.groups:
            raise InputError("groups must go with a temperature that has groups, got one without")
        return source

    def _checked(self, source: "Source") -> "Source":
        if source.classes is not None:
            self.check_classes(source.classes)
        return source

    @property
    def from_logits_alone(self) -> bool:
        """Whether nothing but logits determines T, which is too little for a promise."""
        return self.status == "not-identified" or self.method in _LOGITS_ALONE

    @property
    def ends(self) -> tuple[float, float, float]:
        """T and both ends of its interval; T three times where it has none."""
        return (self.value, *(self.interval or (self.value, self.value)))

    def _refuse_not_identified(self, name: str) -> None:
        if self.from_logits_alone:
            step = self.next_step or _FIRST_STEP
            raise InputError(
                f"{name} must have a temperature from labels, an accuracy, another model or an "
                f"older set, got one that logits alone do not identify; next step: {step}"
            )

    def check_classes(self, classes: int) -> None:
        """Refuse logits of another number of classes than the calibration's."""
        if self.label_names:
            raise InputError(
                "calibration must be of rows with one label here, got a multi-label one; "
                "t.label(name) is that of one label, for its column of the logits"
            )
        if classes != self.classes:
            raise InputError(
                f"logits must have the {self.classes} classes of the calibration, got {classes}"
            )

    def as_dict(self) -> dict[str, Any]:
        """What is saved, as plain JSON values."""
        head = {"format": FORMAT, "tepid": importlib.metadata.version("tepid")}
        fields = self._fields()
        if self.groups:
            fields["groups"] = {name: t._fields() for name, t in self.groups.items()}
        return head | fields

    def _fields(self) -> dict[str, Any]:
        fields = dataclasses.asdict(dataclasses.replace(self, groups={}))
        del fields["groups"]
        if not self.label_names:
            del fields["label_names"]
        return {"temperature": fields.pop("value")} | fields

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as JSON; a crash leaves the old file whole."""
        with atomic_write(path) as file:
            file.write((json.dumps(self.as_dict(), indent=2) + "\n").encode())


def _ends(temperature: Temperature) -> "Temperatures":
    """T and the ends of its interval, by group."""
    groups = {name: _ends(t) for name, t in temperature.groups.items()}
    found: Temperatures = decisions().Temperatures(*temperature.ends, groups, temperature.classes)
    return found


def multilabel() -> Any:
    """The module `tepid.sources.multilabel`, which other rows do not need."""
    return importlib.import_module("tepid.sources.multilabel")


def decisions() -> Any:
    """The module `tepid.decisions`, which a temperature that is only applied does not need."""
    return importlib.import_module("tepid.decisions")


def _refuse_unusable(z: Any, distance: Any) -> None:
    """Raise for the first row of a tensor whose distances to its maximum are NaN."""
    if z.is_meta:  # a tensor without values
        return
    bad = distance.isnan().any(dim=-1).reshape(-1)
    if bool(bad.any()):
        row = int(bad.int().argmax())
        values = z.detach().reshape(-1, z.shape[-1])[row : row + 1].cpu()
        raise validation.unusable(values, 0).moved(row)


def _refuse_label_rows(z: Any, *, probabilities: bool) -> None:
    """Raise for the first row of a tensor that has an unusable value for one of its labels."""
    usable = (z >= 0) & (z <= 1) if probabilities else z < math.inf
    bad = ~usable.all(dim=-1).reshape(-1)
    if not z.is_meta and bool(bad.any()):
        row = int(bad.int().argmax())
        values = z.detach().reshape(-1, z.shape[-1])[row : row + 1].cpu()
        try:
            multilabel().label_logits(values, "logits", probabilities=probabilities)
        except errors.RowError as error:
            raise error.moved(row) from None


def describe_doubts(temperature: Temperature, *notes: str) -> str:
    """T, its status, the notes and all warnings in one line; empty for a fit without doubts.

    Logits alone are not identified without a doubt here, because the verdict tells it.
    """
    doubtful = temperature.status in ("weak", "at-bound") or (
        temperature.verdict is not None and bool(temperature.warnings)
    )
    if not doubtful and not notes:
        return ""
    found = f"T = {temperature.value:.4g} ({temperature.method}, {temperature.status})"
    return " ".join([f"{found}:", *notes, *temperature.warnings])


def warn_unreliable(temperature: Temperature, *notes: str) -> None:
    """Emit one `CalibrationWarning` if there are doubts, at the line that called the caller."""
    doubts = describe_doubts(temperature, *notes)
    if doubts:
        warnings.warn(doubts, errors.CalibrationWarning, stacklevel=3)


def load(path: str | os.PathLike[str]) -> Temperature:
    """The temperature that `Temperature.save` wrote; every field is checked."""
    if Path(path).suffix.lower() == ".npz":
        raise InputError(f"{path} must be a temperature in .json, got .npz; see tepid.scaling.load")
    check_regular(path, folder=False)
    try:
        stored = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise InputError(f"{path} must be a calibration saved by tepid, got no JSON") from None
    return parsed(stored, str(path))


def parsed(stored: Any, place: str = "calibration") -> Temperature:
    """The temperature of what `Temperature.as_dict` gave, as JSON brings it back.

    Format 1 has no verdict; what it called `abstained` is not identified.
    """
    number = stored.get("format") if isinstance(stored, dict) else None
    if type(number) is not int or number not in (1, FORMAT):
        raise InputError(f"{place} must have calibration format 1 or {FORMAT}, got {number}")
    groups = stored.get("groups", {})
    if not isinstance(groups, dict) or not all(isinstance(g, dict) for g in groups.values()):
        raise InputError(f"{place} must have groups that are temperatures by name, got {groups!r}")
    upgrade = _from_format_1 if number == 1 else dict[str, Any]
    parts = {
        name: _checked(upgrade(part), f"{place}, group {name!r},") for name, part in groups.items()
    }
    whole = _checked(upgrade(stored), place)
    for part in parts.values():
        if part.classes != whole.classes:
            raise InputError(
                f"{place} must have groups of {whole.classes} classes, got {part.classes}"
            )
    return dataclasses.replace(whole, groups=parts)


def _from_format_1(stored: dict[str, Any]) -> dict[str, Any]:
    status = "not-identified" if stored.get("status") == "abstained" else stored.get("status")
    added: dict[str, Any] = {
        "verdict": None, "reason": "", "next_step": "", "helps": None, "evidence": {},
        "tension": [],
    }  # fmt: skip
    return stored | added | {"status": status}


def _checked(stored: dict[str, Any], place: str) -> Temperature:
    for name, (check, must) in _SCHEMA.items():
        if name not in stored or not check(stored[name]):
            raise InputError(f"{place} must have a {name} that {must}, got {stored.get(name)!r}")
    as_stored = ("method", "samples", "classes", "status", "verdict", "reason", "next_step")
    return Temperature(
        float(stored["temperature"]),
        **{name: stored[name] for name in as_stored},
        implied_accuracy=float(stored["implied_accuracy"]),
        interval=_pair(stored["interval"]),
        helps=None if stored["helps"] is None else float(stored["helps"]),
        evidence={
            name: Contribution(
                float(part["value"]),
                (float(part["interval"][0]), float(part["interval"][1])),
                float(part["weight"]),
            )
            for name, part in stored["evidence"].items()
        },
        tension=tuple(stored["tension"]),
        sensitivity=_pair(stored["sensitivity"]),
        precision=float(stored["precision"]),
        warnings=tuple(stored["warnings"]),
        label_names=_label_names(stored.get("label_names", []), place),
    )


def _label_names(names: Any, place: str) -> tuple[str, ...]:
    if not _is_texts(names) or len(set(names)) < len(names) or len(names) == 1:
        raise InputError(f"{place} must have label_names that differ, at least two, got {names!r}")
    return tuple(names)


def _pair(value: Sequence[float] | None) -> tuple[float, float] | None:
    return None if value is None else (float(value[0]), float(value[1]))


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_temperature(value: Any) -> bool:
    return _is_positive(value) and math.isfinite(1 / value)


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 1


def _is_pair(value: Any) -> bool:
    pair = isinstance(value, list) and len(value) == 2 and all(map(_is_temperature, value))
    return value is None or pair


def _is_interval(value: Any) -> bool:
    return _is_pair(value) and (value is None or value[0] <= value[1])


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _is_evidence(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(part, dict)
        and part.keys() == {"value", "interval", "weight"}
        and _is_temperature(part["value"])
        and part["interval"] is not None
        and _is_interval(part["interval"])
        and _is_share(part["weight"])
        for part in value.values()
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_SCHEMA = {
    "temperature": (_is_temperature, "is a number above zero, with 1/T finite"),
    "method": (_is_text, "is a string"),
    "samples": (lambda v: type(v) is int and v >= 0, "is a count"),
    "classes": (lambda v: type(v) is int and v >= 2, "is a number of classes"),
    "implied_accuracy": (_is_share, "is in [0, 1]"),
    "status": (lambda v: v in get_args(Status), "is a known status"),
    "interval": (_is_interval, "is null or a rising pair of temperatures"),
    "verdict": (lambda v: v is None or v in get_args(Verdict), "is null or a known verdict"),
    "reason": (_is_text, "is a string"),
    "next_step": (_is_text, "is a string"),
    "helps": (lambda v: v is None or _is_share(v), "is null or in [0, 1]"),
    "evidence": (_is_evidence, "is value, interval and weight by kind"),
    "tension": (_is_texts, "is a list of kinds"),
    "sensitivity": (_is_pair, "is null or a pair of temperatures"),
    "precision": (_is_positive, "is a number above zero"),
    "warnings": (_is_texts, "is a list of sentences"),
}
