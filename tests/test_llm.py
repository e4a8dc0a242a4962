"""Evaluation logs of language models: every format, what is missing in them, and the commands."""

import json
import pickle
import resource
import sys
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest

import tepid
from tests import logs
from tests.scripts import benchmark

ROOT = Path(__file__).parents[1]
Z, Y = logs.answers()
LOG_PROBABILITIES = logs.normalized(Z)
LETTERS = ["A", "B", "C", "D"]


@pytest.fixture
def samples(tmp_path):
    return logs.write(
        tmp_path / "samples_mmlu_2026-01-02T03-04-05.678901.jsonl", logs.samples(Z, Y)
    )


def quiet(function, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tepid.CalibrationWarning)
        return function(*args, **options)


def refusal(function, *args, **options):
    with pytest.raises(tepid.InputError) as caught:
        function(*args, **options)
    said = str(caught.value)
    assert "\n" not in said
    return said


# --- lm-evaluation-harness


def test_a_log_of_the_harness_gives_its_log_likelihoods_labels_and_ids(samples):
    log = tepid.llm.read_samples(samples, labels="target", groups="task")
    np.testing.assert_array_equal(log.logits, Z)
    np.testing.assert_array_equal(log.labels, Y)
    assert set(log.groups) == {"mmlu"}
    assert len(set(log.ids)) == len(Z) == len(log)
    assert log.ids[7].startswith("7-")
    assert str(log) == "400 rows of 4 options"


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_log_is_taken_wherever_a_path_of_logits_is(tmp_path, ending):
    path = logs.write(tmp_path / f"samples_x.jsonl{ending}", logs.samples(Z, Y))
    assert tepid.uts(path).value == tepid.uts(Z).value
    assert tepid.temperature_scaling(path, "target").value == pytest.approx(
        tepid.temperature_scaling(Z, Y).value, rel=1e-9
    )
    assert tepid.calibrate(path, "target").value == tepid.calibrate(Z, Y).value


def test_a_label_free_fit_does_not_look_at_the_target(tmp_path):
    broken = [record | {"target": {"never": "read"}} for record in logs.samples(Z, Y)]
    path = logs.write(tmp_path / "samples_x.jsonl", broken)
    assert tepid.uts(path).value == tepid.uts(Z).value
    assert tepid.llm.read_samples(path).labels is None
    opened = tepid.open_source(path, labels="target")
    assert tepid.uts(opened).value == tepid.uts(Z).value
    said = refusal(tepid.temperature_scaling, path, "target")
    assert "target" in said
    assert said.endswith("at line 1")


def test_a_document_counts_once_however_many_filters_there_are(tmp_path):
    twice = logs.samples(Z, Y) + logs.samples(Z, Y, filter_name="score-first")
    log = tepid.llm.read_samples(logs.write(tmp_path / "samples_x.jsonl", twice))
    np.testing.assert_array_equal(log.logits, Z)


def test_questions_with_fewer_choices_are_padded(tmp_path):
    records = [logs.sample(row, z[: 2 + row % 3], int(z[: 2 + row % 3].argmax()))
               for row, z in enumerate(Z)]  # fmt: skip
    log = tepid.llm.read_samples(logs.write(tmp_path / "samples_x.jsonl", records))
    masked = np.where(np.arange(4) < 2 + np.arange(len(Z))[:, None] % 3, Z, -np.inf)
    np.testing.assert_array_equal(log.logits, masked)
    assert quiet(tepid.calibrate, tmp_path / "samples_x.jsonl").value > 0


def test_several_tasks_have_a_temperature_each(tmp_path):
    other, labels = logs.answers(seed=8, scale=1.0, options=5)
    logs.write(tmp_path / "samples_law_2026-01-02T03-04-05.6.jsonl", logs.samples(Z, Y))
    logs.write(
        tmp_path / "samples_physics_2026-01-02T03-04-05.6.jsonl",
        logs.samples(other, labels, doc_hash="9" * 64),
    )
    t = quiet(tepid.calibrate, tmp_path, "target", groups="task")
    assert t.classes == 5
    assert set(t.groups) == {"law", "physics"}
    assert t.groups["law"].value > t.groups["physics"].value
    log = tepid.llm.read_samples(tmp_path, groups="task")
    assert len(set(log.ids)) == len(log)  # the same doc_id in both, but not the same document
    by_field = tepid.llm.read_samples(tmp_path, groups="doc.subject")
    assert set(by_field.groups) == {"anatomy", "law"}


