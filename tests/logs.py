"""Evaluation logs in the exact shape of each format, written by the tests."""

import gzip
import hashlib
import json
from pathlib import Path

import numpy as np


def answers(rows=400, seed=3, scale=3.0, options=4):
    """Logits `scale` times too sharp, and labels."""
    rng = np.random.default_rng(seed)
    posterior = 1.5 * rng.normal(size=(rows, options))
    labels = (posterior + rng.gumbel(size=posterior.shape)).argmax(axis=1)
    return scale * posterior, labels


def normalized(logits):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def sample(row, logits, label, *, filter_name="none", choices="ABCDEFGHIJ", **changed):
    """One line of lm-evaluation-harness 0.4, after its own sanitizing."""
    doc = {"question": f"Question {row}?", "subject": "anatomy" if row % 2 else "law"}
    prompt = f"Question {row}?\nAnswer:"
    digest = hashlib.sha256(json.dumps(doc, indent=2).encode()).hexdigest()
    greedy = int(np.argmax(logits))
    pairs = [[str(float(value)), str(place == greedy)] for place, value in enumerate(logits)]
    return {
        "doc_id": row,
        "doc": doc,
        "target": str(label),
        "arguments": {
            f"gen_args_{place}": {"arg_0": prompt, "arg_1": f" {choices[place]}"}
            for place in range(len(logits))
        },
        "resps": [[pair] for pair in pairs],
        "filtered_resps": pairs,
        "filter": filter_name,
        "metrics": ["acc"],
        "doc_hash": digest,
        "prompt_hash": hashlib.sha256(prompt.encode()).hexdigest(),
        "target_hash": hashlib.sha256(str(label).encode()).hexdigest(),
        "acc": float(greedy == label),
    } | changed


def samples(logits, labels, **changed):
    rows = enumerate(zip(logits, labels, strict=True))
    return [sample(row, z, int(y), **changed) for row, (z, y) in rows]


def top(values, names="ABCD", *, spaced=False):
    """Listed tokens with their log-probabilities, most likely first."""
    order = np.argsort(-np.asarray(values), kind="stable")
    marks = [f" {names[place]}" if spaced else names[place] for place in order]
    return [
        {"token": mark, "logprob": float(values[place]), "bytes": list(mark.encode())}
        for mark, place in zip(marks, order, strict=True)
    ]


def content(values, **options):
    listed = top(values, **options)
    return listed[0] | {"top_logprobs": listed}


def chat(tokens, number=0):
    """A chat completion of OpenAI, vLLM or SGLang."""
    text = "".join(token["token"] for token in tokens)
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1728933352,
        "model": "some-model",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, "refusal": None},
                "logprobs": {"content": tokens, "refusal": None},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 19, "completion_tokens": len(tokens), "total_tokens": 20},
    }


def batch(custom_id, body, **beside):
    """A line of the output of a batch."""
    return {
        "id": f"batch_req_{custom_id}",
        "custom_id": custom_id,
        "response": {"status_code": 200, "request_id": "req_1", "body": body},
        "error": None,
    } | beside


def legacy(tokens):
    """A completion of the older endpoint: mappings instead of lists."""
    return {
        "id": "cmpl-1",
        "object": "text_completion",
        "choices": [
            {
                "text": "".join(token["token"] for token in tokens),
                "index": 0,
                "logprobs": {
                    "tokens": [token["token"] for token in tokens],
                    "token_logprobs": [token["logprob"] for token in tokens],
                    "top_logprobs": [
                        {each["token"]: each["logprob"] for each in token["top_logprobs"]}
                        for token in tokens
                    ],
                    "text_offset": list(range(len(tokens))),
                },
                "finish_reason": "length",
            }
        ],
    }


def llama_cpp(tokens, **settings):
    """The own format of llama.cpp; after sampling it lists probabilities."""
    after = settings.get("post_sampling_probs", False)

    def entry(token, *, listed):
        value = (
            {"prob": float(np.exp(token["logprob"]))} if after else {"logprob": token["logprob"]}
        )
        plain = {"id": 7, "token": token["token"], "bytes": token["bytes"]} | value
        key = "top_probs" if after else "top_logprobs"
        return plain | (
            {key: [entry(each, listed=False) for each in token["top_logprobs"]]} if listed else {}
        )

    return {
        "content": "".join(token["token"] for token in tokens),
        "stop": True,
        "generation_settings": {"temperature": 0.8, "post_sampling_probs": after} | settings,
        "completion_probabilities": [entry(token, listed=True) for token in tokens],
    }


def ollama(tokens):
    """The own format of Ollama."""
    return {
        "model": "gemma3",
        "created_at": "2025-11-12T00:00:00Z",
        "message": {"role": "assistant", "content": "A"},
        "done": True,
        "done_reason": "stop",
        "logprobs": tokens,
    }


def write(path, records):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(record) + "\n" for record in records)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path
