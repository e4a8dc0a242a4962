"""`fold`: a temperature divided into the weights of a model, which then needs no wrapper."""

import copy
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

from tepid.errors import InputError
from tepid.temperature import Temperature
from tepid.torch.loader import (
    Forward,
    device_of,
    evaluation_mode,
    fixed_random_state,
    run_model,
    without_wrappers,
)
from tepid.torch.modules import Calibrated, Warmup, find_logits
from tepid.validation import number

_RECORD = "tepid_fold"
# Layers whose outputs are linear in weight and bias together; the last is every convolution.
_LINEAR = (nn.Linear, nn.Bilinear, _ConvNd)
# Errors list at most this many layers.
_LISTED = 8
# Runs the model on the batch and returns its logits.
_Run: TypeAlias = Callable[[], torch.Tensor]
# Casting weights to half precision changes their norm by less, other weights by more.
_SAME_WEIGHTS = 0.01
# What a GPU may round the factors of a product to (TF32), also where weights are float32.
_TF32 = 2.0**-10


def fold(
    model: nn.Module,
    t: Temperature | float | None = None,
    layer: str | nn.Module | None = None,
    *,
    batch: Any = None,
    forward: Forward | None = None,
    output: str | None = None,
    inplace: bool = False,
) -> nn.Module:
    """The model with weight and bias of its final layer divided by T, so that it needs no wrapper.

    Its logits are z / T, where z are those of the original model. Its class and the names, shapes
    and dtypes of its weights stay. The final layer is the only linear layer or convolution with one
    output per class, or the one that a `batch` shows to divide the logits. Where it is ambiguous,
    this raises and lists the candidates. Weights shared with another layer, weights that are
    computed (weight_norm) and quantized weights are refused.

    T is recorded in the attribute `tepid_fold` of the layer, and for Hugging Face models also in
    `model.config`, which `save_pretrained` saves. Folding again replaces T; T = 1 restores the
    original weights. Weights are divided in float64 and rounded once in every fold: n folds change
    a weight by at most n roundings, 6e-8 each in float32, 5e-4 in float16 and 4e-3 in bfloat16.

    The trap: a temperature fitted to the outputs of a folded model is relative to them. Pass the
    `Calibrated` model that `tepid.torch.calibrate` returns, not its temperature: then both are
    multiplied, and the folded model has the logits of the wrapper.

    Args:
        model: A module. Wrappers are taken off: `Calibrated`, for distributed training, and of
            `torch.compile`.
        t: The temperature; None for a `Calibrated` model, whose own it is.
        layer: The name of the final layer, such as "classifier", or the layer.
        batch: A batch of a loader, as for `tepid.torch.calibrate`. The model runs on it before and
            after. If the logits are not divided by T, the weights are restored and this raises.
        forward: `forward(model, batch)` returns the output, for other kinds of batches.
        output: The name of the logits in the model's output; "logits", or that of `Calibrated`.
        inplace: Change the given model instead of a copy. A `Calibrated` wrapper of it then divides
            by 1.

    >>> model = nn.Linear(3, 2)
    >>> x = torch.ones(1, 3)
    >>> torch.allclose(fold(model, 2.0, batch=x)(x), model(x) / 2)
    True
    """
    core, wrapper = _unwrap(model)
    value, widths = _read_temperature(t, wrapper)
    output = output or (wrapper.output if wrapper else "logits")
    name = None if layer is None else _name_of(core, layer)
    core = core if inplace else copy.deepcopy(core)
    with evaluation_mode(core), fixed_random_state() as rewind:

        def run() -> torch.Tensor:
            rewind()
            answer = run_model(core, batch, device_of(core), forward)
            return find_logits(answer, output).detach().clone()  # the model may reuse the memory

        before = None if batch is None else _check_logits(run())
        folded = recorded(core)
        if name is None and value == 1 and not folded:
            return core
        if name is None:
            name = _choose_layer(core, folded, widths, None if before is None else (run, before))
        _check_divisible(core, name, verified=before is not None)
        chosen, old = core.get_submodule(name), folded.get(name, 1.0)
        # The wrapper's T divides the present logits, a given T those of the original weights.
        new = value * old if wrapper else value
        divisor = new / old
        if before is not None and not _is_final(chosen, run, before):
            raise InputError(
                f"layer {name!r} must give the logits: they are not halved when its weights are; "
                "an activation, a normalization or an offset may follow it"
            )
        restore = _copy_weights(chosen)
        try:
            _divide(chosen, divisor)
            if before is not None:
                _check_divided(run(), before, divisor, chosen)
        except BaseException:
            restore()
            raise
    _record(core, name, new)
    if wrapper and inplace:
        wrapper.temperature.fill_(1.0)
    return core


