"""A temperature inside the weights of a model: `tepid.torch.fold`."""

import copy
import io
import pickle
import warnings

import numpy as np
import pytest

import tepid
from tests.needs import needed

torch = needed("torch")

from torch import nn  # noqa: E402  # only where torch is there
from torch.nn.utils import prune  # noqa: E402

from tepid.torch import Calibrated, Warmup, fold, recorded  # noqa: E402


def _temperature(value=2.0, classes=5, **more):
    return tepid.Temperature(
        value, "labels", samples=9, classes=classes, implied_accuracy=0.5, **more
    )


class Timm(nn.Module):
    """As in timm: features and a head."""

    def __init__(self, classes=5):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.stem(x))).mean(dim=(2, 3)))


@pytest.fixture
def model():
    torch.manual_seed(1)
    made = Timm().eval()
    with torch.no_grad():
        made.head.weight *= 9
    return made


@pytest.fixture
def images():
    return torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(2))


def _state(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def _same(model, state):
    return all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


@torch.no_grad()
def _logits(model, *inputs):
    return model(*inputs)


def _close(found, expected, rtol=2e-6):
    largest = float(expected.abs().max())
    torch.testing.assert_close(found, expected, rtol=0, atol=rtol * largest)


# The division.


@pytest.mark.parametrize("t", [0.3, 1.7, _temperature(2.3)])
@pytest.mark.parametrize("given", [False, True])
def test_the_logits_of_a_folded_model_are_divided(model, images, t, given):
    before, state = _logits(model, images), _state(model)
    folded = fold(model, t, "head", batch=(images, None) if given else None)
    assert folded is not model
    assert type(folded) is Timm
    _close(_logits(folded, images), before / float(t))
    assert _same(model, state)
    assert recorded(folded) == {"head": float(t)}
    assert recorded(model) == {}


def test_in_place_the_parameters_stay_the_same_objects(model, images):
    before, head = _logits(model, images), model.head.weight
    assert fold(model, 2.5, "head", inplace=True) is model
    assert model.head.weight is head
    assert head.requires_grad
    _close(_logits(model, images), before / 2.5)


def test_the_state_of_a_folded_model_loads_strictly_into_a_plain_one(model, images):
    folded = fold(model, _temperature(2.0))
    fresh = Timm().eval()
    fresh.load_state_dict(folded.state_dict(), strict=True)
    assert torch.equal(_logits(fresh, images), _logits(folded, images))
    assert folded.state_dict().keys() == model.state_dict().keys()


def test_modes_and_random_numbers_are_as_before(images):
    class Random(Timm):
        def forward(self, x):
            return super().forward(x + 0.1 * torch.rand(()))

    made = Random().train()
    made.norm.eval()
    state, random = _state(made), torch.get_rng_state()
    folded = fold(made, 2.0, batch=images)
    assert torch.equal(torch.get_rng_state(), random)
    assert [m.training for m in folded.modules()] == [m.training for m in made.modules()]
    assert folded.training
    assert not folded.norm.training
    assert _same(made, state)


# The record.


@pytest.mark.slow
@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), fold])
def test_folding_again_replaces_the_temperature(model, images, again):
    before = _logits(model, images)
    folded = fold(model, _temperature(1.7), batch=images)
    folded = fold(folded, 1.7) if again is fold else again(folded)
    _close(_logits(folded, images), before / 1.7)
    twice = fold(folded, 0.6, batch=images)
    _close(_logits(twice, images), before / 0.6)
    assert recorded(twice) == {"head": 0.6}
    restored = fold(twice, 1.0, batch=images)
    for name, value in restored.state_dict().items():
        torch.testing.assert_close(value, model.state_dict()[name], rtol=3 * 2**-24, atol=0)
    assert recorded(restored) == {}


