"""Hugging Face data for `tepid.torch.calibrate`: data sets, tokenizers and predictions."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

import tepid
from tests.needs import needed

torch = needed("torch")
datasets = needed("datasets")

from torch import nn  # noqa: E402  # only where torch is there

from tepid.torch import Calibrated, calibrate  # noqa: E402
from tests import text_classifier as text  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::tepid.torch.CalibrationWarning"),
]

ROWS = 300


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small models are slower on several threads, and much slower on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tokenizer():
    return text.tokenizer()


@pytest.fixture(scope="module")
def model():
    return text.model()


@pytest.fixture(scope="module")
def sentences():
    return text.texts(ROWS, np.random.default_rng(5))


@pytest.fixture(scope="module")
def logits(model, tokenizer, sentences):
    with torch.no_grad():
        return model(**tokenizer(sentences, padding=True, return_tensors="pt")).logits


@pytest.fixture(scope="module")
def labels(logits):
    """Drawn at T = 3."""
    generator = torch.Generator().manual_seed(6)
    return torch.multinomial((logits / 3).softmax(dim=1), 1, generator=generator)[:, 0].tolist()


@pytest.fixture
def data(tokenizer, sentences, labels):
    """Tokenized rows of different lengths, with their texts and labels."""
    encoded = dict(tokenizer(sentences))
    return datasets.Dataset.from_dict({"text": sentences, **encoded, "label": labels})


def _value(calibrated):
    assert isinstance(calibrated, Calibrated)
    return calibrated.calibration.value


# Two paddings round the logits differently.
def _expected(logits, *args, **options):
    return pytest.approx(tepid.calibrate(logits, *args, **options).value, rel=1e-4)


# Data sets.


@pytest.mark.parametrize("spill", [False, True])
@pytest.mark.parametrize("collator", [False, True])
def test_a_data_set_is_batched_and_padded(model, tokenizer, data, logits, spill, collator):
    pad = text.transformers.DataCollatorWithPadding(tokenizer) if collator else tokenizer
    found = calibrate(model, data, collate=pad, accuracy=0.7, spill=spill)
    assert _value(found) == _expected(logits, accuracy=0.7)
    assert found.calibration.samples == ROWS
    assert found.model is model


def test_labels_of_a_data_set_are_used_only_if_they_are_wanted(
    model, tokenizer, data, logits, labels
):
    found = calibrate(model, data, labels=True, collate=tokenizer)
    assert _value(found) == _expected(logits, labels)
    wrong = data.remove_columns("label").add_column("label", ["no number"] * ROWS)
    found = calibrate(model, wrong, collate=tokenizer, accuracy=0.7)
    assert _value(found) == _expected(logits, accuracy=0.7)
    with pytest.raises(tepid.InputError, match=r"labels must be the numbers .* 'no number' at row"):
        calibrate(model, wrong, labels=True, collate=tokenizer)
    with pytest.raises(tepid.InputError, match="labels among the keywords, got neither"):
        calibrate(model, data.remove_columns("label"), labels=True, collate=tokenizer)


@pytest.mark.parametrize("unknown", [-1, -100, None])
def test_unknown_labels_have_every_mark_of_theirs(model, tokenizer, data, logits, labels, unknown):
    few = [*labels[:40], *[unknown] * (ROWS - 40)]
    part = data.remove_columns("label").add_column("labels", few)
    found = calibrate(model, part, labels=True, collate=tokenizer)
    assert _value(found) == _expected(logits, [*labels[:40], *[-1] * (ROWS - 40)])


@pytest.mark.parametrize("kind", ["int64", "int16", "uint8"])
def test_ignored_labels_of_a_plain_loader_are_unknown(network, kind):
    z, y = network[0][:500], network[1][:500]
    marked = np.where(np.arange(500) < 100, y, -1)
    given = y if kind == "uint8" else np.where(marked < 0, -100, y)
    batches = [(torch.from_numpy(z), torch.from_numpy(given.astype(kind)))]
    found = calibrate(nn.Identity(), batches, labels=True)
    assert _value(found) == pytest.approx(
        tepid.calibrate(z, y if kind == "uint8" else marked).value, rel=1e-9
    )


def test_labeled_and_older_sets_may_be_data_sets_too(model, tokenizer, data, logits, labels):
    options = {"labeled": data.select(range(60)), "source": data.select(range(60, 260))}
    found = calibrate(model, data.remove_columns("label"), collate=tokenizer, **options)
    expected = _expected(
        logits, labeled=(logits[:60], labels[:60]), source=(logits[60:260], labels[60:260])
    )
    assert _value(found) == expected


def test_other_models_run_on_the_batches_of_a_data_set(model, tokenizer, data, logits, sentences):
    torch.manual_seed(3)
    other = text.transformers.BertForSequenceClassification(model.config).eval()
    with torch.no_grad():
        rival = other(**tokenizer(sentences, padding=True, return_tensors="pt")).logits
    found = calibrate(model, data, models=[other], collate=tokenizer)
    assert _value(found) == _expected(logits, models=[rival])


def test_a_padded_data_set_needs_no_collator(model, tokenizer, sentences, logits):
    encoded = dict(tokenizer(sentences, padding=True))
    plain = datasets.Dataset.from_dict(encoded)
    for data in (plain, plain.with_format("torch"), plain.with_format("numpy")):
        assert _value(calibrate(model, data, accuracy=0.7)) == _expected(logits, accuracy=0.7)


def test_a_stream_and_a_transform_are_read(model, tokenizer, data, sentences, logits):
    expected = _expected(logits, accuracy=0.7)
    stream = data.to_iterable_dataset()
    for given in (stream, stream.with_format("torch")):
        assert _value(calibrate(model, given, accuracy=0.7, collate=tokenizer)) == expected
    texts = datasets.Dataset.from_dict({"text": sentences})
    lazy = texts.with_transform(lambda rows: dict(tokenizer(rows["text"])))
    assert _value(calibrate(model, lazy, accuracy=0.7, collate=tokenizer)) == expected


def test_a_compiled_model_gets_the_columns_that_it_takes(model, tokenizer, data, logits):
    compiled = torch.compile(model, backend="eager")
    found = calibrate(compiled, data, collate=tokenizer, accuracy=0.7)
    assert _value(found) == _expected(logits, accuracy=0.7)


def test_a_custom_forward_gets_the_columns(model, tokenizer, data, logits):
    seen = []

    def forward(network, batch):
        seen.append(set(batch))
        return network(**batch).logits

    found = calibrate(model, data, forward=forward, collate=tokenizer, accuracy=0.7)
    assert _value(found) == _expected(logits, accuracy=0.7)
    assert seen[0] - {"token_type_ids"} == {"input_ids", "attention_mask"}  # transformers before 5


def test_a_model_that_takes_any_keyword_gets_all_columns_of_numbers():
    class Any(nn.Module):
        def forward(self, **columns):
            return 9 * columns["pixels"]

    pixels = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    data = datasets.Dataset.from_dict({"pixels": pixels, "label": [0] * 200})
    found = calibrate(Any(), data, accuracy=0.7)
    assert _value(found) == pytest.approx(tepid.calibrate(9 * pixels, accuracy=0.7).value, rel=1e-6)


def test_tokens_have_labels_of_their_own(tokenizer, sentences):
    torch.manual_seed(0)
    config = text.model().config
    config.num_labels = 4
    model = text.transformers.BertForTokenClassification(config).eval()
    encoded = dict(tokenizer(sentences))
    tags = [[-100 if i == 0 else t % 4 for i, t in enumerate(row)] for row in encoded["input_ids"]]
    data = datasets.Dataset.from_dict({**encoded, "labels": tags})
    collator = text.transformers.DataCollatorForTokenClassification(tokenizer)
    found = calibrate(
        model,
        data,
        labels=lambda batch: batch["labels"][batch["attention_mask"].bool()],
        forward=lambda m, b: m(input_ids=b["input_ids"], attention_mask=b["attention_mask"]).logits[
            b["attention_mask"].bool()
        ],
        collate=collator,
    )
    with torch.no_grad():
        rows = [model(input_ids=torch.tensor([row])).logits[0] for row in encoded["input_ids"]]
    known = np.concatenate(tags)
    expected = _expected(torch.cat(rows), np.where(known == -100, -1, known))
    assert _value(found) == expected
    assert found.calibration.samples == len(known)


# Outputs of tokenizers.


@pytest.mark.parametrize("kind", ["pt", "np", None])
def test_the_output_of_a_tokenizer_is_split_into_batches(
    model, tokenizer, sentences, logits, labels, kind
):
    sizes = []
    encoded = tokenizer(sentences, padding=True, return_tensors=kind)
    hook = model.register_forward_pre_hook(
        lambda _, __, given: sizes.append(len(given["input_ids"])), with_kwargs=True
    )
    try:
        found = calibrate(model, encoded, accuracy=0.7)
    finally:
        hook.remove()
    assert _value(found) == _expected(logits, accuracy=0.7)
    assert 1 < max(sizes) < ROWS
    encoded["labels"] = labels
    assert _value(calibrate(model, encoded, labels=True)) == _expected(logits, labels)
    assert _value(calibrate(model, encoded, accuracy=0.7)) == _expected(logits, accuracy=0.7)


def test_rows_of_different_lengths_are_padded_by_the_tokenizer(model, tokenizer, sentences, logits):
    encoded = tokenizer(sentences)
    found = calibrate(model, encoded, accuracy=0.7, collate=tokenizer)
    assert _value(found) == _expected(logits, accuracy=0.7)
    with pytest.raises(tepid.InputError, match=r"'input_ids', must have rows .* collate=tokenizer"):
        calibrate(model, encoded)


# Predictions.


def _prediction(predictions, label_ids=None):
    return text.transformers.trainer_utils.PredictionOutput(predictions, label_ids, {})


def test_predictions_need_no_run_of_the_model(logits, labels):
    class Unused(nn.Module):
        def forward(self):
            raise AssertionError("the model was run")

    model, z, y = Unused(), logits.numpy(), np.array(labels)
    exact = tepid.calibrate(z, y).value
    for given in (_prediction(z, y), _prediction((z, "hidden"), y)):
        found = calibrate(model, given, labels=True)
        assert found.model is model
        assert _value(found) == pytest.approx(exact, rel=1e-9)
    found = calibrate(model, _prediction(z, y), accuracy=0.7)
    assert found.calibration.evidence.keys() == {"logits", "accuracy"}
    few = np.where(np.arange(ROWS) < 30, y, -100)
    found = calibrate(model, _prediction(z), labeled=_prediction(z[:30], y[:30]))
    expected = tepid.calibrate(z, labeled=(z[:30], y[:30])).value
    assert _value(found) == pytest.approx(expected, rel=1e-9)
    found = calibrate(model, _prediction(z, few), labels=True)
    known = np.where(few < 0, -1, few)
    assert _value(found) == pytest.approx(tepid.calibrate(z, known).value, rel=1e-9)


def test_the_trainer_predicts_what_calibrate_would(
    model, tokenizer, data, logits, labels, tmp_path
):
    needed("accelerate")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pinned memory without a GPU
        trainer = text.transformers.Trainer(
            model=model,
            args=text.transformers.TrainingArguments(tmp_path, report_to=[], use_cpu=True),
            data_collator=text.transformers.DataCollatorWithPadding(tokenizer),
        )
        predicted = trainer.predict(data)
    found = calibrate(model, predicted, labels=True)
    assert _value(found) == _expected(logits, labels)


def test_places_that_the_trainer_filled_up_are_no_rows():
    rng = np.random.default_rng(1)
    z = rng.normal(size=(60, 7, 4)).astype(np.float32) * 4
    y = rng.integers(4, size=(60, 7))
    ends = rng.integers(2, 8, size=60)
    there = np.arange(7) < ends[:, None]
    z[~there], y[~there] = -100, -100
    found = calibrate(nn.Identity(), _prediction(z, y), labels=True, class_axis=-1)
    assert found.calibration.samples == there.sum()
    assert _value(found) == pytest.approx(tepid.calibrate(z[there], y[there]).value, rel=1e-9)


# What is refused, and what is not imported.


def test_what_cannot_be_used_is_named(model, tokenizer, data, sentences, logits):
    plain = datasets.Dataset.from_dict({"text": sentences, "label": [0] * ROWS})
    z = logits.numpy()
    uneven = {"input_ids": [[1], [2]], "attention_mask": [[1]]}
    cases = [
        (plain, {}, r"a column that the model takes \(input_ids, .* got text, label; tokenize"),
        ({}, {}, r"a column that the model takes .* got none"),
        (datasets.DatasetDict(train=data, test=data), {}, "one split .* with 'train', 'test'"),
        (data, {}, "rows of one length, or collate=tokenizer must pad them, got .* at row"),
        (uneven, {}, "loader must have columns of one length, got"),
        ({"input_ids": 5}, {}, "column 'input_ids', must have one entry per row, got int"),
        ({"input_ids": ["a"]}, {}, "column 'input_ids', must hold numbers, got 'a' at row 0"),
        (data, {"collate": "tokenizer"}, "collate must be a function, got str"),
        (data, {"collate": lambda rows: rows}, "collate must return a mapping, got list"),
        ([logits], {"collate": tokenizer}, "with a Dataset or a tokenizer's output, got list"),
        (data.select([]), {"collate": tokenizer}, "must have at least one row, got none"),
        (_prediction(z.argmax(axis=1)), {}, "must have logits as its predictions, got torch.int"),
        (_prediction(z), {"labels": True}, "got neither"),
        (_prediction(z), {"models": [model]}, "model 1 must not be a module for a result of"),
        (_prediction(z), {"reference": model}, "reference must not be a module for a result of"),
        (data, {"collate": tokenizer, "labeled": plain}, "labeled must have a column that"),
    ]
    for given, options, said in cases:
        with pytest.raises(tepid.InputError, match=said):
            calibrate(model, given, **options)


def test_neither_package_is_imported_unless_the_user_does():
    code = (
        "import sys, torch, tepid.torch as t\n"
        "z = torch.randn(200, 3)\n"
        "t.calibrate(torch.nn.Identity(), {'input': z})\n"
        "t.fold(torch.nn.Linear(2, 3), 2.0)\n"
        "print([m for m in ('datasets', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Multi-label rows.


@pytest.mark.parametrize("kind", ["dataset", "prediction"])
def test_labels_of_several_columns_are_read(model, tokenizer, sentences, logits, kind):
    drawn = torch.bernoulli(torch.sigmoid(logits / 3), generator=torch.Generator().manual_seed(7))
    expected = tepid.calibrate(logits, drawn, multilabel="per-label")
    encoded = dict(tokenizer(sentences, padding=True))
    given = datasets.Dataset.from_dict({**encoded, "labels": drawn.tolist()})
    if kind == "prediction":
        made = text.transformers.trainer_utils.PredictionOutput
        given = made(logits.numpy(), drawn.numpy(), None)
    found = calibrate(model, given, labels=True, multilabel="per-label").calibration
    # Rows round the logits differently in other batches, which changes nothing but digits.
    np.testing.assert_allclose(found.per_label, expected.per_label, rtol=1e-3)