def recorded(model: nn.Module) -> dict[str, float]:
    """The temperatures that are folded into a model, by the name of their layer.

    Raises if the weights of such a layer have changed since.

    >>> recorded(fold(nn.Sequential(nn.Linear(3, 2)), 1.5))
    {'0': 1.5}
    """
    core, _ = _unwrap(model)
    saved = getattr(_config(core), _RECORD, None) or {}
    found: dict[str, float] = {}
    for name, module in core.named_modules():
        record = getattr(module, _RECORD, saved.get(name))
        if record is not None:
            now, then = _norm(module), record["norm"]
            if now and then and abs(now / then - 1) > _SAME_WEIGHTS:
                raise InputError(
                    f"layer {name!r} must have the weights that T = {record['temperature']:.4g} "
                    f"was folded into, got others; load those, or delete {_RECORD} of the layer "
                    "and of the model's config if these are not divided by T"
                )
            found[name] = float(record["temperature"])
    return found


# Arguments ----------------------------------------------------------------------------------------


def _unwrap(model: Any) -> tuple[nn.Module, Calibrated | None]:
    """The plain model, and its temperature's wrapper if it has one."""
    core = without_wrappers(model)
    if isinstance(core, Warmup):
        raise InputError("model must have its temperature, got a Warmup; pass warmup.calibrated()")
    if isinstance(core, Calibrated):
        return without_wrappers(core.model), core
    if not isinstance(core, nn.Module):
        raise InputError(f"model must be a torch.nn.Module, got {type(core).__name__}")
    return core, None


def _read_temperature(t: Any, wrapper: Calibrated | None) -> tuple[float, set[int] | None]:
    """T, and the numbers of outputs that the final layer may have."""
    if (t is None) != (wrapper is not None):
        got = "none" if t is None else "both"
        raise InputError(f"t must be given, or the model must be a Calibrated one, got {got}")
    calibration = wrapper.calibration if wrapper else t
    if isinstance(calibration, Temperature) and calibration.label_names and calibration.groups:
        raise InputError(
            "t must be one temperature for all labels, got one for each; fit multilabel=True, or "
            "keep the Calibrated model"
        )
    value = number(wrapper.temperature if wrapper else t, "t")
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"t must be a number above zero, got {value}")
    if not isinstance(calibration, Temperature):
        return value, None
    if calibration.groups:
        names = ", ".join(map(repr, calibration.groups))
        raise InputError(
            f"t must be one temperature for all rows, got one with the groups {names}; "
            "a model does not know the group of a row"
        )
    classes = len(calibration.label_names) or calibration.classes
    return value, {1, 2} if classes == 2 else {classes}


# The final layer ----------------------------------------------------------------------------------


def _choose_layer(
    model: nn.Module,
    folded: dict[str, float],
    widths: set[int] | None,
    checked: tuple[_Run, torch.Tensor] | None,
) -> str:
    """The layer that has a temperature, the only candidate, or the one that a run shows."""
    if len(folded) == 1:
        return next(iter(folded))
    if widths is None and checked is not None:
        widths = {1, *checked[1].shape}
    found = _candidates(model, widths)
    if len(found) == 1:
        return next(iter(found))
    if found and checked is not None:
        final = _final_by_run(found, *checked)
        if final is None:
            raise InputError(
                "layer must be given: the logits are divided by none of the candidates "
                f"{_list_layers(found)}"
            )
        return final
    have = f"{' or '.join(map(str, sorted(widths)))} outputs" if widths else "outputs to divide"
    if found:
        raise InputError(
            f"layer must be named, or a batch given: {len(found)} layers have {have}, "
            f"{_list_layers(found)}"
        )
    raise InputError(f"layer must be named: no linear layer and no convolution has {have}")


def _candidates(model: nn.Module, widths: set[int] | None = None) -> dict[str, nn.Module]:
    """The layers with these numbers of outputs by name; quantized ones too, to be refused."""
    return {
        name: module
        for name, module in model.named_modules()
        if (width := _width(module)) is not None and (widths is None or width in widths)
    }