@pytest.mark.parametrize(("dtype", "unit"), [("float16", 2**-11), ("bfloat16", 2**-8)])
def test_each_fold_rounds_once_in_half_precision(model, dtype, unit):
    half = copy.deepcopy(model).to(getattr(torch, dtype))
    original = half.head.weight.detach().double()
    values = [1.3, 0.7, 2.9, 1.1]
    for count, value in enumerate(values, 1):
        fold(half, value, "head", inplace=True)
        found = half.head.weight.detach().double() * value
        # 0.1 % for products of roundings, and for float16 below its normal range.
        allowed = 1.001 * count * unit * original.abs() + 2**-24
        assert bool(((found - original).abs() <= allowed).all())
    once = fold(copy.deepcopy(model).to(getattr(torch, dtype)), 1.3, "head")
    torch.testing.assert_close(
        once.head.weight, (original / 1.3).to(getattr(torch, dtype)), rtol=0, atol=0
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_a_batch_verifies_every_precision(model, images, dtype):
    wanted = getattr(torch, dtype)
    small, batch = copy.deepcopy(model).to(wanted), images.to(wanted)
    folded = fold(small, 1.7, batch=batch)
    eps = torch.finfo(wanted).eps
    _close(_logits(folded, batch), _logits(small, batch) / 1.7, rtol=8 * eps)


def test_the_verdict_keep_changes_nothing():
    tied = nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 5))  # ambiguous, and not asked about
    state = _state(tied)
    kept = fold(tied, _temperature(1.0, verdict="keep"))
    assert _same(kept, state)
    assert recorded(kept) == {}


def test_other_weights_under_an_old_record_are_refused(model):
    state = _state(model)
    folded = fold(model, 2.0, "head")
    folded.load_state_dict(state)
    said = "must have the weights that T = 2 was folded into, got others"
    with pytest.raises(tepid.InputError, match=said):
        fold(folded, 3.0)
    with pytest.raises(tepid.InputError, match=said):
        recorded(folded)
    del folded.head.tepid_fold
    assert recorded(fold(folded, 3.0, "head")) == {"head": 3.0}


def test_a_cast_to_half_precision_keeps_the_record(model):
    assert recorded(fold(model, 2.0, "head").bfloat16()) == {"head": 2.0}


# The layer.


def test_the_only_layer_with_one_output_per_class_is_found(model):
    assert recorded(fold(model, _temperature())) == {"head": 2.0}
    binary = Timm(classes=1).eval()
    assert recorded(fold(binary, _temperature(classes=2))) == {"head": 2.0}
    assert recorded(fold(nn.Linear(4, 3), 2.0)) == {"": 2.0}


def test_a_block_that_tells_its_outputs_is_no_layer():
    block = nn.Sequential(nn.Linear(4, 3))
    block.out_features = 3
    assert recorded(fold(nn.Sequential(block), _temperature(classes=3))) == {"0.0": 2.0}


@pytest.mark.parametrize("layer", ["head", lambda m: m.head])
def test_a_layer_is_a_name_or_a_module(model, layer):
    wanted = layer if isinstance(layer, str) else layer(model)
    assert recorded(fold(model, 2.0, wanted)) == {"head": 2.0}
    assert recorded(model) == {}


@pytest.mark.parametrize(
    ("t", "said"),
    [
        (_temperature(classes=8), "2 layers have 8 outputs, 'wide' .Linear., 'same' .Linear."),
        (2.0, "3 layers have outputs to divide, .*'head' .Linear."),
        (_temperature(classes=7), "no linear layer and no convolution has 7 outputs"),
    ],
)
def test_an_ambiguous_layer_is_refused_with_the_candidates(t, said):
    model = nn.Sequential()
    for name, width in (("wide", 8), ("same", 8), ("head", 5)):
        model.add_module(name, nn.Linear(8, width))
    with pytest.raises(tepid.InputError, match=said):
        fold(model, t)


class Heads(nn.Module):
    """Two heads; the second is for training."""

    def __init__(self, mode):
        super().__init__()
        self.head, self.auxiliary, self.mode = nn.Linear(4, 3), nn.Linear(4, 3), mode
        self.embedding = nn.Linear(4, 4)

    def forward(self, x):
        x = torch.relu(self.embedding(x))
        z = self.head(x)
        if self.mode == "mean":
            return (z + self.auxiliary(x)) / 2
        return {"logits": z, "auxiliary": self.auxiliary(x)} if self.mode == "both" else z


