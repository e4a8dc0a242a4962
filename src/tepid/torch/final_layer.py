"""The layer whose outputs are the logits: find it by structure or by a run, and divide it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

from tepid.errors import InputError

# Layers whose outputs are linear in weight and bias together; the last is every convolution.
_LINEAR = (nn.Linear, nn.Bilinear, _ConvNd)
_LISTED = 8

# Candidates ---------------------------------------------------------------------------------------


def candidate_layers(model: nn.Module, widths: set[int] | None = None) -> dict[str, nn.Module]:
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


def only_candidate(found: dict[str, nn.Module], widths: set[int] | None) -> str:
    """The name of the only candidate; raises with the list if there are several or none."""
    if len(found) == 1:
        return next(iter(found))
    have = f"{' or '.join(map(str, sorted(widths)))} outputs" if widths else "outputs to divide"
    if found:
        raise InputError(
            f"layer must be named, or a batch given: {len(found)} layers have {have}, "
            f"{list_layers(found)}"
        )
    raise InputError(f"layer must be named: no linear layer and no convolution has {have}")


def list_layers(found: dict[str, nn.Module]) -> str:
    """Names and kinds for an error message, the last ones of many."""
    named = [f"{name!r} ({type(module).__name__})" for name, module in found.items()]
    return ", ".join(named if len(named) <= _LISTED else ["…", *named[-_LISTED:]])


def name_of(model: nn.Module, layer: Any) -> str:
    """The name of a layer that is given as a name or as a module."""
    modules = dict(model.named_modules(remove_duplicate=False))
    wanted = layer if isinstance(layer, nn.Module) else modules.get(layer)
    # A layer may have several names; the first is the one of `named_modules`.
    found = next((name for name, module in modules.items() if module is wanted), None)
    if found is None:
        got = type(layer).__name__ if isinstance(layer, nn.Module) else repr(layer)
        there = list_layers(candidate_layers(model)) or "none"
        raise InputError(f"layer must be a layer of the model, got {got}; its layers: {there}")
    return str(found)


# Refusals -----------------------------------------------------------------------------------------


def check_divisible(model: nn.Module, name: str, *, verified: bool) -> None:
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


@contextmanager
def restored_on_error(layer: nn.Module) -> Iterator[None]:
    """Write the weights of now back if the block raises."""
    kept = [(p, p.detach().clone()) for p in layer.parameters(recurse=False)]
    try:
        yield
    except BaseException:
        with torch.no_grad():
            for parameter, value in kept:
                parameter.copy_(value)
        raise


def divide(layer: nn.Module, divisor: float) -> None:
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


# Verification -------------------------------------------------------------------------------------


def is_divided(after: torch.Tensor, before: torch.Tensor, divisor: float, eps: float) -> bool:
    """Whether logits are those before over the divisor, up to rounding in units of eps."""
    old, new = (z.detach().to("cpu", torch.float64) for z in (before, after))
    if old.shape != new.shape:
        return False
    expected = old / divisor
    largest = expected[expected.isfinite()].abs().max()
    return bool(torch.allclose(new, expected, rtol=0.0, atol=32 * eps * float(largest)))


def is_final(layer: nn.Module, run: Callable[[], torch.Tensor], before: torch.Tensor) -> bool:
    """Whether the logits are halved if the weights are.

    Halving rounds nothing, so this holds to the last digits also in half precision.
    """
    kept = [(p, p.detach().clone()) for p in layer.parameters(recurse=False)]
    with torch.no_grad():
        try:
            for parameter, value in kept:
                parameter.copy_(value / 2)
            after = run()
        finally:
            for parameter, value in kept:
                parameter.copy_(value)
    # Weights of float16 are seldom, but may be, so small that halving rounds them.
    coarse = any(p.dtype == torch.float16 for p, _ in kept)
    return is_divided(after, before, 2.0, 2.0 ** (-20 if coarse else -23))


def final_by_run(found: dict[str, nn.Module], run: Callable[[], torch.Tensor]) -> str | None:
    """The candidate that runs last of those that divide the logits; None if there is none."""
    order: list[str] = []
    hooks = [
        module.register_forward_hook(lambda *_, name=name: order.append(name))
        for name, module in found.items()
    ]
    try:
        before = run()
    finally:
        for hook in hooks:
            hook.remove()
    usable = [name for name in dict.fromkeys(reversed(order)) if _is_plain(found[name])]
    return next((name for name in usable if is_final(found[name], run, before)), None)


def _is_plain(layer: nn.Module) -> bool:
    held = list(layer.parameters(recurse=False))
    return isinstance(layer, _LINEAR) and bool(held) and all(p.is_floating_point() for p in held)