def _width(module: nn.Module) -> int | None:
    if not hasattr(module, "weight"):  # a block of layers may tell its outputs too
        return None
    width = getattr(module, "out_features", getattr(module, "out_channels", None))
    return width if isinstance(width, int) else None


def _list_layers(found: dict[str, nn.Module]) -> str:
    """Names and kinds for an error message, the last ones of many."""
    named = [f"{name!r} ({type(module).__name__})" for name, module in found.items()]
    return ", ".join(named if len(named) <= _LISTED else ["…", *named[-_LISTED:]])


def _name_of(model: nn.Module, layer: Any) -> str:
    """The name of a layer that is given as a name or as a module."""
    modules = dict(model.named_modules(remove_duplicate=False))
    wanted = layer if isinstance(layer, nn.Module) else modules.get(layer)
    # A layer may have several names; the first is the one of `named_modules`.
    found = next((name for name, module in modules.items() if module is wanted), None)
    if found is None:
        got = type(layer).__name__ if isinstance(layer, nn.Module) else repr(layer)
        there = _list_layers(_candidates(model)) or "none"
        raise InputError(f"layer must be a layer of the model, got {got}; its layers: {there}")
    return str(found)


def _check_divisible(model: nn.Module, name: str, *, verified: bool) -> None:
    """Refuse a layer whose weights cannot be divided, or not without changing something else."""
    layer, label = model.get_submodule(name), f"layer {name!r}"
    if not isinstance(layer, _LINEAR):
        if callable(getattr(layer, "weight", None)):
            raise InputError(f"{label} must not be quantized; fold first, then quantize")
        kind = type(layer).__name__
        raise InputError(f"{label} must be linear or a convolution, got {kind}")
    held = {"weight": layer.weight, "bias": layer.bias}
    own = dict(layer.named_parameters(recurse=False))
    for part, value in held.items():
        if value is not None and part not in own:
            raise InputError(
                f"{label} must hold its {part} itself, got one that is computed (weight_norm, "
                "spectral_norm, pruning); remove that first, as with "
                "torch.nn.utils.parametrize.remove_parametrizations"
            )
        plain = type(value) is nn.Parameter and value.is_floating_point() and not value.is_meta
        if value is not None and not plain:
            kind = f"{type(value).__name__} of {value.dtype} on {value.device}"
            raise InputError(
                f"{label} must have plain floating-point weights in memory, got a {kind}; "
                "fold before quantizing or offloading"
            )
    _check_unshared(model, name, layer)
    # A class of its own may normalize the weights, which would undo the division.
    if not verified and not type(layer).forward.__module__.startswith("torch."):
        kind = type(layer).__name__
        raise InputError(f"batch must be given for {label}, whose class {kind} has its own forward")


def _check_unshared(model: nn.Module, name: str, layer: nn.Module) -> None:
    places = {p.untyped_storage().data_ptr() for p in layer.parameters(recurse=False)}
    for other, module in model.named_modules():
        if module is layer:
            continue
        for parameter in module.parameters(recurse=False):
            # Weights that are quantized or not in memory have no address.
            plain = type(parameter) is nn.Parameter and not parameter.is_meta
            if plain and parameter.untyped_storage().data_ptr() in places:
                raise InputError(
                    f"layer {name!r} must have weights of its own, got weights shared with "
                    f"{other!r}, which dividing them would change; use tepid.torch.Calibrated"
                )


# Division -----------------------------------------------------------------------------------------


def _copy_weights(layer: nn.Module) -> Callable[[], None]:
    """A function that restores the present weights."""
    kept = [(p, p.detach().clone()) for p in layer.parameters(recurse=False)]

    def restore() -> None:
        with torch.no_grad():
            for parameter, value in kept:
                parameter.copy_(value)

    return restore


def _divide(layer: nn.Module, divisor: float) -> None:
    """Divide weight and bias in float64, and round once to their dtype."""
    for parameter in layer.parameters(recurse=False):
        wide = parameter.detach().to("cpu", torch.float64, copy=True)
        rounded = (wide / divisor).to(parameter.dtype)
        error = (rounded.double() * divisor - wide).abs().max()
        # Rounding to nearest is within eps / 2 of each weight, unless it overflows or underflows.
        if not error <= torch.finfo(parameter.dtype).eps * wide.abs().max():
            raise InputError(
                f"t must leave the weights in the range of {parameter.dtype}, got a division "
                f"by {divisor:.4g}"
            )
        with torch.no_grad():
            parameter.copy_(rounded)