@pytest.mark.parametrize("mode", ["one", "both"])
@pytest.mark.parametrize("t", [2.0, _temperature(classes=3)])
def test_a_batch_shows_which_candidate_gives_the_logits(mode, t):
    torch.manual_seed(0)
    model, x = Heads(mode).eval(), torch.randn(7, 4)
    assert recorded(fold(model, t, batch=x)) == {"head": 2.0}
    if mode == "both":
        found = fold(model, t, batch=x, output="auxiliary")
        assert recorded(found) == {"auxiliary": 2.0}
        second = fold(found, 3.0, "head", batch=[x])
        assert recorded(second) == {"head": 3.0, "auxiliary": 2.0}


def test_two_heads_whose_mean_is_taken_are_refused():
    model, x = Heads("mean"), torch.randn(7, 4)
    state = _state(model)
    with pytest.raises(tepid.InputError, match="divided by none of the candidates 'head'"):
        fold(model, _temperature(classes=3), batch=x, inplace=True)
    assert _same(model, state)


def test_the_last_of_the_layers_that_divide_the_logits_is_taken():
    layers = [nn.Linear(3, 3, bias=False), nn.ReLU(), nn.Linear(3, 3, bias=False)]
    found = fold(nn.Sequential(*layers), 2.0, batch=torch.randn(9, 3))
    assert recorded(found) == {"2": 2.0}


@pytest.mark.parametrize(
    ("head", "shape"),
    [
        (nn.Conv2d(6, 4, 1), (2, 6, 5, 5)),
        (nn.Conv1d(6, 4, 3), (2, 6, 9)),
        (nn.Conv3d(6, 4, 1, bias=False), (2, 6, 3, 3, 3)),
        (nn.ConvTranspose2d(6, 4, 2, stride=2), (2, 6, 4, 4)),
    ],
)
def test_a_convolution_is_a_head_too(head, shape):
    class Segmenting(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = head

        def forward(self, image):
            z = self.head(image)
            if z.ndim == 4:
                z = nn.functional.interpolate(z, scale_factor=2, mode="bilinear")
            return {"out": z}

    model, x = Segmenting(), torch.randn(shape)
    folded = fold(model, _temperature(1.7, classes=4), batch={"image": x}, output="out")
    _close(_logits(folded, x)["out"], _logits(model, x)["out"] / 1.7)


def test_a_custom_forward_runs_other_batches(model, images):
    folded = fold(model, 2.0, batch={"a": images}, forward=lambda m, b: (m(b["a"]), "more"))
    assert recorded(folded) == {"head": 2.0}


# What is refused.


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lm_head = nn.Embedding(9, 4), nn.Linear(4, 9, bias=False)
        self.lm_head.weight = self.embedding.weight

    def forward(self, x):
        return self.lm_head(self.embedding(x))


def test_tied_weights_are_refused():
    said = "layer 'lm_head' must have weights of its own, got weights shared with 'embedding'"
    for options in ({}, {"batch": torch.arange(9)}):
        model = Tied()
        state = _state(model)
        with pytest.raises(tepid.InputError, match=said):
            fold(model, _temperature(classes=9), inplace=True, **options)
        assert _same(model, state)


@pytest.mark.parametrize(
    "after", [nn.Tanh(), nn.BatchNorm1d(3), nn.LogSoftmax(dim=1), nn.Hardtanh(-0.2, 0.2)]
)
def test_a_layer_that_something_follows_is_refused_and_restored(after):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 3), after), torch.randn(8, 4)
    with torch.no_grad():
        if isinstance(after, nn.BatchNorm1d):
            after.running_mean += 1
    state = _state(model)
    with pytest.raises(tepid.InputError, match="layer '0' must give the logits: they are not halv"):
        fold(model, _temperature(classes=3), batch=x, inplace=True)
    assert _same(model, state)
    assert recorded(model) == {}


