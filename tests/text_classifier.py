"""A small text classifier of Hugging Face, made here: nothing is downloaded."""

import torch

from tests import mending
from tests.needs import needed

mending.mend()  # transformers imports torchvision where it is installed
transformers = needed("transformers")

WORDS = ["[PAD]", "[UNK]", "good", "bad", "fine", "poor", "movie", "plot", "a", "the", "was"]


def tokenizer():
    tokenizers = needed("tokenizers")
    words = {word: number for number, word in enumerate(WORDS)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", model_max_length=32
    )


def model(classes=3):
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, num_labels=classes, max_position_embeddings=32,
        initializer_range=1.0,
    )  # fmt: skip
    return transformers.BertForSequenceClassification(config).eval()


def texts(count, rng):
    """Sentences of three to nine words."""
    return [" ".join(rng.choice(WORDS[2:], size=rng.integers(3, 10))) for _ in range(count)]
