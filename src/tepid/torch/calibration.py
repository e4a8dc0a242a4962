"""`calibrate`: a model, a loader and other evidence in, the calibrated model out."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import RandomSampler, SubsetRandomSampler, WeightedRandomSampler

from tepid import validation
from tepid.engines import Threads
from tepid.engines.engine import Summary, Total, add_up, finish
from tepid.errors import InputError, RowError
from tepid.methods.accuracy import Accuracy
from tepid.posterior.calibration import check_multilabel, fit_evidence
from tepid.posterior.evidence import Evidence
from tepid.sources import Batch, Source, attach, open_peer, split_labels
from tepid.sources.attached import AnyPeer, PeerTable
from tepid.sources.multilabel import label_names
from tepid.sources.spool import Spool
from tepid.temperature import warn_unreliable
from tepid.torch.huggingface import is_prediction, is_table, open_loader
from tepid.torch.loader import (
    Forward,
    Labels,
    LoaderPart,
    Reader,
    StoredPart,
    device_of,
    evaluation_mode,
    fixed_random_state,
    samplers_of,
)
from tepid.torch.modules import Calibrated

_SHUFFLING = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)


def calibrate(
    model: nn.Module,
    loader: Iterable[Any],
    *,
    labels: Labels = False,
    labeled: Iterable[Any] | None = None,
    accuracy: Accuracy | None = None,
    models: Iterable[nn.Module] = (),
    reference: Any = None,
    source: Iterable[Any] | None = None,
    multilabel: bool | Literal["per-label"] = False,
    collate: Any = None,
    forward: Forward | None = None,
    device: torch.device | str | None = None,
    amp: torch.dtype | bool | None = None,
    class_axis: int | None = None,
    output: str = "logits",
    spill: bool | str | os.PathLike[str] = False,
    process_group: "dist.ProcessGroup | None" = None,
    engine: Threads | None = None,
) -> Calibrated:
    """The model with its temperature, from a loader and everything else that is known.

    Evidence and temperature are as in `tepid.calibrate`. With the verdict `keep`, T = 1. The model
    runs over the loader two or more times, in evaluation mode and without gradients. Each batch is
    summarized on its device, and only the summaries are kept. Afterwards the modes, random states
    and gradients are as before. Every pass starts from the same random state, so a loader may
    shuffle, and may augment with the random numbers of PyTorch, Python or NumPy. Unreliable fits
    emit `CalibrationWarning`.

    The trap: a loader that still gives other rows in every pass, because its workers persist or
    because it is a stream. This is detected and raises. `spill=True` runs the model once and keeps
    the logits in a temporary file. Iterators are always read in this way.

    Args:
        model: A module. If it is wrapped for distributed training, the wrapper is not run.
        loader: Yields inputs: a tensor, a tuple or list that begins with one, or a mapping of
            keywords, from which labels are left out. Or Hugging Face data: a tokenized
            `datasets.Dataset`, what a tokenizer returns for all rows, or the result of
            `Trainer.predict`, for which the model does not run.
        labels: True if the second item of each batch, or its keyword `labels`, holds the labels; or
            a function that takes them from a batch. A label of -1 or -100 is unknown.
        labeled: A second loader, of labeled batches that are not among the first.
        accuracy: The model's accuracy, as in `tepid.calibrate`.
        models: Other modules of comparable strength, which run on the same batches.
        reference: A stronger module, which runs on the same batches; or an array in the order of a
            loader that does not shuffle: logits, NaN in rows without an answer, or classes as
            integers, -1 without an answer.
        source: A loader of an older labeled set whose distribution may differ.
        multilabel: Each of the K logits of a row is a label of its own, with a sigmoid, and labels
            are (n, K), of 0 and 1, as in `tepid.calibrate`. True gives one temperature,
            "per-label" one for each label.
        collate: For a `Dataset` or a tokenizer's output whose rows have different lengths: the
            tokenizer, or a collator such as `transformers.DataCollatorWithPadding(tokenizer)`. 32
            rows are a batch.
        forward: `forward(model, batch)` returns the output, for other kinds of batches. For padded
            sequences let it return the logits of the tokens that count, (n, k).
        device: Where batches are moved to; by default where the model is. Other modules get batches
            where they are.
        amp: The dtype for `torch.autocast`, such as `torch.bfloat16`, or True for its default.
        class_axis: The axis of the classes: 1 for images (n, k, h, w), -1 for sequences (n, t, k).
        output: The name of the logits in the model's output, if it returns more than them.
        spill: Run the models once and keep the logits in a temporary file, in this folder if it is
            a path.
        process_group: Sum over its processes, each of which has its own part of the rows.
        engine: The number of threads, and a function for progress.

    >>> import torch
    >>> images = 3 * torch.randn(5000, 10, generator=torch.Generator().manual_seed(0))
    >>> loader = torch.utils.data.DataLoader(images, batch_size=500)
    >>> calibrated = calibrate(nn.Identity(), loader, accuracy=(0.6, 0.001))
    >>> float(calibrated.probabilities(images).amax(dim=1).mean())
    0.6
    """
    check_multilabel(multilabel)
    core = _unwrap(model, "model")
    place = device_of(core) if device is None else torch.device(device)
    if engine is None:
        # One thread keeps a GPU as busy as many do. An older set is compared on the CPU.
        engine = Threads(1 if place.type != "cpu" and source is None else None)
    if process_group is not None:
        engine = AllReduced(engine.count, engine.progress, process_group)
    reader = Reader(core, place, forward, amp, class_axis, output, on_host=source is not None)
    others = _other_models(models, reference)
    peers = tuple(
        dataclasses.replace(reader, model=each, device=device_of(each), on_host=True, name=name)
        for name, each in others.items()
    )
    _check_collate(collate, loader, labeled, source)
    if is_prediction(loader) and others:
        raise InputError(
            f"{next(iter(others))} must not be a module for a result of Trainer.predict, which has "
            "no inputs to run it on; give a Dataset or a loader"
        )
    older = {"labeled": labeled, "source": source}
    modules = (core, *others.values())
    with evaluation_mode(*modules), fixed_random_state(loader, labeled, source) as rewind:
        parts = [LoaderPart(reader, loader, rewind, labels, peers, multilabel=bool(multilabel))]
        # A function reads the labels of all loaders.
        parts += [
            dataclasses.replace(
                parts[0], loader=given, labels=labels or True, peers=(), first=[], name=name
            )
            for name, given in older.items()
            if given is not None
        ]
        opened = {part.name: _open_loader(part, collate, spill=spill) for part in parts}
        k = _count_labels(opened["logits"], engine) if multilabel else 0
        if reference is not None and "reference" not in others:
            peer = _open_reference(reference, opened["logits"], loader, class_axis)
            opened["logits"] = attach(opened["logits"], {}, (peer,))
        names: tuple[str, ...] = ()
        if multilabel:
            known = {name: each.replaced(classes=k) for name, each in opened.items()}
            names = label_names(known["logits"])
            per_label = multilabel == "per-label"
            opened = {n: split_labels(each, per_label=per_label) for n, each in known.items()}
        evidence = Evidence(
            opened["logits"],
            models=len(others) - ("reference" in others),
            reference=reference is not None,
            labeled=opened.get("labeled"),
            source=opened.get("source"),
            labels_each=len(names),
        )
        calibration = fit_evidence(evidence, accuracy, engine)
    calibration = dataclasses.replace(calibration, label_names=names)
    warn_unreliable(calibration)
    return Calibrated(model, calibration, class_axis=class_axis, output=output)


# Modules, loaders and arrays ----------------------------------------------------------------------


def _unwrap(model: Any, name: str) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise InputError(f"{name} must be a torch.nn.Module, got {type(model).__name__}")
    return model.module if isinstance(model, DistributedDataParallel) else model


def _other_models(models: Any, reference: Any) -> dict[str, nn.Module]:
    """The modules that run on the same batches, by what errors call them."""
    if isinstance(models, nn.Module) or not isinstance(models, Iterable):
        raise InputError(f"models must be a list of modules, got {type(models).__name__}")
    named = {f"model {number}": each for number, each in enumerate(models, 1)}
    if isinstance(reference, nn.Module):
        named["reference"] = reference
    return {name: _unwrap(each, name) for name, each in named.items()}


def _check_collate(collate: Any, *given: Any) -> None:
    if collate is not None and not callable(collate):
        raise InputError(f"collate must be a function, got {type(collate).__name__}")
    if collate is not None and not any(map(is_table, given)):
        got = type(given[0]).__name__
        raise InputError(f"collate must go with a Dataset or a tokenizer's output, got {got}")


def _open_loader(part: LoaderPart, collate: Any, *, spill: bool | str | os.PathLike[str]) -> Source:
    """A source over a loader; `spill` and iterators are run once."""
    name = "loader" if part.name == "logits" else part.name
    reader, loader = open_loader(part.loader, part.reader, part.labels, collate, name)
    _check_loader(loader, name)
    part = dataclasses.replace(part, reader=reader, loader=loader)
    wanted = {"labels": part.labels, "peers": part.peers}
    columns = frozenset(name for name, there in wanted.items() if there)
    items = part.reader.class_axis is not None
    if spill is False and not isinstance(part.loader, Iterator):
        return Source((part,), part.name, columns=columns, items=items)
    part = dataclasses.replace(part, reader=dataclasses.replace(part.reader, on_host=True))
    spool = Spool(None if isinstance(spill, bool) else spill, always=True)
    stored = StoredPart(part, spool, columns, part.name)
    return Source((stored,), part.name, columns=columns, items=items)


def _count_labels(rows: Source, engine: Threads) -> int:
    """The number of columns of the logits, from the first batch of any process."""
    rows = rows.select()
    part = rows.parts[0]
    if isinstance(part, LoaderPart):  # else all rows are stored for the next pass
        rows = rows.replaced(parts=(dataclasses.replace(part, most=1, first=[]),))
    found = engine.total(lambda b: (b.logits.shape[1],), rows, "counting labels")
    return int(found[0])


def _check_loader(loader: Any, name: str) -> None:
    if isinstance(loader, torch.Tensor):
        raise InputError(
            f"{name} must yield batches, got a tensor of shape {tuple(loader.shape)}; "
            "[tensor] is a loader of one batch"
        )
    if not isinstance(loader, Iterable) or isinstance(loader, (str, bytes)):
        raise InputError(f"{name} must yield batches, got {type(loader).__name__}")


def _open_reference(given: Any, rows: Source, loader: Any, class_axis: int | None) -> AnyPeer:
    """A reference's logits or classes, in the order of the loader."""
    if any(isinstance(sampler, _SHUFFLING) for sampler in samplers_of(loader)):
        raise InputError(
            "reference must be a module for a loader that shuffles, or the loader must keep the "
            f"order, got {type(given).__name__}"
        )
    given = given.detach().cpu() if isinstance(given, torch.Tensor) else given
    array = np.asarray(validation.as_array(given, "reference"))
    if array.dtype.kind not in "iu" or (array.ndim > 1 and class_axis is None):
        logits = array[:, None] if array.ndim == 1 else array
        axis = class_axis if array.ndim > 1 else None
        return open_peer(logits, rows_of=rows, name="reference", class_axis=axis)
    answers = array.reshape(-1).astype(np.int64)
    if answers.min(initial=0) < -1:
        row = int(answers.argmin())
        must = "be classes from 0, or -1 without an answer"
        raise RowError("reference", must, str(answers[row]), row)
    return PeerTable("reference", answers, np.arange(len(answers)))