def test_an_error_of_the_model_leaves_the_weights(model, images):
    runs = []

    def forward(given, batch):
        runs.append(1)
        if len(runs) == 3:
            raise RuntimeError("the third run")
        return given(batch)

    state = _state(model)
    with pytest.raises(RuntimeError, match="the third run"):
        fold(model, 2.0, "head", batch=images, forward=forward, inplace=True)
    assert _same(model, state)
    assert recorded(model) == {}


def test_computed_weights_are_refused():
    new = nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))
    spectral = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old = nn.utils.weight_norm(nn.Linear(4, 3))
    pruned = prune.l1_unstructured(nn.Linear(4, 3), "weight", 2)
    for layer in (new, spectral, old, pruned):
        with pytest.raises(tepid.InputError, match="layer '0' must hold its weight itself"):
            fold(nn.Sequential(layer), 2.0, inplace=True)


def test_a_layer_with_a_forward_of_its_own_needs_a_batch():
    class Cosine(nn.Linear):
        def forward(self, x):
            return nn.functional.linear(x, nn.functional.normalize(self.weight, dim=1))

    model, x = nn.Sequential(Cosine(4, 3, bias=False)), torch.randn(5, 4)
    with pytest.raises(
        tepid.InputError, match="batch must be given for layer '0', whose class Cos"
    ):
        fold(model, 2.0)
    with pytest.raises(tepid.InputError, match="layer '0' must give the logits"):
        fold(model, 2.0, batch=x)

    class Noted(nn.Linear):
        def forward(self, x):
            return super().forward(x)

    assert recorded(fold(nn.Sequential(Noted(4, 3)), 2.0, batch=x)) == {"0": 2.0}


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")  # of torch 2.2
def test_what_cannot_be_folded_is_named(model, images):
    with torch.device("meta"):
        nowhere = nn.Linear(4, 3)
    half = copy.deepcopy(model).half()
    cases = [
        ((5, 2.0), {}, "model must be a torch.nn.Module, got int"),
        ((model,), {}, "t must be given, or the model must be a Calibrated one, got none"),
        ((Calibrated(model, _temperature()), 2.0), {}, "Calibrated one, got both"),
        ((Warmup(model), 2.0), {}, "got a Warmup; pass warmup.calibrated"),
        ((model, 0), {}, "t must be a number above zero, got 0"),
        ((model, float("nan")), {}, "t must be a number above zero, got nan"),
        ((model, "2"), {}, "t must be a number, got '2'"),
        ((model, 2.0, "nose"), {}, "got 'nose'; its layers: 'stem' .Conv2d., 'head' .Linear."),
        ((model, 2.0, nn.Linear(8, 5)), {}, "must be a layer of the model, got Linear"),
        ((model, 2.0, "norm"), {}, "'norm' must be linear or a convolution, got BatchNorm2d"),
        ((nowhere, 2.0), {}, "plain floating-point weights in memory, got a Parameter of .* on me"),
        ((nn.LazyLinear(3), 2.0), {}, "plain floating-point weights in memory, got a Uninit"),
        ((half, 1e9, "head"), {}, "in the range of torch.float16, got a division by 1e.09"),
        ((half, 1e-9, "head"), {}, "in the range of torch.float16"),
        ((model, 2.0), {"batch": images[:0]}, "not all zero, got shape .0, 5. without any"),
    ]
    for args, options, said in cases:
        with pytest.raises(tepid.InputError, match=said):
            fold(*args, **options)


def test_groups_are_refused(model):
    t = _temperature(groups={"a": _temperature(1.0), "b": _temperature(3.0)})
    for args in ((model, t), (Calibrated(model, t),)):
        with pytest.raises(tepid.InputError, match="one with the groups 'a', 'b'; a model does"):
            fold(*args)


