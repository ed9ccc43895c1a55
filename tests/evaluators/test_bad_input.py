"""What cannot be evaluated: each refusal names the value, the rule and the remedy."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

from evaluators.__main__ import main
from evaluators.transformers import load_whole
from fgrpo_bench.engines.openrlhf import engine
from fgrpo_bench.files.paths import DataPaths
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.stages.tables import PROBLEMS, read_table, write_table
from tests.evaluators.evaluations import changed
from tests.support.publisher import publisher


def refused(words, capsys) -> str:
    """What the command says before it draws anything."""
    capsys.readouterr()
    assert main(["run", *words]) == 1
    return capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("checkpoint", "said"),
    [
        (
            "lab/closed-1b",
            [
                "checkpoint lab/closed-1b is gated: accept its terms at",
                "huggingface.co/lab/closed-1b and set HF_TOKEN",
            ],
        ),
        (
            "lab/mistyped-1b",
            [
                "checkpoint lab/mistyped-1b is no folder here and no model of the Hub",
                "check the name; a private model needs HF_TOKEN",
            ],
        ),
        (
            "lab/model-1b",
            [
                "checkpoint lab/model-1b is no folder here, not in the Hub's cache (HF_HOME)",
                "HF_ENDPOINT names a mirror), or give a folder",
            ],
        ),
    ],
)
def test_a_checkpoint_that_the_hub_does_not_give_is_refused(
    words, checkpoint, said, monkeypatch, capsys
):
    with publisher() as hub:
        hub.token = "hf_secret" if "closed" in checkpoint else None
        address = "http://127.0.0.1:9" if checkpoint == "lab/model-1b" else hub.address
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        found = refused(changed(words, f"checkpoint={checkpoint}"), capsys)
    assert all(part in found for part in said), found


WITHOUT_VLLM = (
    "sampler=vllm, but vLLM is not installed here and there is no ",
    "name an interpreter with placement.python=<path>",
    "or set sampler=transformers",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("checkpoint=./nowhere", ["checkpoint ./nowhere is no folder and no id of the Hub"]),
        ("n_samples=4 ks=[8]", ["k=8 is larger than n_samples=4"]),
        ("prompt=boxed", ["has no chat template"]),
        ("evaluation.benchmarks.math500.dataset.prompt_key=x", ["fgrpo-bench data math500"]),
        ("n_sampls=4", ["Could not override 'n_sampls'"]),
        ("temperature=-1", ["evaluation.temperature = -1: input should be greater than or equal"]),
        ("sampler=vllm device=cpu", [*WITHOUT_VLLM, "run `make setup-openrlhf-cpu`,"]),
        ("sampler=vllm device=cuda", [*WITHOUT_VLLM, "run `make setup-openrlhf`,"]),
        ("sampler=vllm placement.python=/nowhere/python", ["there is no /nowhere/python"]),
    ],
)
def test_what_cannot_be_run_is_refused_with_value_rule_and_remedy(
    words, more, said, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(engine, "REPOSITORY", tmp_path)
    dry = [] if "vllm" in more else ["--dry-run"]
    found = refused([*changed(words, *more.split()), *dry], capsys)
    assert all(part in found for part in said), found


def test_prompts_longer_than_the_context_are_refused_before_anything_is_drawn(words, model, capsys):
    context = read_json(model / "config.json")["max_position_embeddings"]
    found = refused(changed(words, f"prompt_tokens={context}"), capsys)
    assert f"prompt_tokens and response_tokens are {context + 8} together" in found
    assert f"is {context} tokens (max_position_embeddings): lower response_tokens" in found


def other(model: Path, to: Path, **changes: object) -> Path:
    """A copy of a model whose config.json says something else; None takes a key away."""
    shutil.copytree(model, to)
    config = read_json(to / "config.json") | changes
    write_json(to / "config.json", {k: v for k, v in config.items() if v is not None})
    return to


CONFIGS = {
    "of another family": (
        {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"},
        r"not those of the GPT2LMHeadModel .*; lacks: \d+, e\.g\. lm_head\.weight",
    ),
    "without biases": (
        {"architectures": ["LlamaForCausalLM"], "model_type": "llama"},
        r"LlamaForCausalLM .*; has besides: \d+, e\.g\. model\.layers\.0\.self_attn\.k_proj\.bias",
    ),
    "with more layers": ({"num_hidden_layers": 9}, r"lacks: 72, e\.g\. model\.layers\.3\."),
    "wider": ({"hidden_size": 192}, r"shapes: \d+, e\.g\. .*config\.json that was saved with"),
    "unheard of": (
        {"architectures": ["FooForCausalLM"], "model_type": "foo"},
        r"cannot load .*model type `foo`.*set sampler=vllm where vLLM has its architecture",
    ),
    "without a type": ({"model_type": None}, r"cannot load .*or name another checkpoint"),
}


@pytest.mark.parametrize("what", CONFIGS)
def test_weights_of_another_architecture_are_refused_and_never_filled_up(model, tmp_path, what):
    changes, rule = CONFIGS[what]
    with pytest.raises(ValueError, match=rule):
        load_whole(other(model, tmp_path / "copy", **changes), "float32")


@pytest.mark.slow
def test_a_model_that_is_no_causal_language_model_or_not_readable_is_refused(
    words, model, tmp_path, capsys
):
    for architecture in ("BertForMaskedLM", None):
        named = None if architecture is None else [architecture]
        copy = other(model, tmp_path / str(architecture), architectures=named)
        found = refused(changed(words, f"checkpoint={copy}"), capsys)
        assert f"is a {str(architecture).replace('None', 'none')}: only a causal language" in found
        assert "model (...ForCausalLM in config.json)" in found
    (copy / "config.json").write_text("{")
    found = refused(changed(words, f"checkpoint={copy}"), capsys)
    assert f"{copy / 'config.json'} holds no valid JSON" in found
    copy = other(model, tmp_path / "of another engine")
    (copy / "tokenizer_config.json").write_text("{}")
    of_task = [word for word in words if not word.startswith(("prompt", "response_tokens"))]
    found = refused(changed(of_task, f"checkpoint='{copy}'", "sampler=embedded"), capsys)
    assert "sampler=embedded reads only checkpoints of the embedded engine" in found


def test_a_prepared_benchmark_that_was_changed_is_refused(words, root, capsys):
    (folder,) = root.resolve().glob("_data/math500-*")
    paths = DataPaths(folder)
    table = read_table(paths.problems, PROBLEMS)
    write_table(paths.problems, table.with_columns(gold_used=pl.lit("7")), PROBLEMS)
    found = refused([*words, "--dry-run"], capsys)
    wanted = read_json(paths.lock)["result"]["sha256"]
    assert f"{paths.lock} records {wanted}: it was changed or damaged" in found
    assert "fgrpo-bench data <benchmark>" in found


NAMES = {
    "run": ["run", "checkpoint=x", "benchmarks=[mth500]"],
    "data": ["data", "mth500"],
    "import": ["import", "nothing.jsonl", "--benchmark", "mth500", "--name", "mine"],
    "export-lm-eval": ["export-lm-eval", "mth500", "--to", "nowhere"],
}


def test_a_dataset_that_is_not_there_is_refused_in_a_sentence(tmp_path, capsys):
    keys = ["prompt_key=problem", "answer_key=answer"]
    root = ["--root", str(tmp_path)]
    assert main(["data", "amc23", f"path={tmp_path / 'mine.jsonl'}", *keys, *root]) == 1
    said = capsys.readouterr().err
    assert said == (
        f"path={tmp_path / 'mine.jsonl'} is no file: it names the problems of amc23 on this "
        "machine, e.g. path=problems.jsonl\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("command", NAMES)
def test_a_misspelt_benchmark_is_refused_with_the_names_there_are(root, command, capsys):
    assert main(NAMES[command]) in (1, 2)
    found = capsys.readouterr().err
    assert "unknown benchmark 'mth500'" in found and "did you mean math500" in found
    assert "alid ones are aime24, aime25" in found and "conf/benchmark/" in found