def test_the_target_may_be_the_text_of_a_choice(tmp_path):
    records = [record | {"target": f" {'ABCD'[y]}"}
               for record, y in zip(logs.samples(Z, Y), Y, strict=True)]  # fmt: skip
    log = tepid.llm.read_samples(logs.write(tmp_path / "s.jsonl", records), labels="target")
    np.testing.assert_array_equal(log.labels, Y)


@pytest.mark.parametrize("target", ["[0, 2]", "9", "neither", "1.5"])
def test_a_target_that_is_no_choice_is_refused_with_its_line(tmp_path, target):
    records = logs.samples(Z[:3], Y[:3])
    records[1]["target"] = target
    path = logs.write(tmp_path / "s.jsonl", records)
    assert refusal(tepid.llm.read_samples, path, labels="target").endswith("at line 2")


def test_a_target_that_contradicts_the_accuracy_is_refused(tmp_path):
    records = logs.samples(Z[:3], Y[:3])
    records[2]["acc"] = 1 - records[2]["acc"]
    path = logs.write(tmp_path / "s.jsonl", records)
    assert "acc" in refusal(tepid.llm.read_samples, path, labels="target")
    assert tepid.llm.read_samples(path).labels is None


def test_older_logs_hold_numbers(tmp_path):
    records = logs.samples(Z[:9], Y[:9])
    for record in records:
        record["resps"] = [[[float(pair[0][0]), pair[0][1] == "True"]] for pair in record["resps"]]
        del record["doc_hash"]
    log = tepid.llm.read_samples(logs.write(tmp_path / "samples_law.jsonl", records))
    np.testing.assert_array_equal(log.logits, Z[:9])
    assert log.ids[3] == "law-3"


def test_unconditional_log_likelihoods_are_left_out(tmp_path):
    records = logs.samples(Z[:9], Y[:9], metrics=["acc", "acc_mutual_info"])
    for record in records:
        record["resps"] += [[["-9.0", "False"]]] * 4
    log = tepid.llm.read_samples(logs.write(tmp_path / "s.jsonl", records))
    np.testing.assert_array_equal(log.logits, Z[:9])


def test_generated_text_is_refused(tmp_path):
    record = logs.sample(0, Z[0], 0) | {"resps": [["The answer is (B)."]]}
    said = refusal(tepid.uts, logs.write(tmp_path / "s.jsonl", [record]))
    assert "multiple_choice" in said


# --- alignment by id


def test_a_reference_log_is_matched_by_id(tmp_path, samples):
    rng = np.random.default_rng(1)
    stronger, _ = logs.answers(scale=1.0)
    records = np.array(logs.samples(stronger, Y), object)[rng.permutation(len(Z))]
    path = logs.write(tmp_path / "base" / "samples_mmlu.jsonl", records.tolist())
    t = quiet(tepid.calibrate, samples, reference=path)
    assert t.value == pytest.approx(quiet(tepid.calibrate, Z, reference=stronger).value, rel=1e-9)
    assert not t.warnings


def test_unmatched_rows_are_counted_and_named(tmp_path, samples):
    stronger, _ = logs.answers(scale=1.0)
    records = logs.samples(stronger, Y)
    records = [*records[3:], *logs.samples(Z[:2], Y[:2], doc_hash="f" * 64)]
    path = logs.write(tmp_path / "base" / "samples_mmlu.jsonl", records)
    t = quiet(tepid.calibrate, samples, reference=path)
    missing = np.where(np.arange(len(Z))[:, None] < 3, np.nan, stronger)
    assert t.value == pytest.approx(quiet(tepid.calibrate, Z, reference=missing).value, rel=1e-9)
    unmatched, strangers = t.warnings[-2:]
    assert "3 of 400" in unmatched
    assert "0-" in unmatched
    assert "2 of 399" in strangers
    assert "0-ffffffffffff" in strangers