def _is_divided(after: torch.Tensor, before: torch.Tensor, divisor: float, eps: float) -> bool:
    """Whether `after` is `before` over the divisor, up to rounding in units of eps."""
    old, new = (z.detach().to("cpu", torch.float64) for z in (before, after))
    if old.shape != new.shape:
        return False
    expected = old / divisor
    largest = expected[expected.isfinite()].abs().max()
    return bool(torch.allclose(new, expected, rtol=0.0, atol=32 * eps * float(largest)))


def _is_final(layer: nn.Module, run: _Run, before: torch.Tensor) -> bool:
    """Whether the logits are halved if the weights are.

    Halving rounds nothing, so this holds to the last digits also in half precision.
    """
    restore = _copy_weights(layer)
    try:
        with torch.no_grad():
            for parameter in layer.parameters(recurse=False):
                parameter.copy_(parameter / 2)
        after = run()
    finally:
        restore()
    # Weights of float16 are seldom, but may be, so small that halving rounds them.
    coarse = any(p.dtype == torch.float16 for p in layer.parameters(recurse=False))
    return _is_divided(after, before, 2.0, 2.0 ** (-20 if coarse else -23))


def _final_by_run(found: dict[str, nn.Module], run: _Run, before: torch.Tensor) -> str | None:
    """The candidate that runs last of those that divide the logits; None if there is none."""
    order: list[str] = []
    hooks = [
        module.register_forward_hook(lambda *_, name=name: order.append(name))
        for name, module in found.items()
    ]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    usable = [name for name in dict.fromkeys(reversed(order)) if _is_plain(found[name])]
    return next((name for name in usable if _is_final(found[name], run, before)), None)


def _is_plain(layer: nn.Module) -> bool:
    held = list(layer.parameters(recurse=False))
    return isinstance(layer, _LINEAR) and bool(held) and all(p.is_floating_point() for p in held)


def _check_logits(logits: torch.Tensor) -> torch.Tensor:
    usable = logits[logits.isfinite()]
    if not bool((usable != 0).any()):
        raise InputError(
            f"batch must give logits that are finite and not all zero, got shape "
            f"{tuple(logits.shape)} without any"
        )
    return logits


def _check_divided(
    after: torch.Tensor, before: torch.Tensor, divisor: float, layer: nn.Module
) -> None:
    eps = max(torch.finfo(tensor.dtype).eps for tensor in (before, layer.weight))
    eps = max(eps, _TF32) if before.device.type == "cuda" else eps
    if not _is_divided(after, before, divisor, eps):
        error = float((after.double() - before.double() / divisor).abs().max())
        raise InputError(
            f"logits must be divided by {divisor:.4g} after folding, got a difference of "
            f"{error:.2g}"
        )


# Record -------------------------------------------------------------------------------------------


def _config(model: nn.Module) -> Any:
    """The configuration that a Hugging Face model saves with its weights, or None."""
    config = getattr(model, "config", None)
    return config if hasattr(model, "save_pretrained") and hasattr(config, "to_dict") else None


def _norm(layer: nn.Module) -> float | None:
    """The norm of the weight; None if it is zero, or quantized and thus not a tensor."""
    weight = getattr(layer, "weight", None)
    if not isinstance(weight, torch.Tensor):
        return None
    return float(weight.detach().to("cpu", torch.float64).norm()) or None


def _record(model: nn.Module, name: str, value: float) -> None:
    """Note T at the layer and in the configuration; T = 1 removes the note.

    Not a buffer: the weights of a folded model must load into a plain one with strict=True.
    """
    layer, config = model.get_submodule(name), _config(model)
    note = None if value == 1 else {"temperature": value, "norm": _norm(layer)}
    _set(layer, note)
    if config is not None:
        others = getattr(config, _RECORD, None) or {}
        notes = {**others, name: note}
        _set(config, {name: kept for name, kept in notes.items() if kept})


def _set(holder: Any, note: dict[str, Any] | None) -> None:
    if note:
        setattr(holder, _RECORD, note)
    elif hasattr(holder, _RECORD):
        delattr(holder, _RECORD)
