"""Boosted trees of XGBoost and LightGBM: their margins are the logits.

A margin is the sum of the trees before the sigmoid or the softmax. Probabilities of XGBoost are
float32, in which 1 - 1e-8 is 1; margins keep such rows apart. Neither package is imported here:
whoever has a model of one has imported it.
"""

import json
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from tepid.errors import InputError
from tepid.summaries.summary import softmax
from tepid.validation import Array, Float64

# Objectives whose probabilities are the sigmoid or the softmax of the margins.
_XGBOOST = ("binary:logistic", "multi:softprob", "multi:softmax", "binary:logitraw", "reg:logistic")
_LIGHTGBM = ("binary", "multiclass", "cross_entropy")


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """A classifier whose decision function is the margins of trees.

    `estimator` is what was given: a booster, a classifier, or a pipeline, search or frozen
    estimator that ends in one. `model` is the booster or classifier itself, `options` make its
    `predict` return margins, and these times `scale` are logits.
    """

    estimator: Any
    transformers: tuple[Any, ...]
    model: Any
    options: dict[str, Any]
    scale: float
    classes_: Array
    n_features_in_: int | None
    feature_names_in_: Array | None

    def decision_function(self, rows: Any) -> Array:
        """The logits: (n,) for two classes, or (n, k)."""
        for each in self.transformers:
            rows = each.transform(rows)
        margins = _margins(self, rows)
        return margins if self.scale == 1 else self.scale * margins

    def predict_proba(self, rows: Any) -> Float64:
        """The softmax of the logits."""
        return softmax(self.decision_function(rows))

    def predict(self, rows: Any) -> Array:
        """The classes that the classifier predicts, or those of the highest margin."""
        if not _is_booster(self.model):
            return np.asarray(self.estimator.predict(rows))
        z = self.decision_function(rows)
        columns = (z > 0).astype(np.int64) if z.ndim == 1 else z.argmax(axis=1)
        return np.asarray(self.classes_[columns])


def as_classifier(estimator: Any, name: str = "estimator") -> Any:
    """The trees at the end of an estimator as `BoostedTrees`, or else the estimator itself."""
    transformers, model = _last_of(estimator)
    xgboost = _is_one(model, "xgboost", "Booster", "XGBClassifier")
    if not (xgboost or _is_one(model, "lightgbm", "Booster", "LGBMClassifier")):
        return estimator
    if not all(hasattr(each, "transform") for each in transformers):
        return estimator  # such as a sampler, which its own kind of pipeline leaves out
    count, scale, options = (_describe_xgboost if xgboost else _describe_lightgbm)(model, name)
    booster = _is_booster(model)
    return BoostedTrees(
        estimator,
        transformers,
        model,
        options,
        scale,
        np.arange(count) if booster else np.asarray(estimator.classes_),
        _feature_count(model) if booster else getattr(estimator, "n_features_in_", None),
        _feature_names(model) if booster else getattr(estimator, "feature_names_in_", None),
    )


def unwrap_frozen(estimator: Any) -> Any:
    """What is inside a `FrozenEstimator`."""
    return estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator


def _last_of(estimator: Any) -> tuple[tuple[Any, ...], Any]:
    """The transformers that rows go through, and the model at the end."""
    inner = unwrap_frozen(estimator)
    inner = getattr(inner, "best_estimator_", inner)  # of a search
    if isinstance(inner, Pipeline):
        before = [each for _, each in inner.steps[:-1] if each not in (None, "passthrough")]
        after, model = _last_of(inner.steps[-1][1])
        return (*before, *after), model
    return ((), inner) if inner is estimator else _last_of(inner)


def _is_one(model: Any, package: str, *names: str) -> bool:
    module = sys.modules.get(package)
    return any(isinstance(model, getattr(module, name, ())) for name in names)


def _is_booster(model: Any) -> bool:
    return _is_one(model, "xgboost", "Booster") or _is_one(model, "lightgbm", "Booster")


# What a model was trained for ---------------------------------------------------------------------