def test_a_reference_with_other_numbers_of_choices_is_matched(tmp_path):
    four = logs.write(tmp_path / "samples_a.jsonl", logs.samples(Z, Y))
    records = logs.samples(*logs.answers(scale=1.0))
    wide = logs.sample(900, np.arange(5.0), 4)
    other = logs.write(tmp_path / "base" / "samples_a.jsonl", [*records, wide])
    expected = quiet(tepid.calibrate, Z, reference=logs.answers(scale=1.0)[0])
    assert quiet(tepid.calibrate, four, reference=other).value == pytest.approx(expected.value)
    quiet(tepid.calibrate, other, reference=four)


def test_logs_without_a_row_in_common_are_refused(tmp_path, samples):
    other = logs.write(tmp_path / "other.jsonl", logs.samples(Z, Y, doc_hash="0" * 64))
    assert "got none of them" in refusal(tepid.calibrate, samples, reference=other)


def test_the_ids_of_a_reference_may_be_another_field(tmp_path, samples):
    stronger, _ = logs.answers(scale=1.0)
    other = logs.write(tmp_path / "base.jsonl", logs.samples(stronger, Y, doc_hash="0")[::-1])
    expected = quiet(tepid.calibrate, Z, reference=stronger).value
    by_number = quiet(tepid.calibrate, samples, reference=other, ids="doc_id")
    assert by_number.value == pytest.approx(expected, rel=1e-9)
    as_pair = quiet(tepid.calibrate, samples, reference=(str(other), "doc_id"), ids="doc_id")
    assert as_pair.value == pytest.approx(expected, rel=1e-9)


def test_an_array_beside_a_log_is_in_its_order(samples):
    stronger, _ = logs.answers(scale=1.0)
    by_order = quiet(tepid.calibrate, samples, reference=stronger)
    assert by_order.value == quiet(tepid.calibrate, Z, reference=stronger).value


def test_duplicated_ids_are_refused_where_rows_are_matched(tmp_path, samples):
    records = logs.samples(Z, Y)
    twice = logs.write(tmp_path / "twice.jsonl", [*records, records[5]])
    assert len(tepid.llm.read_samples(twice)) == len(Z) + 1
    said = refusal(tepid.calibrate, samples, reference=twice)
    assert records[5]["doc_hash"][:12] in said


def test_labels_by_id_are_matched_with_a_log(tmp_path, samples):
    log = tepid.llm.read_samples(samples)
    chosen = np.random.default_rng(2).permutation(len(Z))[:50]
    table = "id,label\n" + "".join(f"{log.ids[row]},{Y[row]}\n" for row in chosen)
    (tmp_path / "labels.csv").write_text(table)
    known = np.full(len(Z), -1)
    known[chosen] = Y[chosen]
    by_id = quiet(tepid.calibrate, samples, tmp_path / "labels.csv")
    assert by_id.value == pytest.approx(quiet(tepid.calibrate, Z, known).value, rel=1e-9)


# --- responses

