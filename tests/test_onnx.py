"""ONNX models: the temperature is where it belongs, and nothing else has moved."""

import importlib
import json
import re
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.special
from sklearn.datasets import make_classification
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

import tepid
from tests.needs import needed

onnx = needed("onnx")
onnxruntime = needed("onnxruntime")
TensorProto, helper, numpy_helper = onnx.TensorProto, onnx.helper, onnx.numpy_helper
ReferenceEvaluator = needed("onnx.reference").ReferenceEvaluator

ROOT = Path(__file__).parents[1]
RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 6)).astype(np.float32)
W = (2 * RNG.normal(size=(6, 4))).astype(np.float32)
NEWEST = onnx.defs.onnx_opset_version()
OPSETS = [9, 11, 13, 17, min(NEWEST, 22)]  # a new onnx is ahead of onnxruntime
T = 1.7

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def _save(nodes, outputs, *, path="m.onnx", opset=17, inputs=None, weights=None, **options):
    """A model file of these nodes; `x` is (n, 6) and `w` is W unless told otherwise."""
    weights = {"w": W} if weights is None else weights
    stored = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(
        nodes, "g", inputs or [_value("x", ["n", 6])], outputs, stored, **options
    )
    domains = [helper.make_opsetid("", opset)]
    version = helper.find_min_ir_version_for(domains)
    model = helper.make_model(graph, opset_imports=domains, ir_version=version)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def _classifier(end=None, *, opset=17, path="m.onnx", **attributes):
    """Logits z = x W, and the operator that ends the model, if there is one."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"], "head")]
    if end:
        nodes.append(helper.make_node(end, ["z"], ["p"], **attributes))
    return _save(nodes, [_value("p" if end else "z", ["n", 4])], opset=opset, path=path)


def _run(path, feed=None, *, literally=False, **feeds):
    """All outputs, by name; `literally` keeps float64 from being fused with float32 factors."""
    options = onnxruntime.SessionOptions()
    if literally:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    feeds = feeds or {"x": X if feed is None else feed}
    return dict(zip(names, session.run(None, feeds), strict=True))


def _insert(path="m.onnx", temperature=T, out="out.onnx", **options):
    """Insert, and hold the result to the checker, to strict inference and to the same face."""
    head = tepid.onnx.insert(path, temperature, out, **options)
    onnx.checker.check_model(str(out), full_check=True)
    before, after = (onnx.load(p, load_external_data=False).graph for p in (path, out))
    assert [v.name for v in before.input] == [v.name for v in after.input]
    assert list(before.output) == list(after.output)
    return head


def _softmax(z, temperature=T, axis=-1):
    return scipy.special.softmax(np.asarray(z, np.float64) / temperature, axis=axis)


def _close(got, wanted, tolerance=1e-6):
    np.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance)


# --- where the temperature goes


@pytest.mark.parametrize("opset", OPSETS)
def test_logits_become_calibrated_probabilities_under_the_same_name(opset):
    head = _insert(_classifier(opset=opset))
    assert (head.tensor, head.form) == ("z", "logits")
    _close(_run("out.onnx")["z"], _softmax(X @ W))


@pytest.mark.parametrize("end", [None, "Softmax", "LogSoftmax"])
def test_the_newest_opset_is_understood(end):
    _insert(_classifier(end, opset=NEWEST))
    (got,) = ReferenceEvaluator("out.onnx").run(None, {"x": X})
    _close(np.exp(got) if end == "LogSoftmax" else got, _softmax(X @ W))


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("end", ["Softmax", "LogSoftmax"])
def test_what_gave_probabilities_gives_calibrated_ones_of_the_same_kind(opset, end):
    head = _insert(_classifier(end, opset=opset))
    assert (head.tensor, head.form) == ("z", "activated")
    got = _run("out.onnx")["p"]
    _close(np.exp(got) if end == "LogSoftmax" else got, _softmax(X @ W))


def test_logits_can_stay_logits():
    _insert(_classifier(), keep_logits=True)
    _close(_run("out.onnx")["z"], (X @ W) / T, 1e-5)


def test_a_temperature_of_one_changes_nothing():
    _insert(_classifier("Softmax"), 1.0)
    np.testing.assert_array_equal(_run("out.onnx")["p"], _run("m.onnx")["p"])


def test_the_softmax_of_old_opsets_takes_all_axes_from_its_own_on_for_one():
    nodes = [helper.make_node("Softmax", ["x"], ["p"])]  # whose axis is then 1
    shape = ["n", 3, 2]
    _save(nodes, [_value("p", shape)], opset=11, inputs=[_value("x", shape)], weights={})
    with pytest.raises(tepid.InputError, match="must be left to the model's Softmax, got 1"):
        tepid.onnx.insert("m.onnx", T, "out.onnx", class_axis=1)
    _insert()
    x = RNG.normal(size=(5, 3, 2)).astype(np.float32)
    _close(_run("out.onnx", x)["p"].reshape(5, 6), _softmax(x.reshape(5, 6)))
    (rows,) = tepid.onnx.run("m.onnx", x)
    np.testing.assert_array_equal(rows, x.reshape(5, 6))


@pytest.mark.parametrize("opset", [11, 13])
def test_a_class_axis_in_the_middle_is_softmaxed_there(opset):
    nodes = [helper.make_node("Conv", ["x", "w"], ["z"])]
    w = RNG.normal(size=(3, 2, 1, 1)).astype(np.float32)
    inputs = [_value("x", ["n", 2, 5, 4])]
    _save(nodes, [_value("z", ["n", 3, 5, 4])], opset=opset, inputs=inputs, weights={"w": w})
    with pytest.raises(tepid.InputError, match=r"class_axis \(--class-axis\) must say where .* 4"):
        tepid.onnx.insert("m.onnx", T, "out.onnx")
    _insert(class_axis=1)
    x = RNG.normal(size=(7, 2, 5, 4)).astype(np.float32)
    z = _run("m.onnx", x)["z"]
    _close(_run("out.onnx", x)["z"], _softmax(z, axis=1))
    rows = np.concatenate(list(tepid.onnx.run("m.onnx", x, class_axis=1)))
    np.testing.assert_array_equal(rows, np.moveaxis(z, 1, -1).reshape(-1, 3))


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(np.float16, 2e-3), (np.float32, 1e-6), (np.float64, 1e-12)]
)
@pytest.mark.parametrize("end", [None, "Softmax"])
def test_every_width_is_calibrated_in_its_own(dtype, tolerance, end):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"])]
    nodes += [helper.make_node(end, ["z"], ["p"])] if end else []
    name = "p" if end else "z"
    inputs = [_value("x", ["n", 6], kind)]
    _save(nodes, [_value(name, ["n", 4], kind)], inputs=inputs, weights={"w": W.astype(dtype)})
    _insert()
    got = _run("out.onnx", X.astype(dtype), literally=True)[name]
    assert got.dtype == dtype
    z = X.astype(dtype) @ W.astype(dtype)
    _close(got, _softmax(z), tolerance)
    (block,) = tepid.onnx.run("m.onnx", X.astype(dtype))
    assert block.dtype == dtype


def test_a_bfloat16_model_gets_a_bfloat16_temperature():
    kind = TensorProto.BFLOAT16
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=kind),
        helper.make_node("Mul", ["h", "h"], ["z"]),
    ]
    _save(nodes, [_value("z", ["n", 6], kind)], weights={})
    _insert()
    (constant,) = [n for n in onnx.load("out.onnx").graph.node if n.op_type == "Constant"]
    stored = constant.attribute[0].t
    assert stored.data_type == kind
    assert float(numpy_helper.to_array(stored)) == pytest.approx(T, rel=4e-3)


def test_a_softmax_inside_the_model_is_not_touched():
    nodes = [
        helper.make_node("Softmax", ["x"], ["a"], "attention", axis=-1),
        helper.make_node("Mul", ["a", "x"], ["h"]),
        helper.make_node("MatMul", ["h", "w"], ["z"]),
    ]
    _save(nodes, [_value("z", ["n", 4])])
    _insert()
    after = {node.name: node for node in onnx.load("out.onnx").graph.node}
    assert list(after["attention"].input) == ["x"]
    _close(_run("out.onnx")["z"], _softmax(scipy.special.softmax(X, axis=1) * X @ W))


@pytest.mark.parametrize("transparent", ["Identity", "Cast", "Reshape", "Squeeze"])
def test_a_softmax_is_found_behind_what_does_not_change_its_numbers(transparent):
    options = {"Cast": {"to": TensorProto.DOUBLE}}.get(transparent, {})
    more = {"Reshape": ["shape"], "Squeeze": ["axis"]}.get(transparent, [])
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("Unsqueeze", ["z", "axis"], ["z1"]),
        helper.make_node("Softmax", ["z1"], ["p1"], axis=1),
        helper.make_node(transparent, ["p1", *more], ["p"], **options),
    ]
    kind = TensorProto.DOUBLE if transparent == "Cast" else TensorProto.FLOAT
    shape = ["n", 4] if more else ["n", 4, 1]
    weights = {"w": W, "shape": np.array([-1, 4]), "axis": np.array([2])}
    _save(nodes, [_value("p", shape, kind)], weights=weights)
    assert _insert().tensor == "z1"
    _close(_run("out.onnx")["p"].reshape(-1, 4), _softmax(X @ W))


# --- several outputs


def _two_headed():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("Softmax", ["z"], ["p"]),
        helper.make_node("MatMul", ["x", "v"], ["other"]),
    ]
    weights = {"w": W, "v": W[:, :3].copy()}
    return _save(nodes, [_value("p", ["n", 4]), _value("other", ["n", 3])], weights=weights)


def test_of_two_classifiers_one_must_be_named():
    _two_headed()
    said = r"--logits NAME, got several: 'z' \(Softmax of output 'p'\), 'other' \(output\)"
    with pytest.raises(tepid.InputError, match=said):
        tepid.onnx.insert("m.onnx", T, "out.onnx")


@pytest.mark.parametrize("name", ["z", "p"])
def test_the_named_classifier_is_calibrated_and_the_other_is_not(name):
    _two_headed()
    _insert(logits=name)
    got = _run("out.onnx")
    _close(got["p"], _softmax(X @ W))
    np.testing.assert_array_equal(got["other"], _run("m.onnx")["other"])


def test_each_classifier_keeps_its_own_temperature():
    _two_headed()
    _insert(logits="p")
    _insert("out.onnx", 3.0, "both.onnx", logits="other")
    _insert("both.onnx", 2.5, "again.onnx", logits="other")
    got = _run("again.onnx")
    _close(got["p"], _softmax(X @ W))
    _close(got["other"], _softmax(X @ W[:, :3], 2.5))
    noted = tepid.onnx.recorded("again.onnx")
    assert {name: said["temperature"] for name, said in noted.items()} == {"z": T, "other": 2.5}


def test_logits_beside_their_own_probabilities_stay_as_they_are():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("Softmax", ["z"], ["p"]),
        helper.make_node("LogSoftmax", ["z"], ["l"]),
    ]
    _save(nodes, [_value(name, ["n", 4]) for name in "zpl"])
    _insert()
    got = _run("out.onnx")
    np.testing.assert_array_equal(got["z"], _run("m.onnx")["z"])
    _close(got["p"], _softmax(X @ W))
    _close(np.exp(got["l"]), _softmax(X @ W))


def test_what_reads_the_logits_inside_the_model_reads_the_same_as_before():
    taken, left = (
        helper.make_graph(
            [helper.make_node(op, ["z", "one"], [f"y{op}"])], op, [], [_value(f"y{op}", ["n", 4])]
        )
        for op in ("Add", "Sub")
    )
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("ArgMax", ["z"], ["label"], axis=1, keepdims=0),
        helper.make_node("Cast", ["label"], ["as_float"], to=TensorProto.FLOAT),
        helper.make_node("If", ["yes"], ["y"], then_branch=taken, else_branch=left),
        helper.make_node("ReduceSum", ["y"], ["total"], keepdims=0),
        helper.make_node("Cast", ["total"], ["count"], to=TensorProto.INT64),
    ]
    outputs = [
        _value("label", ["n"], TensorProto.INT64),
        _value("as_float", ["n"]),
        _value("z", ["n", 4]),
        _value("count", [], TensorProto.INT64),
    ]
    weights = {"w": W, "one": np.float32([1.0]), "yes": np.array([True])}
    _save(nodes, outputs, weights=weights)
    _insert()
    before, after = _run("m.onnx"), _run("out.onnx")
    for name in ("label", "as_float", "count"):
        np.testing.assert_array_equal(before[name], after[name])
    _close(after["z"], _softmax(X @ W))


# --- binary


@pytest.mark.parametrize("end", [None, "Sigmoid"])
@pytest.mark.parametrize("flat", [False, True])
def test_one_logit_is_that_of_class_one(end, flat):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"])]
    nodes += [helper.make_node("Squeeze", ["a", "axis"], ["z"])] if flat else []
    nodes += [helper.make_node(end, ["z" if flat else "a"], ["p"])] if end else []
    name = "p" if end else "z" if flat else "a"
    weights = {"w": W[:, :1].copy(), "axis": np.array([1])}
    _save(nodes, [_value(name, ["n"] if flat else ["n", 1])], weights=weights)
    t = tepid.Temperature(T, "uts", samples=9, classes=2, implied_accuracy=0.9)
    _insert(temperature=t)
    z = (X @ W[:, :1]).ravel()
    _close(_run("out.onnx")[name].ravel(), scipy.special.expit(z / T))
    (block,) = tepid.onnx.run("m.onnx", X)
    _close(block, z[:, None], 1e-5)
    _close(t(block)[:, 1], _run("out.onnx")[name].ravel())


def test_sigmoids_that_may_all_be_true_are_refused_without_multilabel():
    _classifier("Sigmoid")
    said = r"must choose between classes, got a Sigmoid for each of 4 columns.*multilabel=True"
    with pytest.raises(tepid.InputError, match=said):
        tepid.onnx.insert("m.onnx", T, "out.onnx")
    with pytest.raises(tepid.InputError, match=said):
        tepid.onnx.run("m.onnx", X)


# --- multi-label


def _several(*values, labels=4):
    """A multi-label temperature: one T, or one for each label."""
    known = {"samples": 9, "classes": 2, "implied_accuracy": 0.9}
    names = tuple(f"label {i}" for i in range(labels))
    own = {n: tepid.Temperature(v, "labels", **known) for n, v in zip(names, values, strict=False)}
    groups = own if len(values) > 1 else {}
    return tepid.Temperature(values[0], "labels", **known, groups=groups, label_names=names)


EACH = (0.5, 1.0, 1.7, 30.0)


@pytest.mark.parametrize("values", [(T,), EACH])
@pytest.mark.parametrize("end", [None, "Sigmoid"])
@pytest.mark.parametrize("opset", [9, 13, NEWEST])
def test_each_label_is_divided_before_its_sigmoid(opset, end, values):
    t = _several(*values)
    head = _insert(_classifier(end, opset=opset), t)
    assert (head.tensor, head.form) == ("z", "activated" if end else "logits")
    (got,) = ReferenceEvaluator("out.onnx").run(None, {"x": X})
    _close(got, t(X @ W))
    _close(got, scipy.special.expit((X @ W).astype(np.float64) / values))
    if opset <= 17:
        _close(_run("out.onnx")["p" if end else "z"], t(X @ W))
    record = tepid.onnx.recorded("out.onnx")["z"]
    assert record == json.loads(json.dumps(t.as_dict()))


def test_multilabel_logits_can_stay_logits():
    _insert(_classifier(), _several(*EACH), keep_logits=True)
    _close(_run("out.onnx")["z"], X @ W / np.array(EACH, np.float32), 1e-4)


def test_a_number_is_one_temperature_for_all_labels():
    _insert(_classifier("Sigmoid"), T, multilabel=True)
    _close(_run("out.onnx")["p"], scipy.special.expit(X @ W / T))


def test_another_multilabel_temperature_replaces_the_first_and_run_leaves_both_out():
    _insert(_classifier("Sigmoid"), _several(*EACH))
    tepid.onnx.insert("out.onnx", _several(T), "again.onnx")
    _close(_run("again.onnx")["p"], _several(T)(X @ W))
    (got,) = tepid.onnx.run("again.onnx", X, multilabel=True)
    _close(got, X @ W, 1e-5)


@pytest.mark.parametrize("end", [None, "Sigmoid"])
@pytest.mark.parametrize("axis", [1, -1])
def test_labels_may_be_on_any_axis(end, axis):
    shape = (5, 4, 3) if axis == 1 else (5, 3, 4)
    z = np.random.default_rng(5).normal(size=shape).astype(np.float32)
    nodes = [helper.make_node("Mul", ["x", "two"], ["z"])]
    nodes += [helper.make_node(end, ["z"], ["p"])] if end else []
    given = [_value("x", ["n", *shape[1:]])]
    weights = {"two": np.array(2, np.float32)}
    _save(nodes, [_value("p" if end else "z", ["n", *shape[1:]])], inputs=given, weights=weights)
    t = _several(*EACH)
    _insert(temperature=t, class_axis=axis)
    _close(_run("out.onnx", z)["p" if end else "z"], t(2 * z, class_axis=axis))
    (rows,) = tepid.onnx.run("m.onnx", z, class_axis=axis, multilabel=True)
    _close(rows, np.moveaxis(2 * z, axis, -1).reshape(-1, 4), 1e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_the_temperatures_of_labels_have_the_width_of_the_logits(dtype):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Sigmoid", ["z"], ["p"]),
    ]  # fmt: skip
    given = [_value("x", ["n", 6], kind)]
    _save(nodes, [_value("p", ["n", 4], kind)], inputs=given, weights={"w": W.astype(dtype)})
    _insert(temperature=_several(*EACH))
    got = _run("out.onnx", X.astype(dtype), literally=True)["p"]
    assert got.dtype == dtype
    _close(got, _several(*EACH)(X @ W), 3e-3 if dtype == np.float16 else 1e-6)


@pytest.mark.parametrize(
    ("end", "t", "options", "said"),
    [
        ("Softmax", _several(T), {}, "multilabel must go with logits or a Sigmoid, got Softmax"),
        ("LogSoftmax", _several(T), {}, "got LogSoftmax, which chooses between classes"),
        ("Softmax", T, {"multilabel": True}, "multilabel must go with logits or a Sigmoid"),
        ("Sigmoid", _several(T, labels=3), {}, "must have the 3 labels of the calibration, got 4"),
        (None, _several(*EACH, 2.0, labels=5), {}, "must have the 5 labels of the calibration"),
        (None, _several(T), {"probabilities": True}, "got probabilities made by MatMul"),
        ("Sigmoid", _several(T, 1e60, 1, 1), {}, "must be a number that float32 holds, got 1e"),
        (
            "Sigmoid",
            tepid.Temperature(T, "uts", samples=9, classes=4, implied_accuracy=0.9),
            {"multilabel": True},
            "temperature must be a multi-label one with multilabel",
        ),
        (
            "Sigmoid",
            tepid.Temperature(T, "uts", samples=9, classes=4, implied_accuracy=0.9),
            {},
            "use multilabel=True",
        ),
    ],
)
def test_a_temperature_that_is_not_of_the_model_is_refused(end, t, options, said, folder):
    _classifier(end)
    with pytest.raises(tepid.InputError, match=said):
        tepid.onnx.insert("m.onnx", t, "out.onnx", **options)
    assert [p.name for p in folder.iterdir()] == ["m.onnx"]


def test_one_sigmoid_is_a_binary_classifier_and_not_multi_label():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Sigmoid", ["z"], ["p"]),
    ]  # fmt: skip
    _save(nodes, [_value("p", ["n", 1])], weights={"w": W[:, :1]})
    with pytest.raises(tepid.InputError, match="without multilabel it is the logit of a binary"):
        tepid.onnx.find("m.onnx", multilabel=True)


@pytest.mark.parametrize("option", ["--multilabel", "--per-label"])
@pytest.mark.filterwarnings("ignore::tepid.CalibrationWarning")
def test_the_command_finds_the_temperatures_of_labels(option, tepid_here):
    rng = np.random.default_rng(8)
    z = (6 * rng.normal(size=(3000, 4))).astype(np.float32)
    true = np.full(4, 2.0) if option == "--multilabel" else np.array([1.0, 2.0, 3.0, 5.0])
    y = (rng.random(z.shape) < scipy.special.expit(z / true)).astype(np.int64)
    y[1500:] = -1
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Sigmoid", ["z"], ["p"]),
    ]  # fmt: skip
    given, weights = [_value("x", ["n", 4])], {"w": np.eye(4, dtype=np.float32)}
    _save(nodes, [_value("p", ["n", 4])], inputs=given, weights=weights)
    np.save("x.npy", z)
    np.save("y.npy", y)
    np.savez("few.npz", logits=z[:500], labels=y[:500])
    args = ("onnx", "m.onnx", "--data", "x.npy", option, "-o", "out.onnx")
    command = (*args, "--labels", "y.npy", "--classes", "a,b,c,d", "--save-calibration", "c.json")
    code, out, err = tepid_here(*command)
    assert code == 0, err
    assert "its logits 'z' are divided by T" in out
    assert "T of all rows" not in err
    t = tepid.load("c.json")
    assert t.label_names == ("a", "b", "c", "d")
    np.testing.assert_allclose(t.per_label, true, rtol=0.15)
    kind = True if option == "--multilabel" else "per-label"
    same = tepid.calibrate(z, y, multilabel=kind)
    np.testing.assert_allclose(t.per_label, same.per_label, rtol=1e-6)
    _close(_run("out.onnx", z)["p"], t(z))
    code, out, err = tepid_here("onnx", "m.onnx", "-c", "c.json", "-o", "again.onnx")
    assert code == 0, err
    _close(_run("again.onnx", z)["p"], t(z))
    code, out, err = tepid_here(*args, "--labeled", "few.npz", "--json")
    assert code == 0, err
    few = tepid.calibrate(z, labeled=(z[:500], y[:500]), multilabel=kind)
    assert json.loads(out)["calibration"]["temperature"] == pytest.approx(few.value, rel=1e-6)
    code, out, err = tepid_here(*args)
    assert code == 0, err
    assert "a plain sigmoid of its logits" in err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--data", "x.npy"], "--multilabel"),
        (["--data", "x.npy", "--multilabel", "--labels", "x.npy"], "labels must have the shape"),
        (["-c", "c.json", "--multilabel"], "--multilabel must go with --data"),
        (["-c", "c.json"], "use multilabel=True"),
        (["-c", "three.json"], "must have the 3 labels of the calibration, got 4"),
    ],
)
def test_the_command_refuses_what_is_not_of_its_labels(options, said, folder, tepid_here):
    _classifier("Sigmoid")
    np.save("x.npy", X)
    tepid.Temperature(T, "uts", samples=9, classes=4, implied_accuracy=0.9).save("c.json")
    _several(T, labels=3).save("three.json")
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    code, out, err = tepid_here("onnx", "m.onnx", *options, "-o", "out.onnx")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


# --- what the graph does not say


def _averaged():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("Softmax", ["z"], ["a"]),
        helper.make_node("Softmax", ["x4"], ["b"]),
        helper.make_node("Mean", ["a", "b"], ["p"]),
    ]
    nodes.insert(0, helper.make_node("MatMul", ["x", "v"], ["x4"]))
    weights = {"w": W, "v": W[::-1].copy()}
    return _save(nodes, [_value("p", ["n", 4])], weights=weights)


def test_an_average_of_probabilities_is_not_taken_for_logits():
    _averaged()
    with pytest.raises(
        tepid.InputError, match=r"'p' must be logits or end in Softmax, got .* Mean"
    ):
        tepid.onnx.insert("m.onnx", T, "out.onnx")
    head = _insert(probabilities=True)
    assert head.form == "probabilities"
    p = _run("m.onnx")["p"]
    _close(_run("out.onnx")["p"], _softmax(np.log(p)))


def test_a_softmax_that_is_written_out_takes_the_name_of_its_logits():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("ReduceMax", ["z"], ["top"], axes=[1]),
        helper.make_node("Sub", ["z", "top"], ["d"]),
        helper.make_node("Exp", ["d"], ["e"]),
        helper.make_node("ReduceSum", ["e", "axis"], ["s"]),
        helper.make_node("Div", ["e", "s"], ["p"]),
    ]
    _save(nodes, [_value("p", ["n", 4])], weights={"w": W, "axis": np.array([1])})
    with pytest.raises(tepid.InputError, match="made by Div"):
        tepid.onnx.insert("m.onnx", T, "out.onnx")
    _insert(logits="z")
    _close(_run("out.onnx")["p"], _softmax(X @ W))
    with pytest.raises(tepid.InputError, match=r"divided once, got 'd' .* divides 'z' already"):
        tepid.onnx.insert("out.onnx", T, "twice.onnx", logits="d")
    with pytest.raises(tepid.InputError, match="must name a tensor of the model, got 'nothing'"):
        tepid.onnx.insert("m.onnx", T, "out.onnx", logits="nothing")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_probability_of_zero_stays_zero(dtype):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [helper.make_node("Identity", ["x"], ["p"])]
    _save(nodes, [_value("p", ["n", 3], kind)], inputs=[_value("x", ["n", 3], kind)], weights={})
    _insert(temperature=2.0, probabilities=True)
    p = np.array([[0.8, 0.2, 0.0], [0.0, 1.0, 0.0]], dtype)
    got = _run("out.onnx", p)["p"]
    assert got.dtype == dtype
    root = np.sqrt(p.astype(np.float64))
    _close(got, root / root.sum(1, keepdims=True), 1e-3 if dtype == np.float16 else 1e-6)


def test_numbers_that_look_like_probabilities_are_not_fitted_as_logits():
    nodes = [helper.make_node("Identity", ["x"], ["p"])]
    _save(nodes, [_value("p", ["n", 4])], inputs=[_value("x", ["n", 4])], weights={})
    p = _softmax(X @ W).astype(np.float32)
    with pytest.raises(tepid.InputError, match=r"must not be probabilities.*--probabilities says"):
        list(tepid.onnx.run("m.onnx", p))
    np.testing.assert_array_equal(next(tepid.onnx.run("m.onnx", p, logits="p")), p)
    _close(next(tepid.onnx.run("m.onnx", p, probabilities=True)), np.log(p))
    p[3, 0] += 0.5
    with pytest.raises(tepid.InputError, match=r"sum to one over the classes, got .* at row 3"):
        list(tepid.onnx.run("m.onnx", p, probabilities=True, batch=2))


# --- again


@pytest.mark.parametrize("end", [None, "Softmax"])
def test_a_second_temperature_takes_the_place_of_the_first(end):
    _classifier(end)
    _insert(temperature=3.0, out="first.onnx")
    _insert("first.onnx", T, "second.onnx")
    _insert(temperature=T, out="once.onnx")
    assert Path("second.onnx").read_bytes() == Path("once.onnx").read_bytes()


def test_what_was_given_as_probabilities_can_be_given_as_logits_after_all():
    _classifier()
    _insert(temperature=3.0, out="first.onnx")
    _insert("first.onnx", T, "kept.onnx", keep_logits=True)
    _close(_run("kept.onnx")["z"], (X @ W) / T, 1e-5)


def test_running_a_calibrated_model_gives_the_logits_without_the_temperature():
    _classifier("Softmax")
    _insert(temperature=3.0)
    _close(next(tepid.onnx.run("out.onnx", X)), X @ W, 1e-5)


def test_the_model_says_what_was_done_to_it():
    t = tepid.temperature_scaling(X @ W, (X @ W).argmax(axis=1) ^ (np.arange(40) % 5 == 0))
    _insert(_classifier(), t)
    session = onnxruntime.InferenceSession("out.onnx", providers=["CPUExecutionProvider"])
    noted = json.loads(session.get_modelmeta().custom_metadata_map["tepid"])
    assert noted == {"z": json.loads(json.dumps(t.as_dict()))} == tepid.onnx.recorded("out.onnx")
    assert tepid.onnx.recorded("m.onnx") == {}


@pytest.mark.parametrize("lost", ["nodes", "metadata", "damaged"])
def test_a_model_whose_temperature_was_changed_by_something_else_is_refused(lost):
    _classifier()
    _insert()
    model = onnx.load("out.onnx")
    if lost == "nodes":
        for node in model.graph.node:
            node.name = ""
    elif lost == "metadata":
        del model.metadata_props[:]
    else:
        model.metadata_props[0].value = "["
    onnx.save(model, "out.onnx")
    with pytest.raises(tepid.InputError, match=r"as tepid wrote it|what tepid wrote"):
        tepid.onnx.insert("out.onnx", T, "again.onnx")


# --- external data


@pytest.fixture
def external(folder):
    """A model whose weights are in a file of their own, in a folder of its own."""
    (folder / "in").mkdir()
    (folder / "elsewhere").mkdir()
    _classifier("Softmax")
    model = onnx.load("m.onnx")
    onnx.save(model, "in/m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    return folder


def test_in_its_own_folder_a_model_shares_its_external_data(external):
    before = sorted(p.name for p in (external / "in").iterdir())
    _insert("in/m.onnx", out="in/out.onnx")
    assert sorted(p.name for p in (external / "in").iterdir()) == [*before, "out.onnx"]
    _close(_run("in/out.onnx")["p"], _softmax(X @ W))


def test_into_another_folder_external_data_goes_along(external):
    for _ in range(2):  # the same data may be there already
        _insert("in/m.onnx", out="elsewhere/out.onnx")
    for path in (external / "in").iterdir():
        path.unlink()
    _close(_run("elsewhere/out.onnx")["p"], _softmax(X @ W))
    assert sorted(p.name for p in (external / "elsewhere").iterdir()) == ["m.data", "out.onnx"]


@pytest.mark.usefixtures("external")
def test_external_data_is_found_when_the_model_runs():
    _close(next(tepid.onnx.run("in/m.onnx", X)), X @ W, 1e-5)


def test_other_data_under_the_same_name_is_not_replaced(external):
    (external / "elsewhere" / "m.data").write_bytes(b"precious")
    with pytest.raises(tepid.InputError, match="must not replace another file"):
        tepid.onnx.insert("in/m.onnx", T, "elsewhere/out.onnx")
    assert [p.name for p in (external / "elsewhere").iterdir()] == ["m.data"]
    assert (external / "elsewhere" / "m.data").read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data.unlink(), "must have its external data beside it"),
        (lambda data: data.write_bytes(b"1234"), "must have 96 bytes of external data, got 4"),
    ],
)
def test_external_data_that_is_missing_or_short_is_noticed(external, change, said):
    change(external / "in" / "m.data")
    with pytest.raises(tepid.InputError, match=said):
        tepid.onnx.insert("in/m.onnx", T, "elsewhere/out.onnx")


@pytest.mark.usefixtures("external")
@pytest.mark.parametrize("location", ["../m.onnx", "/etc/hostname", ".", ""])
def test_external_data_outside_of_the_model_is_not_followed(location):
    model = onnx.load("in/m.onnx", load_external_data=False)
    model.graph.initializer[0].external_data[0].value = location
    Path("in/m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(tepid.InputError, match="must lie in the model's folder"):
        tepid.onnx.insert("in/m.onnx", T, "elsewhere/out.onnx")


def test_an_output_under_the_name_of_external_data_is_refused(external):
    model = onnx.load("in/m.onnx")
    onnx.save(model, "in/n.onnx", save_as_external_data=True, location="w.onnx", size_threshold=0)
    before = (external / "in" / "w.onnx").read_bytes()
    with pytest.raises(tepid.InputError, match="must not have the name of external data"):
        tepid.onnx.insert("in/n.onnx", T, "in/w.onnx")
    assert (external / "in" / "w.onnx").read_bytes() == before


# --- other people's exporters


def _classical(name, classes, *, zipmap):
    skl2onnx = needed("skl2onnx")
    kinds = {
        "forest": RandomForestClassifier(9, max_depth=5, random_state=0),
        "boosting": GradientBoostingClassifier(n_estimators=3, random_state=0),
        "logistic": LogisticRegression(),
        "mlp": MLPClassifier((8,), max_iter=15, random_state=0),
    }
    rows, labels = make_classification(
        400, n_informative=5, n_classes=classes, flip_y=0.2, random_state=0
    )
    rows = rows.astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = kinds[name].fit(rows, labels)
        model = skl2onnx.to_onnx(fitted, rows[:1], options={id(fitted): {"zipmap": zipmap}})
    Path("m.onnx").write_bytes(model.SerializeToString())
    return fitted, rows, labels


@pytest.mark.parametrize("zipmap", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", ["forest", "boosting", "logistic", "mlp"])
def test_models_of_scikit_learn_keep_their_labels_and_are_calibrated(name, classes, zipmap):
    fitted, rows, _ = _classical(name, classes, zipmap=zipmap)
    head = _insert(temperature=2.0)
    assert head.form == ("activated" if name == "mlp" else "probabilities")
    root = np.sqrt(fitted.predict_proba(rows))
    got = list(_run("out.onnx", X=rows).values())
    np.testing.assert_array_equal(got[0], fitted.predict(rows))
    p = [[row[i] for i in range(classes)] for row in got[1]] if zipmap else got[1]
    _close(p, root / root.sum(axis=1, keepdims=True), 1e-5)


def test_a_forest_is_fitted_on_the_logarithms_of_its_probabilities():
    fitted, rows, labels = _classical("forest", 3, zipmap=True)
    np.save("rows.npy", rows)
    z = np.concatenate(list(tepid.onnx.run("m.onnx", "rows.npy")))
    np.testing.assert_allclose(np.exp(z), fitted.predict_proba(rows), atol=1e-6)
    t = tepid.temperature_scaling(z, labels)
    _insert(temperature=t)
    got = _run("out.onnx", X=rows)["output_probability"]
    _close([[row[i] for i in range(3)] for row in got], t(z))


@pytest.mark.parametrize("end", ["Softmax", "LogSoftmax", "none"])
def test_a_model_exported_by_torch_is_calibrated(end):
    torch = needed("torch")
    torch.manual_seed(0)
    layers = [torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4)]
    network = torch.nn.Sequential(*layers)
    whole = network if end == "none" else torch.nn.Sequential(*layers, getattr(torch.nn, end)(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            whole,
            (torch.zeros(2, 6),),
            "m.onnx",
            dynamo=False,
            input_names=["x"],
            output_names=["y"],
            dynamic_axes={"x": {0: "n"}, "y": {0: "n"}},
        )
    _insert()
    with torch.inference_mode():
        z = network(torch.from_numpy(X)).numpy()
    got = _run("out.onnx")["y"]
    _close(np.exp(got) if end == "LogSoftmax" else got, _softmax(z))
    _close(next(tepid.onnx.run("m.onnx", X)), z, 1e-5)


# --- running


def test_rows_come_in_order_whatever_the_batches_and_files_are(folder):
    _classifier()
    np.save("x.npy", X)
    np.savez("x.npz", x=X, labels=np.zeros(40))
    parts = folder / "parts"
    parts.mkdir()
    np.save(parts / "d.npy", X[32:])
    np.save(parts / "b.npy", X[8:16])
    np.savez(parts / "c.npz", x=X[16:32])
    np.save(parts / "a.npy", X[:8])
    (parts / "notes.txt").write_text("not data")
    for data in (X, {"x": X}, X.tolist(), "x.npy", "x.npz", "x.npz#x", parts, X.astype(np.float64)):
        for batch in (None, 1, 7):
            blocks = list(tepid.onnx.run("m.onnx", data, batch=batch))
            _close(np.concatenate(blocks), X @ W, 1e-5)
            assert batch is None or max(map(len, blocks)) == batch


def test_a_model_of_one_batch_size_gets_it_and_no_row_too_many():
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"])]
    _save(nodes, [_value("z", [16, 4])], inputs=[_value("x", [16, 6])])
    blocks = list(tepid.onnx.run("m.onnx", X))
    assert [len(block) for block in blocks] == [16, 16, 8]
    _close(np.concatenate(blocks), X @ W, 1e-5)


def _two_inputs():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Gather", ["table", "token"], ["e"]),
        helper.make_node("Add", ["h", "e"], ["z"]),
    ]
    inputs = [_value("x", ["n", 6]), _value("token", ["n"], TensorProto.INT64)]
    weights = {"w": W, "table": np.eye(4, dtype=np.float32)}
    return _save(nodes, [_value("z", ["n", 4])], inputs=inputs, weights=weights)


def test_several_inputs_are_taken_by_name():
    _two_inputs()
    token = np.arange(40, dtype=np.int32) % 4
    np.savez("in.npz", token=token, x=X)
    for data in ("in.npz", {"token": token, "x": X}):
        (z,) = tepid.onnx.run("m.onnx", data)
        _close(z, X @ W + np.eye(4)[token], 1e-5)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (X, "data must name the inputs x, token, got one array"),
        ({"x": X}, "data must have the inputs token, got x"),
        ({"x": X, "token": np.zeros(3, int)}, "equally many rows, got 40 for 'x', 3 for 'token'"),
        ({"x": X, "token": X[:, 0]}, "input 'token' must be int64, got float32"),
        ({"x": np.uint8(X), "token": np.zeros(40, int)}, "input 'x' must be float32, got uint8"),
        ({"x": X[:, :5], "token": np.zeros(40, int)}, r"shape \(n, 6\), got \(40, 5\)"),
        ({"x": X[:0], "token": np.zeros(0, int)}, "data must have at least one row, got none"),
        ({"x": X, "token": np.full(40, 9)}, "must run with onnxruntime, got: .*"),
        ("x.npy", r"x.npy must have the members x, token, got one array"),
        ("x.csv", "data must end in .npy or .npz or be a folder of such, got x.csv"),
        ("none.npz", "data must exist, got none.npz"),
        (".", "data must be a folder of .npy or .npz files, got none"),
    ],
)
def test_inputs_that_do_not_fit_the_model_are_refused(data, said, folder):
    (folder / "deep").mkdir()
    _two_inputs()
    with pytest.raises(tepid.InputError, match=said):
        list(tepid.onnx.run("m.onnx", data))


def test_a_batch_must_have_a_row():
    with pytest.raises(tepid.InputError, match="batch must be at least 1, got 0"):
        list(tepid.onnx.run(_classifier(), X, batch=0))


# --- refusals


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"temperature": 0.0}, "temperature must be a number above zero, got 0"),
        ({"temperature": float("nan")}, "temperature must be a number above zero, got nan"),
        ({"temperature": 1e60}, "temperature must be a number that float32 holds, got 1e[+]60"),
        ({"temperature": 1e-60}, "temperature must be a number that float32 holds, got 1e-60"),
        ({"out": "m.onnx"}, "output must not be the model itself"),
        ({"out": "out.json"}, "output must end in .onnx, got out.json"),
        ({"out": "no/out.onnx"}, "output must be in a folder that exists"),
        ({"path": "none.onnx"}, "model must be a file that exists, got none.onnx"),
        (
            {"keep_logits": True},
            "must go with a model that gives logits, got one that ends in Soft",
        ),
    ],
)
def test_what_cannot_be_inserted_is_refused_and_leaves_no_file(options, said, folder):
    _classifier("Softmax")
    before = Path("m.onnx").read_bytes()
    arguments = {"path": "m.onnx", "temperature": T, "out": "out.onnx"} | options
    with pytest.raises(tepid.InputError, match=said):
        tepid.onnx.insert(
            arguments.pop("path"), arguments.pop("temperature"), arguments.pop("out"), **arguments
        )
    assert [p.name for p in folder.iterdir()] == ["m.onnx"]
    assert Path("m.onnx").read_bytes() == before


def test_a_calibration_for_other_classes_is_refused():
    t = tepid.Temperature(T, "uts", samples=9, classes=3, implied_accuracy=0.9)
    with pytest.raises(tepid.InputError, match="must have the 3 classes of the calibration, got 4"):
        tepid.onnx.insert(_classifier(), t, "out.onnx")


def _of(path, content):
    Path(path).write_bytes(content)
    return path


def _integers():
    nodes = [helper.make_node("ArgMax", ["x"], ["label"], axis=1)]
    return _save(nodes, [_value("label", ["n", 1], TensorProto.INT64)], weights={})


def _old():
    model = onnx.load(_classifier())
    model.opset_import[0].version = 6
    return _of("m.onnx", model.SerializeToString())


def _unknown_operator():
    model = onnx.load(_classifier())
    model.graph.node[0].op_type = "Magic"
    return _of("m.onnx", model.SerializeToString())


def _foreign_operator():
    model = onnx.load(_classifier())
    model.graph.node[0].domain = "my.own"
    model.opset_import.append(helper.make_opsetid("my.own", 1))
    return _of("m.onnx", model.SerializeToString())


def _own_softmax():
    """A node that is called Softmax and is none, without any input."""
    nodes = [helper.make_node("Softmax", [], ["z"], domain="my.own")]
    model = onnx.load(_classifier())
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.opset_import.append(helper.make_opsetid("my.own", 1))
    return _of("m.onnx", model.SerializeToString())


def _quantized_softmax():
    """A softmax in integers, which only onnxruntime knows."""
    model = onnx.load(_classifier())
    model.graph.node[0].output[0] = "h"
    model.graph.node.append(helper.make_node("Quant", ["h"], ["q"], domain="com.microsoft"))
    model.graph.node[-1].op_type = "QLinearSoftmax"
    model.graph.node.append(helper.make_node("DequantizeLinear", ["q", "s"], ["z"]))
    model.graph.initializer.append(numpy_helper.from_array(np.float32(1 / 256), "s"))
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return _of("m.onnx", model.SerializeToString())


def _single_number():
    nodes = [helper.make_node("ReduceSum", ["x"], ["z"], keepdims=0)]
    return _save(nodes, [_value("z", [])], weights={})


HOSTILE = {
    "truncated": (
        lambda: _of("m.onnx", Path(_classifier()).read_bytes()[:-30]),
        "m.onnx must be a whole ONNX model",
    ),
    "text": (lambda: _of("m.onnx", b"import numpy\n" * 50), "m.onnx must be a whole ONNX model"),
    "empty": (lambda: _of("m.onnx", b""), "m.onnx must be a whole ONNX model"),
    "zeros": (lambda: _of("m.onnx", bytes(999)), "m.onnx must be a whole ONNX model"),
    "integers": (_integers, "model must have an output of floating-point numbers, got none"),
    "old": (_old, "m.onnx must be of opset 7 or later, got 6"),
    "unknown operator": (_unknown_operator, "must be a valid ONNX model, got: No Op registered"),
    "foreign operator": (_foreign_operator, "output 'z' must be logits or end in Softmax"),
    "a softmax of one's own": (_own_softmax, "output 'z' must be logits or end in Softmax"),
    "quantized softmax": (_quantized_softmax, "got one made by QLinearSoftmax; --probabilities"),
    "single number": (_single_number, "logits 'z' must have one row per sample, got a single num"),
    "two": (_two_headed, "logits must be named, as --logits NAME"),
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("how", ["calibration", "data"])
def test_a_hostile_file_gets_one_sentence_and_touches_nothing(case, how, folder, tepid_here):
    make, said = HOSTILE[case]
    make()
    np.save("x.npy", X)
    tepid.Temperature(T, "uts", samples=9, classes=4, implied_accuracy=0.9).save("c.json")
    _of("out.onnx", b"the old one")
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    given = ["--calibration", "c.json"] if how == "calibration" else ["--data", "x.npy"]
    code, out, err = tepid_here("onnx", "m.onnx", *given, "-o", "out.onnx")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("tepid: ")
    assert said in err
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_a_model_cut_anywhere_is_refused_in_one_line():
    whole = Path(_classifier("Softmax")).read_bytes()
    behind = len(whole) - len(onnx.load("m.onnx").opset_import[0].SerializeToString()) - 2
    for length in range(behind):
        _of("cut.onnx", whole[:length])
        with pytest.raises(tepid.InputError, match=r"\A[^\n]*\Z"):
            tepid.onnx.insert("cut.onnx", T, "out.onnx")
        assert not Path("out.onnx").exists()


def test_damaged_bytes_are_refused_in_one_line_or_give_a_valid_model(rng):
    whole = Path(_classifier("Softmax")).read_bytes()
    told = 0
    for _ in range(300):
        damaged = bytearray(whole)
        place = int(rng.integers(len(whole)))
        damaged[place] = int(rng.integers(256))
        del damaged[place + 1 : place + 1 + int(rng.integers(3))]
        _of("damaged.onnx", bytes(damaged))
        try:
            tepid.onnx.insert("damaged.onnx", T, "out.onnx")
        except tepid.InputError as error:
            told += "\n" not in str(error)
        else:
            onnx.checker.check_model("out.onnx")
            told += 1
    assert told == 300


# --- the command


@pytest.mark.filterwarnings("ignore::tepid.CalibrationWarning")
def test_one_command_leads_from_a_model_to_a_calibrated_model(tepid_here):
    posterior = 20 * RNG.normal(size=(2000, 12))
    labels = (posterior + RNG.gumbel(size=posterior.shape)).argmax(axis=1)
    z = (2 * posterior).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"])]
    inputs, weights = [_value("x", ["n", 12])], {"w": np.eye(12, dtype=np.float32)}
    _save(nodes, [_value("z", ["n", 12])], inputs=inputs, weights=weights)
    np.savez("in.npz", x=z, labels=labels)
    old = 1.3 * z + RNG.normal(size=z.shape)
    np.savez("old.npz", logits=old, labels=labels)
    np.savez("few.npz", logits=z[:80], labels=labels[:80])
    peer = z + 9 * RNG.normal(size=z.shape).astype(np.float32)
    np.save("peer.npy", peer)
    part = np.where(np.arange(2000) < 100, labels, -1)
    np.save("part.npy", part)
    names = [f"class {i}" for i in range(12)]
    Path("names.txt").write_text("\n".join(names))
    lines = [f"{row},{names[labels[row]]}" for row in range(0, 2000, 9)]
    Path("judge.csv").write_text("\n".join(["id,label", *lines]))
    judged = np.where(np.arange(2000) % 9 == 0, labels, -1)
    few = (z[:80], labels[:80])
    given = {
        (): {},
        ("--accuracy", "0.8"): {"accuracy": 0.8},
        ("--accuracy", "90/100"): {"accuracy": tepid.Counted(90, 100)},
        ("--source", "old.npz"): {"source": (old, labels)},
        ("--labeled", "few.npz"): {"labeled": few},
        ("--models", "peer.npy"): {"models": [peer]},
        ("--models", "peer.npy", "--models", "old.npz#logits"): {"models": [peer, old]},
        ("--reference", "peer.npy"): {"reference": peer},
        ("--reference", "judge.csv", "--classes", "names.txt"): {"reference": judged},
        ("--labels", "in.npz#labels"): {"labels": labels},
        ("--labels", "part.npy"): {"labels": part},
        ("--labels", "judge.csv", "--classes", ",".join(names)): {"labels": judged},
        ("--labels", "part.npy", "--accuracy", "0.9±0.01", "--reference", "peer.npy"): {
            "labels": part, "accuracy": (0.9, 0.01), "reference": peer,
        },
    }  # fmt: skip
    evidence = {options: tepid.calibrate(z, **same) for options, same in given.items()}
    answers = [wanted.value for wanted in evidence.values()]
    assert len(set(answers)) == len(answers)  # so that no option can be another's
    for options, wanted in evidence.items():
        code, out, err = tepid_here(
            "onnx", "m.onnx", "--data", "in.npz", *options, "-o", "out.onnx",
            "--save-calibration", "c.json", "--json",
        )  # fmt: skip
        assert (code, err) == (0, "")
        said = json.loads(out)
        assert (said["output"], said["logits"], said["form"]) == ("out.onnx", "z", "logits")
        t = tepid.load("c.json")
        assert t.value == pytest.approx(wanted.value, rel=1e-6)
        assert said["calibration"] == json.loads(json.dumps(t.as_dict()))
        _close(_run("out.onnx", z)["z"], t(z))


def test_a_saved_calibration_gives_what_apply_gives(tepid_here):
    _classifier("Softmax")
    np.save("z.npy", X @ W)
    tepid.Temperature(T, "uts", samples=9, classes=4, implied_accuracy=0.9).save("c.json")
    code, out, _ = tepid_here("onnx", "m.onnx", "-c", "c.json", "-o", "out.onnx")
    assert code == 0
    assert "its logits 'z' are divided by T" in out
    assert tepid_here("apply", "c.json", "z.npy", "-o", "p.npy")[0] == 0
    _close(_run("out.onnx")["p"], np.load("p.npy"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "gave logits and gives calibrated probabilities"),
        (["--keep-logits"], "gives calibrated logits"),
        (["--probabilities"], "its probabilities 'z' are calibrated"),
    ],
)
def test_the_command_says_what_has_changed(options, said, tepid_here):
    _classifier()
    tepid.Temperature(T, "uts", samples=9, classes=4, implied_accuracy=0.9).save("c.json")
    code, out, _ = tepid_here("onnx", "m.onnx", "-c", "c.json", "-o", "out.onnx", *options)
    assert code == 0
    assert said in out


def test_the_command_prints_the_verdict_and_keep_gives_a_plain_softmax(tepid_here):
    _classifier()
    np.save("x.npy", X)
    args = ("onnx", "m.onnx", "--data", "x.npy", "-o", "out.onnx")
    code, out, err = tepid_here(*args, "--save-calibration", "c.json")
    assert code == 0
    assert "verdict: keep. Logits alone do not identify T" in out
    assert "next step: Label 25 random rows" in out
    assert "The model gets T = 1: its probabilities are a plain softmax" in err
    _close(_run("out.onnx")["z"], _softmax(X @ W, 1.0))
    code, out, err = tepid_here("onnx", "m.onnx", "-c", "c.json", "-o", "again.onnx")
    assert code == 0
    assert "verdict: keep." in out
    assert "The model gets T = 1" in err
    _, out, err = tepid_here(*args, "--accuracy", "300/400")
    assert re.search(r"verdict: (use|check)\. T lowers the expected log loss", out)
    assert "plain softmax" not in err
    np.save("z.npy", X @ W)
    noted = tepid_here("apply", "c.json", "z.npy", "-o", "p.npy")[2]
    assert "The verdict on this calibration is keep." in noted


def test_the_temperatures_of_groups_are_not_in_a_model_and_that_is_said(tepid_here):
    _classifier()
    one = tepid.Temperature(T, "uts", samples=9, classes=4, implied_accuracy=0.9)
    several = tepid.Temperature(
        2.0, "uts", samples=9, classes=4, implied_accuracy=0.9, groups={"a": one}
    )
    several.save("c.json")
    code, _, err = tepid_here("onnx", "m.onnx", "-c", "c.json", "-o", "out.onnx")
    assert code == 0
    assert "divides by the T of all rows" in err
    _close(_run("out.onnx")["z"], _softmax(X @ W, 2.0))
    assert "groups" not in tepid.onnx.recorded("out.onnx")["z"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "temperature must come from --calibration or --data, got neither"),
        (["-c", "c.json", "--data", "x.npy"], "--calibration or --data, got both"),
        (["-c", "c.json", "--accuracy", "0.9"], "--accuracy must go with --data"),
        (["-c", "c.json", "--save-calibration", "d.json"], "--save-calibration must go with --dat"),
        (["-c", "c.json", "--models", "x.npy"], "--models must go with --data"),
        (["-c", "c.json", "--classes", "a,b"], "--classes must go with --data"),
        (["--data", "x.npy", "--save-calibration", "d.txt"], "output must end in .json, got d.txt"),
        (["--data", "x.npy", "--accuracy", "193"], "accuracy must be in [0, 1], got 193.0"),
        (["--data", "x.npy", "--reference", "y.npy"], "evidence file must exist, got y.npy"),
        (["--data", "x.npy", "--models", "x.npy"], "model 1 must have the 4 classes of logits"),
        (["--data", "nan.npy"], "logits must be finite, or -inf for a masked class, got nan for"),
        (["--data", "x.npy", "--labels", "x.npy"], "labels must have one entry for each of the 40"),
    ],
)
def test_what_does_not_go_together_is_refused(options, said, folder, tepid_here):
    _classifier()
    np.save("x.npy", X)
    np.save("nan.npy", np.where(np.arange(40)[:, None] == 31, np.nan, X).astype(np.float32))
    tepid.Temperature(T, "uts", samples=9, classes=4, implied_accuracy=0.9).save("c.json")
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    code, out, err = tepid_here("onnx", "m.onnx", *options, "-o", "out.onnx")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert "nan.npy" not in options or "at row 31" in err
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_without_onnx_a_sentence_says_what_to_install(monkeypatch, tepid_here):
    for name in [name for name in sys.modules if name.startswith("tepid.onnx")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(tepid, "onnx", raising=False)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"needs onnx: pip install 'tepid\[onnx\]'"):
        importlib.import_module("tepid.onnx")
    code, _, err = tepid_here("onnx", "m.onnx", "-c", "c.json", "-o", "out.onnx")
    assert code == 2
    assert err == "tepid: tepid.onnx needs onnx: pip install 'tepid[onnx]'\n"


def test_without_onnxruntime_a_model_can_be_changed_but_not_run(monkeypatch):
    _classifier()
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    tepid.onnx.insert("m.onnx", T, "out.onnx")
    with pytest.raises(tepid.InputError, match=r"needs onnxruntime: pip install 'tepid\[onnx"):
        tepid.onnx.run("m.onnx", X)


def test_help_does_not_wait_for_onnx():
    code = (
        "import sys; sys.argv = ['tepid', '--help']\nimport tepid.cli.main as a\n"
        "try:\n    a.main()\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('numpy', 'onnx', 'onnxruntime', 'tepid.onnx') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_example_runs(folder, capsys):
    runpy.run_path(str(ROOT / "examples" / "onnx_calibrate.py"), run_name="__main__")
    said = capsys.readouterr().out
    before, after = (float(v) for v in re.findall(r"ECE \w+: ([\d.]+) %", said))
    assert after < 3
    assert before > 20
    assert list(folder.iterdir()) == []