def _describe_xgboost(model: Any, name: str) -> tuple[int, float, dict[str, Any]]:
    """The number of classes, and the scale and options of `BoostedTrees`."""
    booster = model if _is_booster(model) else model.get_booster()
    learner = json.loads(booster.save_config())["learner"]
    _check_objective(learner["objective"]["name"], _XGBOOST, model, name)
    known = learner["learner_model_param"]
    if int(known["num_target"]) > 1:
        raise InputError(
            f"{name} must predict one label per row, got {type(model).__name__} of "
            f"{known['num_target']} labels"
        )
    options: dict[str, Any] = {"output_margin": True}
    best = getattr(booster, "best_iteration", None)
    if booster is model and best is not None and learner["gradient_booster"]["name"] != "gblinear":
        options["iteration_range"] = (0, best + 1)  # as in XGBClassifier; a booster uses all
    return max(int(known["num_class"]), 2), 1.0, options


def _describe_lightgbm(model: Any, name: str) -> tuple[int, float, dict[str, Any]]:
    """The number of classes, and the scale and options of `BoostedTrees`."""
    booster = model if _is_booster(model) else model.booster_
    known = booster.dump_model(num_iteration=1)
    # Such as "binary sigmoid:1" or "multiclass num_class:4"; none for a function.
    objective, *parameters = known.get("objective", "custom").split(" ")
    _check_objective(objective, _LIGHTGBM, model, name)
    values = dict(each.split(":") for each in parameters if ":" in each)
    scale = float(values.get("sigmoid", 1))
    if known["average_output"]:  # a random forest, whose raw scores are sums all the same
        used = booster.best_iteration
        scale /= used if used > 0 else booster.current_iteration()
    return max(int(known["num_class"]), 2), scale, {"raw_score": True}


def _check_objective(objective: str, known: tuple[str, ...], model: Any, name: str) -> None:
    if objective not in known:
        raise InputError(
            f"{name} must be trained for an objective whose margins are logits "
            f"({', '.join(known)}), got {type(model).__name__} with {objective}"
        )


# Margins ------------------------------------------------------------------------------------------


def _margins(trees: BoostedTrees, rows: Any) -> Array:
    model = trees.model
    if _is_booster(model):
        _check_columns(trees, rows)
    if _is_one(model, "xgboost", "Booster"):
        rows = sys.modules["xgboost"].DMatrix(
            rows,
            feature_names=model.feature_names,
            # A table has types of its own.
            feature_types=None if hasattr(rows, "columns") else model.feature_types,
            enable_categorical=True,
        )
    return np.asarray(model.predict(rows, **trees.options))


def _feature_count(booster: Any) -> int:
    return int(
        booster.num_features() if hasattr(booster, "num_features") else booster.num_feature()
    )


def _feature_names(booster: Any) -> Array | None:
    """The names of the columns, if they had any."""
    if _is_one(booster, "xgboost", "Booster"):
        names = booster.feature_names
    else:
        names = booster.feature_name()
        if names == [f"Column_{i}" for i in range(len(names))]:  # its own, for those without
            names = None
    return None if names is None else np.asarray(names, object)


def _check_columns(trees: BoostedTrees, rows: Any) -> None:
    """Raises unless the rows have the columns that a booster was trained on.

    LightGBM would take the columns of a table in any order.
    """
    shape: tuple[int, ...] = getattr(rows, "shape", ())
    if len(shape) == 2 and shape[1] != trees.n_features_in_:
        raise InputError(
            f"X must have the {trees.n_features_in_} columns that the booster was trained on, "
            f"got {shape[1]}"
        )
    if trees.feature_names_in_ is None or not hasattr(rows, "columns"):
        return
    for expected, got in zip(trees.feature_names_in_, rows.columns, strict=True):
        # LightGBM stores a name with underscores for spaces.
        if expected not in (str(got), str(got).replace(" ", "_")):
            raise InputError(
                "X must have the columns that the booster was trained on in their order, "
                f"got {got!r} where {expected!r} is expected"
            )