FORMATS = {
    "chat": logs.chat,
    "wrapped": lambda tokens: {"id": "q", "response": logs.chat(tokens)},
    "batch": lambda tokens: logs.batch("q", logs.chat(tokens)),
    "legacy": logs.legacy,
    "llama.cpp": logs.llama_cpp,
    "Ollama": logs.ollama,
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_of_responses_gives_the_same_rows(tmp_path, name):
    records = [FORMATS[name]([logs.content(row)]) for row in LOG_PROBABILITIES]
    path = logs.write(tmp_path / "responses.jsonl", records)
    log = tepid.llm.read_responses(path, choices=LETTERS)
    np.testing.assert_array_equal(log.logits, LOG_PROBABILITIES)
    assert log.choices == tuple(LETTERS)
    assert not log.bounded.any()
    assert tepid.uts(tepid.open_source(path, columns=LETTERS)).value == tepid.uts(log.logits).value


def responses(tmp_path, *tokens, **beside):
    records = [logs.batch(f"q{i}", logs.chat(each), **beside) for i, each in enumerate(tokens)]
    return logs.write(tmp_path / "responses.jsonl", records)


def listed(**values):
    """A token and those listed at its position, by text; the first was generated."""
    tokens = [{"token": text, "logprob": value, "bytes": None} for text, value in values.items()]
    return tokens[0] | {"top_logprobs": tokens}


def read(path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tepid.llm.LogWarning)
        return tepid.llm.read_responses(path, **({"choices": LETTERS[:2]} | options))


def test_variants_of_an_option_are_added(tmp_path):
    p = {" A": 0.4, "A": 0.2, "a": 0.1, "ĠB": 0.1, "▁B": 0.05, "b": 0.05, "The": 0.1}
    path = responses(tmp_path, [listed(**{text: np.log(v) for text, v in p.items()})])
    np.testing.assert_allclose(np.exp(read(path).logits), [[0.7, 0.2]])


def test_options_that_differ_by_case_alone_are_kept_apart(tmp_path):
    path = responses(tmp_path, [listed(A=np.log(0.6), a=np.log(0.3))])
    np.testing.assert_allclose(np.exp(read(path, choices=["A", "a"]).logits), [[0.6, 0.3]])


def test_an_option_that_is_not_listed_gets_its_share_of_the_bound(tmp_path):
    full = [listed(A=np.log(0.6), B=np.log(0.2), C=np.log(0.1), D=np.log(0.1))]
    short = [listed(A=np.log(0.9), B=np.log(0.06), The=np.log(0.02))]
    path = responses(tmp_path, full, short)
    with pytest.warns(tepid.llm.LogWarning, match="In 1 of 2 responses"):
        log = tepid.llm.read_responses(path, choices=LETTERS)
    np.testing.assert_allclose(np.exp(log.logits[1]), [0.9, 0.06, 0.01, 0.01])
    np.testing.assert_array_equal(log.bounded, [[0, 0, 0, 0], [0, 0, 1, 1]])
    np.testing.assert_allclose(np.exp(log.halved().logits[1]), [0.9, 0.06, 0.005, 0.005])
    np.testing.assert_array_equal(log.halved().logits[0], log.logits[0])


def test_the_effect_of_the_bound_is_measured_by_two_fits(tmp_path):
    tokens = []
    for row in LOG_PROBABILITIES:
        token = logs.content(row)
        tokens.append([token | {"top_logprobs": token["top_logprobs"][:3]}])
    log = read(responses(tmp_path, *tokens), choices=LETTERS)
    assert (log.bounded.sum(axis=1) == 1).all()
    effect = quiet(tepid.llm.bound_effect, log, Y)
    assert effect.value == quiet(tepid.calibrate, log.logits, Y).value
    assert effect.halved > effect.value
    exact = quiet(tepid.calibrate, Z, Y).value
    assert abs(np.log(effect.value / exact)) < 0.15
    full = read(responses(tmp_path, *([logs.content(row)] for row in LOG_PROBABILITIES)),
                choices=LETTERS)  # fmt: skip
    same = quiet(tepid.llm.bound_effect, full, Y)
    assert same.value == same.halved


def test_a_token_sampled_from_outside_the_list_counts_but_bounds_nothing(tmp_path):
    token = listed(A=np.log(0.5), The=np.log(0.2))
    path = responses(tmp_path, [token | {"token": "B", "logprob": np.log(0.01)}])
    np.testing.assert_allclose(np.exp(read(path).logits), [[0.5, 0.01]])
    three = read(path, choices=["A", "B", "C"])
    np.testing.assert_allclose(np.exp(three.logits), [[0.5, 0.01, 0.2]])


def test_the_generated_token_bounds_nothing_where_the_server_adds_it(tmp_path):
    token = listed(A=np.log(0.5), The=np.log(0.2), B=np.log(0.001))
    path = responses(tmp_path, [token | {"token": "B", "logprob": np.log(0.001)}])
    three = read(path, choices=["A", "B", "C"])
    np.testing.assert_allclose(np.exp(three.logits), [[0.5, 0.001, 0.2]])


@pytest.mark.parametrize("value", [-9999.0, -float("inf"), -3.4e38])
def test_a_placeholder_for_very_unlikely_tokens_is_no_probability(tmp_path, value):
    path = responses(tmp_path, [listed(A=np.log(0.5), The=np.log(0.1), B=value)])
    np.testing.assert_allclose(np.exp(read(path).logits), [[0.5, 0.1]])


def test_what_is_left_bounds_an_option_where_nothing_else_is_listed(tmp_path):
    path = responses(tmp_path, [listed(A=np.log(0.99), The=-9999.0)], [listed(A=0.0, The=-9999.0)])
    np.testing.assert_allclose(np.exp(read(path).logits), [[0.99, 0.01], [1, 2**-24]], rtol=1e-9)


def words(*texts):
    return [listed(**{text: np.log(0.6), "other": np.log(0.1)}) for text in texts]


def test_the_answer_is_the_first_token_that_is_an_option(tmp_path):
    answer = listed(**{" B": np.log(0.7), " A": np.log(0.2)})
    after = [*words("This", " is", " a", " choice", ":"), answer, *words(" A")]
    log = read(responses(tmp_path, after))
    np.testing.assert_allclose(np.exp(log.logits), [[0.2, 0.7]])
    last = read(responses(tmp_path, after), position=-1, choices=["A", "other"])
    np.testing.assert_allclose(np.exp(last.logits), [[0.6, 0.1]])
    lower = read(responses(tmp_path, [*words("\n"), listed(b=np.log(0.7), a=np.log(0.2))]))
    np.testing.assert_allclose(np.exp(lower.logits), [[0.2, 0.7]])


def test_a_pattern_names_the_options(tmp_path):
    token = listed(**{" (B": np.log(0.6), "(A": np.log(0.3), "(": np.log(0.05)})
    path = responses(tmp_path, [*words("Answer"), token])
    found = read(path, choices=None, pattern=r"\(([A-Z])")
    assert found.choices == ("A", "B")
    np.testing.assert_allclose(np.exp(found.logits), [[0.3, 0.6]])
    ordered = read(path, choices=["B", "A"], pattern=r"\(([A-Z])")
    np.testing.assert_allclose(np.exp(ordered.logits), [[0.6, 0.3]])
    assert "pattern" in refusal(read, path, pattern="(")


def test_responses_without_an_option_are_left_out_and_named(tmp_path):
    good = logs.batch("q1", logs.chat([listed(A=-0.1, B=-3.0)]), label="A")
    refused = logs.batch("q2", logs.chat(words("I", " cannot")), label="B")
    failed = {"id": "r", "custom_id": "q3", "response": None, "error": {"code": 500}, "label": "A"}
    path = logs.write(tmp_path / "r.jsonl", [failed, good, refused])
    with pytest.warns(tepid.llm.LogWarning, match="2 of 3 responses .* lines 1, 3"):
        log = tepid.llm.read_responses(path, choices=["A", "B"], labels="label")
    assert (log.ids.tolist(), log.labels.tolist(), log.skipped) == (["q1"], [0], 2)
    none = logs.write(tmp_path / "n.jsonl", [refused])
    assert "got none in 1 lines" in refusal(read, none)


def test_responses_are_matched_by_custom_id(tmp_path):
    stronger, _ = logs.answers(scale=1.0)
    own, other = (
        [logs.batch(f"q{i}", logs.chat([logs.content(row)])) for i, row in enumerate(values)]
        for values in (LOG_PROBABILITIES, logs.normalized(stronger))
    )
    own_path = logs.write(tmp_path / "own.jsonl", own)
    other_path = logs.write(tmp_path / "other.jsonl", other[::-1])
    t = quiet(tepid.calibrate, own_path, reference=other_path, columns=LETTERS)
    assert t.value == pytest.approx(quiet(tepid.calibrate, Z, reference=stronger).value, rel=1e-6)


def test_ids_of_responses_themselves_are_not_used(tmp_path):
    path = logs.write(
        tmp_path / "r.jsonl", [logs.chat([listed(A=-0.1, B=-3.0)], i) for i in (1, 2)]
    )
    assert read(path).ids is None
    assert read(path, ids="id").ids.tolist() == ["chatcmpl-1", "chatcmpl-2"]


def test_a_sampling_temperature_in_the_values_is_warned_of(tmp_path):
    token = [listed(A=-0.1, B=-3.0)]
    processed = logs.llama_cpp(token, post_sampling_probs=True, temperature=0.5)
    path = logs.write(tmp_path / "r.jsonl", [processed])
    with pytest.warns(tepid.llm.LogWarning, match="sampling temperature 0.5"):
        log = tepid.llm.read_responses(path, choices=["A", "B"])
    assert log.temperature == 0.5
    np.testing.assert_allclose(log.logits, [[-0.1, -3.0]])
    vllm = logs.chat(token) | {"logprobs_mode": "processed_logprobs", "temperature": 0.7}
    with pytest.warns(tepid.llm.LogWarning, match="sampling temperature 0.7"):
        tepid.uts(tepid.open_source(logs.write(path, [vllm]), columns=["A", "B"]))


@pytest.mark.parametrize(
    "shown",
    [
        {"temperature": 0.7},  # nothing tells that the values were processed with it
        {"temperature": 0.7, "logprobs_mode": "raw_logprobs"},
        {"temperature": 1.0, "logprobs_mode": "processed_logprobs"},
        {"logprobs_mode": "processed_logprobs"},
    ],
)
def test_no_warning_where_the_log_does_not_show_it(tmp_path, shown):
    record = logs.chat([listed(A=-0.1, B=-3.0)]) | shown
    path = logs.write(tmp_path / "r.jsonl", [record])
    assert tepid.llm.read_responses(path, choices=["A", "B"]).temperature is None


def test_one_response_is_rescaled_while_serving():
    body = logs.chat([listed(A=np.log(0.97), B=np.log(0.03))])
    logits = tepid.llm.option_logits(body, choices=["A", "B"])
    t = tepid.Temperature(3.0, "x", samples=1, classes=2, implied_accuracy=0.5)
    odds = (0.97 / 0.03) ** (1 / 3)
    np.testing.assert_allclose(t(logits[None])[0, 0], odds / (1 + odds), rtol=1e-6)
    assert "none of them" in refusal(tepid.llm.option_logits, body, choices=["X", "Y"])


# --- files that are no logs


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"doc_id": 2, "resps": [[["-1.', "line 3"),  # truncated
        ("[1, 2]", "line 3"),
        ("[" * 100_000, "line 3"),
        ('{"a":' * 3000 + "1" + "}" * 3000, "line 3"),
        ('{"doc_id": 2, "resps": ' + "9" * 5000 + "}", "line 3"),
        ("\x00\x01", "line 3"),
    ],
)
def test_a_broken_line_is_named(tmp_path, line, expected):
    good = "".join(json.dumps(record) + "\n" for record in logs.samples(Z[:2], Y[:2]))
    (tmp_path / "samples_x.jsonl").write_text(good + line)
    said = refusal(tepid.uts, tmp_path / "samples_x.jsonl")
    assert said.startswith("samples_x.jsonl must")
    assert said.endswith(expected)
    assert len(said) < 400


@pytest.mark.parametrize(
    "value",
    ["nan", "inf", "-inf", "1e999", "-1_0.0", "", "tensor(-1.0)", None, True, {}, [], 10**400],
)
def test_a_log_likelihood_that_is_no_number_is_refused(tmp_path, value):
    records = logs.samples(Z[:3], Y[:3])
    records[1]["resps"][2][0][0] = value
    path = logs.write(tmp_path / "s.jsonl", records)
    assert refusal(tepid.uts, path).endswith("at line 2")


@pytest.mark.parametrize("value", [float("nan"), "−1", None, True, [], {}, float("inf"), 10**400])
def test_a_log_probability_that_is_no_number_is_refused(tmp_path, value):
    path = responses(tmp_path, [listed(A=-0.1, B=-3.0)], [listed(A=-0.1, B=value)])
    assert refusal(read, path).endswith("at line 2")


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"question": "?", "prediction": 3}, "got question, prediction"),
        ({"resps": [], "choices": []}, "not both"),
        (logs.chat([]) | {"choices": [{"logprobs": None}]}, "top_logprobs"),
        (logs.chat([{"token": "A", "logprob": -0.1, "top_logprobs": []}]), "two or more tokens"),
    ],
)
def test_what_is_no_log_is_refused_with_what_was_found(tmp_path, record, expected):
    path = logs.write(tmp_path / "x.jsonl", [record])
    assert expected in refusal(tepid.open_source, path, columns=["A", "B"])