def test_one_temperature_for_all_labels_is_folded_and_one_for_each_is_not():
    known = {"samples": 9, "classes": 2, "implied_accuracy": 0.8, "label_names": tuple("abcde")}
    model = nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 5))
    x = torch.randn(7, 4)
    t = tepid.Temperature(2.0, "labels", **known)
    _close(fold(model, t)(x).detach(), model(x).detach() / 2)
    each = {
        name: tepid.Temperature(3.0, "labels", **known | {"label_names": ()}) for name in "abcde"
    }
    t = tepid.Temperature(2.0, "labels", **known, groups=each)
    for args in ((model, t), (Calibrated(model, t),)):
        with pytest.raises(tepid.InputError, match="one temperature for all labels, got one for"):
            fold(*args)


# Wrappers.


def test_a_calibrated_model_folds_its_own_temperature(model, images):
    calibrated = Calibrated(model, _temperature(1.7))
    expected = _logits(calibrated, images)
    folded = fold(calibrated, batch=images)
    assert type(folded) is Timm
    _close(_logits(folded, images), expected)
    _close(_logits(calibrated, images), expected)
    fold(calibrated, inplace=True)
    _close(_logits(calibrated, images), expected)  # it divides by 1 from here on
    again = fold(calibrated, batch=images)
    _close(_logits(again, images), expected)


def test_a_temperature_of_a_folded_models_outputs_is_multiplied(model, images):
    first = fold(model, 1.7, "head")
    calibrated = Calibrated(first, _temperature(2.0))
    folded = fold(calibrated, batch=images)
    _close(_logits(folded, images), _logits(model, images) / 3.4)
    assert recorded(folded) == {"head": pytest.approx(3.4)}


@pytest.mark.slow
def test_wrappers_are_taken_off(model, images):
    expected = _logits(model, images) / 2
    for wrapped in (torch.compile(model, backend="eager"), nn.DataParallel(model)):
        folded = fold(wrapped, _temperature(), batch=images)
        assert type(folded) is Timm
        _close(_logits(folded, images), expected)


# Deployment: the same probabilities everywhere.


@pytest.mark.slow
def test_folded_wrapped_exported_and_compiled_models_agree(model, images, tmp_path):
    onnxruntime = needed("onnxruntime")
    t = _temperature(1.7)
    expected = t(_logits(model, images).numpy())
    folded = fold(model, t, batch=images)

    def exported(network, name):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the older exporter, which needs no package more
            torch.onnx.export(
                network, (images,), tmp_path / name, dynamo=False,
                input_names=["x"], output_names=["z"],
            )  # fmt: skip
        return tmp_path / name

    def run(path):
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return torch.from_numpy(session.run(["z"], {"x": images.numpy()})[0])

    tepid.onnx.insert(exported(model, "plain.onnx"), t, tmp_path / "inserted.onnx")
    program = torch.export.export(folded, (images,))
    found = {
        "folded": _logits(folded, images).softmax(dim=1),
        "wrapped": Calibrated(model, t).probabilities(images).detach(),
        "onnx of folded": run(exported(folded, "folded.onnx")).softmax(dim=1),
        "onnx inserted": run(tmp_path / "inserted.onnx"),
        "compiled": _logits(torch.compile(folded, backend="eager"), images).softmax(dim=1),
        "export": _logits(program.module(), images).softmax(dim=1),
    }
    for name, probabilities in found.items():
        np.testing.assert_allclose(probabilities.numpy(), expected, atol=1e-6, err_msg=name)


def test_a_compiled_model_sees_a_fold_in_place(model, images):
    compiled = torch.compile(model, backend="eager")
    before = _logits(compiled, images)
    fold(compiled, 2.0, "head", inplace=True)
    _close(_logits(compiled, images), before / 2)


def test_a_folded_model_is_quantized_and_a_quantized_one_not_folded(model, images):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.ao is to move to another package
        quantize = torch.ao.quantization.quantize_dynamic
        plain, folded = (
            quantize(m, {nn.Linear}, dtype=torch.qint8) for m in (model, fold(model, 2.0, "head"))
        )
        # Weights that are halved have the same integers with half the scale.
        _close(_logits(folded, images), _logits(plain, images) / 2)
        assert recorded(folded) == {}
        with pytest.raises(tepid.InputError, match="layer 'head' must not be quantized; fold fir"):
            fold(plain, _temperature())


