"""`calibrate`: the temperature of all evidence, from sums over the rows."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar

from tepid.engines import Engine, choose_engine
from tepid.errors import InputError
from tepid.methods.accuracy import (
    Accuracy,
    Estimate,
    estimate,
    estimate_groups,
)
from tepid.methods.exact import labeled_temperature, matched_temperature, uts_question, uts_result
from tepid.methods.passes import (
    Key,
    Pass,
    Passes,
    check_total,
    group_weights,
    in_parallel,
    one_pass,
    run,
    run_by_group,
)
from tepid.methods.search import Question, locate, read_off
from tepid.posterior.evidence import (
    Evidence,
    Layout,
    open_evidence,
    open_labeled,
    open_multilabel,
)
from tepid.posterior.measured import (
    Measured,
    OlderSet,
    sampling_error,
)
from tepid.posterior.model import REACH
from tepid.posterior.sums import (
    Entropies,
    Sums,
    first_pass,
    labeled_curve,
    scores_by_cluster,
)
from tepid.posterior.verdicts import describe, with_groups
from tepid.sources import Source, is_answers, open_source
from tepid.sources.multilabel import label_names
from tepid.store import shorten
from tepid.summaries.clusters import ClusterSums
from tepid.summaries.curve import Curve, Lattice
from tepid.summaries.optimum import Reading, least_loss
from tepid.summaries.shared import LATTICE, Summaries
from tepid.summaries.tails import Tails
from tepid.temperature import Temperature, warn_unreliable

Summed = TypeVar("Summed", Curve, ClusterSums)
# UTS is defined for rows of one label.
_NO_UTS = Reading("no-pairs", 1.0)
_PER_OCTAVE = LATTICE.per_octave
# The first window, in octaves of 1/T, and by how much it grows, up to a T of 1e±12.
_FIRST, _STRIDE, _FARTHEST = (-7, 6), 12, 40


def calibrate(  # noqa: PLR0913  # each kind of evidence is one keyword
    logits: Any,
    labels: Any = None,
    *,
    labeled: Any = None,
    accuracy: Accuracy | Mapping[str, Accuracy] | None = None,
    models: Iterable[Any] = (),
    reference: Any = None,
    source: Any = None,
    classes: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    clusters: Any = None,
    multilabel: bool | Literal["per-label"] = False,
    class_axis: int | None = None,
    probabilities: bool = False,
    columns: Any = None,
    ids: Any = None,
    engine: Engine | None = None,
) -> Temperature:
    """The temperature of a model from its logits and all that is known beside them.

    Each kind of evidence contributes a term to one posterior over log T. With labels or an accuracy
    the result is the T of least expected log loss, otherwise the posterior median. Logits alone do
    not identify T: the result is then T = 1, unless the mean confidence is at least 0.95, where
    networks err about three times as often as they claim. `verdict` tells whether to use T.

    Args:
        logits: An array (n, k), (n,) for binary logits, a path to `.npy`, `.csv`, `.parquet` and
            others, a folder or a glob of them, a URL, a data frame, a list of any, a function
            without arguments that returns a new iterator of batches, `tepid.Summaries`, or an
            evaluation log of a language model, `.jsonl` (see `tepid.llm`).
        labels: One per row, -1, NaN, None or an empty cell where it is unknown: an array, the name
            of a column, a file, or a table with the columns `id` and `label` as `tepid ask` writes
            it. Labeled rows must be a random sample of the rows.
        labeled: A pair (logits, labels) of labeled rows that are not among the logits.
        accuracy: The model's accuracy on such rows: `0.93`, `(0.93, 0.01)` with its standard error,
            `tepid.Counted(186, 200)` or `tepid.Range(0.91, 0.95)`; a mapping by group. A bare
            number has a standard error of 0.02.
        models: The logits of other models of comparable strength on the same rows.
        reference: A stronger model, a judge, or the base or unquantized model on the same rows or
            some of them: logits, with NaN in the rows without an answer, or one class per row, -1
            without an answer.
        source: A pair (logits, labels) of an older labeled set whose distribution may differ.
        classes: The names of the classes, where labels are names.
        sample_weight: One weight per row, as a frequency: a row of weight two counts as two.
        groups: One name per row. Each group gets a temperature of its own, shrunk toward that of
            all rows.
        clusters: One name per row, where rows belong together: the pixels of an image, the frames
            of a video, the visits of a patient. Labels of one cluster may depend on each other,
            and the interval takes the cluster as the unit. In arrays of more than two dimensions
            each item on the first axis is a cluster.
        multilabel: Each of the K columns of `logits` is a label of its own, with a sigmoid.
            `labels` are (n, K), of 0 and 1, -1 where unknown: an array, a table, a file, or the
            columns of the logits' table. The accuracy is the share of correct labels. True gives
            one temperature for all labels, "per-label" one for each, shrunk toward the common one.
            Logits alone keep T = 1.
        class_axis: The axis of the classes, for arrays of more than two dimensions.
        probabilities: The values are probabilities; their logarithms are the logits.
        columns: The columns of a table that are the logits, where that is ambiguous.
        ids: The id of each row, to match `models` and `reference` by id instead of by order: the
            name of a column that each table has, or an array; then each of them is a pair (logits,
            ids). Evaluation logs have ids of their own, by which they are matched.
        engine: Where the sums are computed, by default on threads of this process.

    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> logits = rng.normal(size=(5000, 5))
    >>> labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    >>> labels[200:] = -1
    >>> t = calibrate(3 * logits, labels)
    >>> t.verdict, t.interval[0] < 3 < t.interval[1]
    ('use', True)
    """
    if isinstance(logits, Summaries):
        logits.check_rows_needed(
            labels=labels, models=models, reference=reference, source=source, classes=classes,
            sample_weight=sample_weight, groups=groups, clusters=clusters, class_axis=class_axis,
            probabilities=probabilities, columns=columns, ids=ids, labeled=labeled, engine=engine,
            multilabel=multilabel or None,
        )  # fmt: skip
        found = _from_summaries(logits, accuracy)
        warn_unreliable(found)
        return found
    layout = Layout(classes, class_axis, probabilities, columns, ids)
    by_id = labels is not None and not multilabel and is_answers(labels)
    check_multilabel(multilabel, groups=groups, ids=ids)
    # Options that an open source cannot honor are refused.
    rows = open_source(
        logits,
        classes=classes,
        **layout.options,
        labels=None if by_id or multilabel else labels,
        sample_weight=sample_weight,
        groups=groups,
        ids=ids,
        clusters=clusters,
    )
    if "cluster" in rows.columns and (labeled is not None or (labels is None and not rows.labeled)):
        got = "none" if labeled is None else "labeled"
        raise InputError(f"clusters must go with labels of the rows, -1 where unknown, got {got}")
    others = {"labeled": labeled, "models": models, "reference": reference, "source": source}
    if multilabel:
        check_multilabel(multilabel, groups=True if rows.grouped else None)  # of an open source
        split = {"per_label": multilabel == "per-label", "table": logits}
        evidence = open_multilabel(rows, layout, labels=labels, **others, **split)
    else:
        evidence = open_evidence(rows, layout, answers=labels if by_id else None, **others)
    found = fit_evidence(evidence, accuracy, choose_engine(engine, evidence.rows))
    found = dataclasses.replace(found, warnings=(*found.warnings, *evidence.notes))
    if multilabel:
        found = dataclasses.replace(found, label_names=label_names(rows))
    warn_unreliable(found)
    return found


def check_multilabel(multilabel: Any, *, groups: Any = None, ids: Any = None) -> None:
    """Raise if the argument is none that is known, or goes with one that cannot be used."""
    if not isinstance(multilabel, bool | str) or multilabel not in (True, False, "per-label"):
        got = shorten(multilabel)
        raise InputError(f'multilabel must be True, False or "per-label", got {got}')
    if not multilabel:
        return
    for name, given in (("groups", groups), ("ids", ids)):
        if given is not None:
            raise InputError(f"{name} must be left out with multilabel, got some")


def _from_summaries(summaries: Summaries, accuracy: Any) -> Temperature:
    thresholds = uts_question(summaries.tails).thresholds
    summaries.check_round(thresholds)
    # UTS itself is the second of three weightings.
    return fit_sums(summaries.tails, summaries.curve, summaries.labels, accuracy, uts=1)


def fit_sums(
    tails: Tails, curve: Curve, labels: Curve | None, accuracy: Any, uts: int = 0
) -> Temperature:
    """The temperature from sums alone, on their own range of T.

    The weighting number `uts` of the curve is that of UTS, the last one that of the predicted
    classes. `labels` is the curve of labeled rows.
    """
    if isinstance(accuracy, Mapping):
        raise InputError("accuracy must be one for all rows, got a mapping")
    if labels is not None:
        _check_classes("labeled", labels.classes, curve.classes)
    sums = Sums(tails, _last_weighting(curve), labels)
    known = None if accuracy is None else estimate(accuracy)
    measured = Measured(sums, least_loss(curve, uts), known)
    return describe(measured, measured.posterior())


def sum_labeled(labeled: Any, lattice: Lattice) -> Curve:
    """The curve of labeled rows, a pair (logits, labels)."""
    source = open_labeled(labeled, "labeled", Layout())
    total: Curve = choose_engine(None, source).total(
        lambda batch: labeled_curve(batch, lattice), source, "summing labeled rows"
    )
    if not total.weight:
        raise InputError("labels must be known for at least one row, got none")
    return total


def _check_classes(name: str, found: int, expected: int) -> None:
    if found != expected:
        raise InputError(f"{name} must have the {expected} classes of logits, got {found}")


def _last_weighting(curve: Curve) -> Curve:
    """The curve of the predicted classes alone."""
    per_weighting = ("pairs", "pull", "flat", "loss", "slope", "curvature", "square")
    kept = {name: getattr(curve, name)[-1:] for name in per_weighting}
    return dataclasses.replace(curve, thresholds=curve.thresholds[:0], **kept)


# From rows to sums --------------------------------------------------------------------------------


def fit_evidence(evidence: Evidence, accuracy: Any, engine: Engine) -> Temperature:
    """The temperature of evidence that is open, without a warning where it is weak."""
    weights = group_weights(evidence.rows, engine)
    keys: tuple[Key, ...] = (None, *weights)
    known: dict[Key, Estimate] = {}
    if isinstance(accuracy, Mapping):
        known = estimate_groups(accuracy, weights)
    elif accuracy is not None:
        known = {None: estimate(accuracy)}
    older = None if evidence.source is None else run(_older_set(), evidence.source, engine)
    window = _FIRST
    sums = _sum(evidence, keys, window, engine)
    if older is not None:
        _check_classes("source", older.entropies.classes, sums[None].curve.classes)
    measured = _second_pass(evidence, sums, known, older, engine)
    while True:
        places = [each.places() for each in measured.values()]
        wanted = _wanted_window(places, window)
        if wanted == window:
            break
        window = wanted
        sums = _sum(evidence, keys, window, engine)
        measured = {
            key: dataclasses.replace(each, sums=sums[key]) for key, each in measured.items()
        }
    if any(sides for _, sides in places):
        raise InputError("logits must have a T within 1e-12 to 1e12, got evidence for one beyond")
    measured = _with_scores(evidence, measured, engine)
    posteriors = {key: each.posterior() for key, each in measured.items()}
    whole = describe(measured[None], posteriors[None])
    return whole if len(keys) == 1 else with_groups(whole, measured, posteriors)


def _sum(
    evidence: Evidence, keys: tuple[Key, ...], window: tuple[int, int], engine: Engine
) -> dict[Key, Sums]:
    """The first pass over the rows and over other labeled rows, which join their group."""
    lattice = Lattice.window(*window, per_octave=_PER_OCTAVE)
    rows = evidence.rows
    of = first_pass(
        lattice, labeled=rows.labeled, models=evidence.models, reference=evidence.reference
    )
    sums: dict[Key, Sums] = run_by_group(lambda _: one_pass(of, "summing"), rows, engine, keys)
    check_total(sums[None].curve.weight)
    if evidence.labeled is not None:
        sums = _add_labeled(sums, evidence.labeled, lattice, engine)
    if (rows.labeled or evidence.labeled) and sums[None].labeled is None:
        raise InputError("labels must be known for at least one row, got none")
    return sums


def _add_labeled(
    sums: dict[Key, Sums], labeled: Source, lattice: Lattice, engine: Engine
) -> dict[Key, Sums]:
    keys: tuple[Key, ...] = (None, *group_weights(labeled, engine))
    strangers = sorted(str(key) for key in set(keys) - set(sums))
    if strangers and len(sums) > 1:
        raise InputError(f"groups of labeled must be among groups, got {strangers}")

    def curve(_: Key) -> Passes[Curve]:
        return one_pass(lambda batch: labeled_curve(batch, lattice), "summing labeled rows")

    curves = run_by_group(curve, labeled, engine, keys)
    _check_classes("labeled", curves[None].classes, sums[None].curve.classes)
    return {
        key: dataclasses.replace(own, labels=_plus(own.labels, curves.get(key)))
        for key, own in sums.items()
    }


def _plus(one: Summed | None, two: Summed | None) -> Summed | None:
    if one is None or two is None:
        return two if one is None else one
    return one + two


def _older_set() -> Passes[OlderSet]:
    question = Question(
        curve_of=labeled_curve,
        per_octave=_PER_OCTAVE,
        empty="source must have a label for at least one row, got none",
    )
    curve, (reading,) = yield from locate(question)
    t = reading.temperature if reading.where == "inside" else 1.0
    entropies = yield Pass(
        lambda batch: Entropies.of(batch, t, labeled=True), "measuring entropies"
    )
    return OlderSet(reading, sampling_error(curve, reading.temperature), entropies)


def _second_pass(
    evidence: Evidence,
    sums: dict[Key, Sums],
    known: dict[Key, Estimate],
    older: OlderSet | None,
    engine: Engine,
) -> dict[Key, Measured]:
    """UTS on the thresholds of the first pass, and the entropies at the older set's temperature."""

    def passes(key: Key) -> Passes[Measured]:
        methods: dict[Key, Passes[Any]] = {}
        if not evidence.labels_each:
            methods["uts"] = _uts(sums[key].tails)
        if older is not None:
            t = older.temperature
            methods["entropies"] = one_pass(lambda b: Entropies.of(b, t), "measuring entropies")
        found = yield from in_parallel(methods)
        return Measured(
            sums[key], found.get("uts", _NO_UTS), known.get(key), older, found.get("entropies"),
            labels_each=evidence.labels_each,
        )  # fmt: skip

    return run_by_group(passes, evidence.rows.lean(), engine, tuple(sums))