def test_options_must_be_named(tmp_path, samples):
    path = responses(tmp_path, [listed(A=-0.1, B=-3.0)])
    assert "columns" in refusal(tepid.uts, path)
    assert "choices or pattern" in refusal(tepid.llm.read_responses, path)
    assert "two or more" in refusal(read, path, choices=["A", "A"])
    assert "left out" in refusal(tepid.open_source, samples, columns=["A", "B"])


def test_other_bytes_than_text_are_named_with_their_line(tmp_path):
    good = json.dumps(logs.sample(0, Z[0], 0)).encode()
    (tmp_path / "s.jsonl").write_bytes(
        good + b"\n" + good.replace(b"Question", b"Quest\xff") + b"\n"
    )
    assert refusal(tepid.uts, tmp_path / "s.jsonl").endswith("at line 2")


def test_a_field_that_is_not_there_is_refused_with_those_that_are(samples):
    said = refusal(tepid.temperature_scaling, samples, "answer")
    assert "doc_id" in said
    assert "target" in said


def test_an_empty_log_is_refused(tmp_path):
    (tmp_path / "s.jsonl").write_text("\n")
    assert "empty" in refusal(tepid.uts, tmp_path / "s.jsonl")


def test_rows_are_chosen_by_the_value_of_a_field(samples):
    log = tepid.llm.read_samples(samples, where={"doc.subject": "law"})
    np.testing.assert_array_equal(log.logits, Z[::2])
    source = tepid.open_source(samples, where={"doc.subject": "law"})
    assert source.rows == len(Z) // 2