def test_a_saved_model_keeps_its_record(model, images):
    file = io.BytesIO()
    torch.save(fold(model, 1.7, "head"), file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert recorded(loaded) == {"head": 1.7}
    _close(_logits(fold(loaded, 3.0), images), _logits(model, images) / 3)


# Hugging Face.


@pytest.fixture(scope="module")
def text():
    return pytest.importorskip("tests.text_classifier")


@pytest.mark.slow
def test_a_folded_model_works_in_a_pipeline_and_records_its_temperature(text, tmp_path, rng):
    model, tokenizer = text.model(), text.tokenizer()
    sentences = text.texts(20, rng)
    batch = tokenizer(sentences, padding=True, return_tensors="pt")
    with torch.no_grad():
        before = model(**batch).logits
    t = _temperature(1.7, classes=3)
    folded = fold(model, t, batch=batch)
    assert recorded(folded) == {"classifier": 1.7}
    folded.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    assert recorded(loaded) == {"classifier": 1.7}
    assert recorded(model) == {}

    def answers(network):
        pipe = text.transformers.pipeline(
            "text-classification", model=network, tokenizer=tokenizer, top_k=None
        )
        rows = pipe(sentences)
        ordered = [{entry["label"]: entry["score"] for entry in row} for row in rows]
        return np.array([[row[f"LABEL_{k}"] for k in range(3)] for row in ordered])

    np.testing.assert_allclose(answers(folded), t(before.numpy()), atol=1e-6)
    np.testing.assert_allclose(answers(loaded), t(before.numpy()), atol=1e-6)
    again = fold(loaded, _temperature(0.8, classes=3), batch=batch)
    with torch.no_grad():
        _close(again(**batch).logits, before / 0.8)
    restored = fold(again, 1.0)
    restored.save_pretrained(tmp_path / "restored")
    assert recorded(type(model).from_pretrained(tmp_path / "restored")) == {}
    assert "tepid" not in (tmp_path / "restored" / "config.json").read_text()


def test_a_configuration_of_a_folded_model_does_not_make_others_folded(text):
    folded = fold(text.model(), _temperature(3.0, classes=3))
    fresh = text.transformers.BertForSequenceClassification(folded.config)
    with torch.no_grad():
        fresh.classifier.weight *= 5
    with pytest.raises(tepid.InputError, match="delete tepid_fold of the layer and of the model's"):
        fold(fresh, 2.0, "classifier")


def test_tied_language_models_are_refused_and_others_folded(text):
    config = {"vocab_size": 30, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 16}
    tokens = {"input_ids": torch.arange(12).reshape(2, 6)}
    t = _temperature(2.0, classes=30)
    tied = text.transformers.GPT2LMHeadModel(text.transformers.GPT2Config(**config))
    with pytest.raises(tepid.InputError, match=r"'lm_head' must have .* with 'transformer.wte'"):
        fold(tied, t, batch=tokens)
    free = text.transformers.GPT2LMHeadModel(
        text.transformers.GPT2Config(**config, tie_word_embeddings=False)
    ).eval()
    folded = fold(free, t, batch=tokens)
    with torch.no_grad():
        _close(folded(**tokens).logits, free(**tokens).logits / 2)


def test_a_head_that_runs_over_all_tokens_is_found(text):
    config = text.transformers.GPT2Config(
        vocab_size=30, n_embd=8, n_layer=1, n_head=2, n_positions=16, num_labels=3, pad_token_id=0
    )
    torch.manual_seed(0)
    model = text.transformers.GPT2ForSequenceClassification(config).eval()
    tokens = {"input_ids": torch.arange(12).reshape(2, 6)}
    folded = fold(model, 2.0, batch=tokens)
    assert recorded(folded) == {"score": 2.0}
    with torch.no_grad():
        _close(folded(**tokens).logits, model(**tokens).logits / 2)