# Several processes --------------------------------------------------------------------------------


@dataclass(frozen=True)
class AllReduced(Threads):
    """An engine that sums over the rows of all processes of a group, by default the default group.

    Every process calls the same method with its own rows, which may be none. All of them get the
    same temperature, bit for bit. They exchange one summary, O(k) numbers, per pass. If one
    process fails, all of them raise.

    The trap: rows that two processes hold count twice, so labeled rows must be split too. Methods
    that read a whole column see only that of their own process, so `groups` cannot be used.
    """

    group: "dist.ProcessGroup | None" = None  # not in every build of PyTorch

    def total(self, of: Callable[[Batch], Summary], source: Source, stage: str) -> Summary:
        """The sum of `of(batch)` over all batches of all processes, in the order of their ranks."""
        own: Total | None = None
        try:
            own = self._sum(of, source, stage)
        except Exception as error:
            self._exchange(None, f"{type(error).__name__}: {error}")
            raise
        parts = [part for part in self._exchange(own, None) if part is not None]
        summary: Summary = finish(add_up(parts), source)
        return summary

    def _exchange(self, part: Total | None, failure: str | None) -> list[Total | None]:
        """The sums of all processes; raises if another process failed and this one did not."""
        gathered: list[Any] = [None] * dist.get_world_size(self.group)
        dist.all_gather_object(gathered, (part, failure), group=self.group)
        for rank, (_, wrong) in enumerate(gathered):
            if wrong is not None and failure is None:
                raise InputError(f"every rank must finish its pass, got on rank {rank}: {wrong}")
        return [theirs for theirs, _ in gathered]