HOSTILE = (
    None, True, "", "x", [], {}, -1, 10**400, float("nan"), float("-inf"), [[]], [None], {"a": {}},
    {"token": 1}, "\ud800", "9" * 400,
)  # fmt: skip


def places(value, path=()):
    """Every place inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, (dict, list)):
            yield from places(inner, (*path, key))


def replaced(record, path, value):
    copy = json.loads(json.dumps(record))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copy


@pytest.mark.slow
@pytest.mark.parametrize("name", ["harness", *FORMATS])
def test_hostile_values_anywhere_are_read_or_refused_in_a_sentence(tmp_path, name, rng):
    columns = None if name == "harness" else LETTERS
    plain = [
        logs.sample(i, Z[i], int(Y[i])) if columns is None
        else FORMATS[name]([logs.content(LOG_PROBABILITIES[i])]) | {"target": "A"}
        for i in range(2)
    ]  # fmt: skip
    every = [(path, value) for path in places(plain[0]) for value in HOSTILE]
    refusals = []
    for chosen in rng.choice(len(every), 250, replace=False):
        path, value = every[chosen]
        records = [replaced(plain[0], path, value), plain[1]]
        if rng.random() < 0.5:
            records.reverse()
        file = logs.write(tmp_path / "x.jsonl", records)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                source = tepid.open_source(file, columns=columns, labels="target")
                whole = source.whole()
            assert np.isfinite(whole.logits.max(axis=1)).all()
        except tepid.InputError as error:
            refusals.append(str(error))
    assert 0 < len(refusals) < 250
    assert all("\n" not in said and len(said) < 600 for said in refusals)


def test_a_log_is_read_on_another_machine(tmp_path, samples):
    answers = responses(tmp_path, *([logs.content(row)] for row in LOG_PROBABILITIES))
    for path, columns, expected in ((samples, None, Z), (answers, LETTERS, LOG_PROBABILITIES)):
        (part,) = tepid.open_source(path, columns=columns).parts
        assert part.portable
        (batch,) = pickle.loads(pickle.dumps(part)).batches(1000)
        np.testing.assert_array_equal(batch.logits, expected)


# --- size


@pytest.mark.slow
def test_a_large_log_is_read_in_flat_memory(tmp_path):
    rows = 100_000
    line = logs.sample(0, Z[0], int(Y[0]))
    line["doc"]["question"] = "word " * 200
    path = tmp_path / "samples_x.jsonl"
    with path.open("w") as file:
        for row in range(rows):
            line["doc_id"] = row
            line["resps"][row % 4][0][0] = str(-(row % 17) / 4)
            file.write(json.dumps(line) + "\n")
    assert path.stat().st_size > 100 << 20
    source = tepid.open_source(path)
    tracemalloc.start()
    seen = sum(len(batch.logits) for batch in source.batches(4096, once=True))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert seen == source.rows == rows
    assert peak < 12 << 20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert quiet(tepid.calibrate, path).samples == rows
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert sys.platform != "linux" or grown < 150 << 10


# --- the command line


def test_the_commands_take_logs(tmp_path, samples, tepid_here):
    stronger, _ = logs.answers(scale=1.0)
    base = logs.write(tmp_path / "base" / "samples_mmlu.jsonl", logs.samples(stronger, Y)[2:])
    calibration = tmp_path / "t.json"
    code, out, err = tepid_here("fit", samples, "--reference", base, "-o", calibration)
    assert code == 0, err
    assert "reference" in out
    assert "reference has no answer for 2 of 400 rows" in err
    code, out, err = tepid_here("fit", samples, "--labels", "target", "--groups", "task", "--json")
    assert code == 0, err
    assert json.loads(out)["groups"].keys() == {"mmlu"}
    code, out, err = tepid_here("score", samples, "-c", calibration, "--draws", "0", "--json")
    assert code == 0, err
    measured = json.loads(out)
    assert measured["after"]["ece"] < measured["before"]["ece"]
    code, out, err = tepid_here(
        "compare", samples, "target", "--reference", base, "--splits", "2", "--json"
    )
    assert code == 0, err
    assert "2 of 400" in err
    report = tmp_path / "report.html"
    code, out, err = tepid_here("report", samples, "--labels", "target", "-o", report)
    assert code == 0, err
    assert report.stat().st_size


def test_the_command_line_names_options_and_measures_the_bound(tmp_path, tepid_here):
    tokens = []
    for row in LOG_PROBABILITIES:
        token = logs.content(row)
        tokens.append([token | {"top_logprobs": token["top_logprobs"][:3]}])
    path = responses(tmp_path, *tokens, words("I", " cannot"))
    code, _, err = tepid_here("fit", path, "--columns", "A,B,C,D")
    assert code == 0, err
    said = " ".join(err.split())
    assert "1 of 401 responses" in said
    assert "In 400 of 400 responses" in said
    assert "With half the bound" in said
    code, _, err = tepid_here("fit", path)
    assert code != 0
    assert "--columns" in err


def test_rows_of_a_log_to_label_have_its_ids(tmp_path, samples, tepid_here):
    table = tmp_path / "to_label.csv"
    code, _, err = tepid_here("ask", samples, "-n", "30", "-o", table)
    assert code == 0, err
    ids = tepid.llm.read_samples(samples).ids.tolist()
    lines = table.read_text().splitlines()
    filled = [lines[0]]
    for line in lines[1:]:
        assert line.split(",")[0] in ids
        filled.append(line + str(Y[ids.index(line.split(",")[0])]))
    table.write_text("\n".join(filled) + "\n")
    code, out, err = tepid_here("fit", samples, "--labels", table)
    assert code == 0, err
    assert "labels" in out


# --- what the guide says


def test_the_tables_of_the_guide_come_from_the_benchmark():
    pages = ("language-models.md", "benchmarks.md")
    text = "".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in pages)
    found = json.loads((ROOT / "benchmarks" / "results" / "llm.json").read_text())
    readme = benchmark("readme")
    for make in readme.OF_LANGUAGE_MODELS:
        content = f"<!-- {make.__name__}: benchmarks/results/llm.json -->\n{make(found)}\n<!-- end"
        assert content in text, make.__name__
    assert found["command"] == "python benchmarks/llm.py shared/llm"


def test_what_the_guide_says_of_the_figures_was_measured():
    found = json.loads((ROOT / "benchmarks" / "results" / "llm.json").read_text())
    every, rows = found["all sets"], found["without the reference"]
    assert round(every["T = 1"]["ece"]) == 20
    assert every["UTS"]["ece"] > every["T = 1"]["ece"]
    assert rows["reference"]["ece"] < rows["DACA"]["ece"]
    assert rows["200 judged rows"]["ece"] < rows["reference"]["ece"] + 0.5
    votes = [rows[f"{n} judged rows, classes alone"]["cover"] for n in (50, 100)]
    assert max(votes) < 0.95


def test_the_benchmark_runs_on_sets_of_its_own(tmp_path):
    for seed, name in enumerate(("one", "two", "strong")):
        z, y = logs.answers(rows=600, seed=5)
        noise = np.random.default_rng(seed).normal(size=z.shape) * (name != "strong")
        np.savez(tmp_path / f"{name}.npz", logits=(z + noise).astype(np.float32), labels=y)
    script = benchmark("llm")
    records = [
        record
        for name in ("one", "two", "strong")
        for record in script.of_set(name, tmp_path, "strong", script.QUICK)
    ]
    summary = script.summarize(records, "strong")
    assert summary["all sets"]["T = 1"]["sets"] == 3
    assert summary["without the reference"]["reference"]["sets"] == 2
    assert "DACA" not in summary["by set"]["strong"]
    assert "| 500 " in script.markdown(summary)