def _with_scores(
    evidence: Evidence, measured: dict[Key, Measured], engine: Engine
) -> dict[Key, Measured]:
    """The scores of labels by cluster, where there are clusters, at the temperature of labels."""
    rows, labeled = evidence.rows, evidence.labeled
    if not (rows.clustered or (labeled is not None and labeled.clustered)):
        return measured

    def passes(key: Key) -> Passes[ClusterSums]:
        t = measured[key].temperature_of_labels
        return one_pass(lambda batch: scores_by_cluster(batch, t), "measuring clusters")

    found = dict(measured)
    for source in (rows if rows.labeled else None, labeled):
        if source is None:
            continue
        read = source.lean(labels=True, clusters=True)
        more = run_by_group(passes, read, engine, tuple(measured))
        found = {
            key: dataclasses.replace(own, scores=_plus(own.scores, more[key]))
            for key, own in found.items()
        }
    return found


def _uts(tails: Tails) -> Passes[Reading]:
    question = Question(thresholds=tails.thresholds()[None], per_octave=_PER_OCTAVE)
    _, (reading,) = yield from locate(question)
    return reading


def _wanted_window(
    places: list[tuple[list[float], set[str]]], window: tuple[int, int]
) -> tuple[int, int]:
    """The octaves of 1/T that hold every place and REACH on both sides of it."""
    low, high = window
    outside = set().union(*(sides for _, sides in places))
    if max(-low, high) < _FARTHEST:
        low -= _STRIDE if "above" in outside else 0
        high += _STRIDE if "below" in outside else 0
    inside = [place for found, _ in places for place in found]
    low = min(low, math.floor(-(max(inside) + REACH) / math.log(2)))
    high = max(high, math.ceil(-(min(inside) - REACH) / math.log(2)))
    return low, high


# The report ---------------------------------------------------------------------------------------


def fit_methods(source: Source, engine: Engine) -> tuple[dict[str, Temperature], Tails]:
    """The temperatures of logits alone and, with labels, of the labels and their accuracy.

    All come from the same two passes over the rows, so each has the precision of its curve. The
    tails are those of all rows.
    """
    of = first_pass(LATTICE, labeled=source.labeled, bins=1)
    sums: Sums = run(one_pass(of, "summing"), source, engine)
    check_total(sums.curve.weight)
    question = dataclasses.replace(uts_question(sums.tails), per_octave=_PER_OCTAVE, first=_FIRST)
    curve, readings = run(locate(question), source.select(), engine)
    alone = Measured(dataclasses.replace(sums, labels=None), readings[0])
    found = {
        "calibrate": describe(alone, alone.posterior()),
        "uts": uts_result(read_off(question, curve, readings), sums.tails),
    }
    labels = sums.labeled
    if labels is None:
        return found, sums.tails
    accuracy = float(labels.histogram[0, 2].sum() / labels.weight)
    return {
        "temperature": labeled_temperature(labels),
        "accuracy": matched_temperature(sums.curve, accuracy),
    } | found, sums.tails
