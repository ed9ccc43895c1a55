"""What cannot be evaluated: each refusal names the value, the rule and the remedy."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from evaluators import standalone
from evaluators.__main__ import main
from evaluators.transformers import load_whole
from fgrpo_bench.engines.openrlhf import engine
from fgrpo_bench.files.paths import DataPaths
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.stages.tables import PROBLEMS, read_table, write_table
from tests.support.evaluations import fetched, overrides, write_source
from tests.support.openrlhf import make_untrained
from tests.support.publisher import publisher


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_untrained(tmp_path_factory.mktemp("model") / "small")


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("FGRPO_RUN_ROOT", str(tmp_path / "runs"))
    return tmp_path / "runs"


@pytest.fixture
def dataset(root, tmp_path):
    """Overrides over a dataset that is fetched."""
    made = overrides(write_source(tmp_path / "source.jsonl"))
    (folder,) = fetched(root, standalone.load_request(["checkpoint=x", *made]).evaluation)
    return made, DataPaths(folder)


def refused(words, capsys) -> str:
    """What the command says before it draws anything."""
    capsys.readouterr()
    assert main(["run", *words]) == 1
    return capsys.readouterr().err


def reach_the_hub_at(address, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_TOKEN", raising=False)


def test_a_gated_checkpoint_without_access_says_where_its_terms_are(dataset, monkeypatch, capsys):
    with publisher() as hub:
        hub.token = "hf_secret"
        reach_the_hub_at(hub.address, monkeypatch)
        said = refused(["checkpoint=lab/closed-1b", *dataset[0]], capsys)
    assert "checkpoint=lab/closed-1b is gated: accept its terms at" in said
    assert "huggingface.co/lab/closed-1b and set HF_TOKEN" in said


def test_a_checkpoint_that_the_hub_does_not_have_is_named(dataset, monkeypatch, capsys):
    with publisher() as hub:
        reach_the_hub_at(hub.address, monkeypatch)
        said = refused(["checkpoint=lab/mistyped-1b", *dataset[0]], capsys)
    assert "checkpoint=lab/mistyped-1b is no folder here and no model of the Hub" in said
    assert "check the name; a private model needs HF_TOKEN" in said


def test_a_hub_that_cannot_be_reached_is_said_with_the_remedy(dataset, monkeypatch, capsys):
    reach_the_hub_at("http://127.0.0.1:9", monkeypatch)
    said = refused(["checkpoint=lab/model-1b", *dataset[0]], capsys)
    assert "checkpoint=lab/model-1b is no folder here and cannot be fetched" in said
    assert "HF_ENDPOINT names a mirror), or give a folder" in said


@pytest.mark.parametrize(
    ("device", "target"), [("cpu", "setup-openrlhf-cpu"), ("cuda", "setup-openrlhf")]
)
def test_without_vllm_the_command_that_installs_it_is_named(
    dataset, model, tmp_path, monkeypatch, capsys, device, target
):
    monkeypatch.setattr(engine, "REPOSITORY", tmp_path)
    words = [word for word in dataset[0] if not word.startswith("sampler=")]
    said = refused([f"checkpoint={model}", *words, "sampler=vllm", f"device={device}"], capsys)
    assert "sampler=vllm, but vLLM is not installed here and there is no " in said
    assert f"run `make {target}`, name an interpreter with placement.python=<path>" in said
    assert "or set sampler=transformers" in said


def test_without_vllm_an_interpreter_that_is_named_must_be_there(dataset, model, capsys):
    words = [word for word in dataset[0] if not word.startswith("sampler=")]
    named = "placement.python=/nowhere/bin/python"
    said = refused([f"checkpoint={model}", *words, "sampler=vllm", named], capsys)
    assert "there is no /nowhere/bin/python" in said


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
    copy = other(model, tmp_path / "copy", **changes)
    with pytest.raises(ValueError, match=rule):
        load_whole(copy, "float32")


def test_a_model_without_a_named_architecture_is_refused(dataset, model, tmp_path, capsys):
    copy = other(model, tmp_path / "copy", architectures=None)
    said = refused([f"checkpoint={copy}", *dataset[0]], capsys)
    assert "is a none: only a causal language model (...ForCausalLM in config.json)" in said


def test_a_prepared_benchmark_that_was_changed_is_refused(dataset, model, capsys):
    words, paths = dataset
    table = read_table(paths.problems, PROBLEMS)
    write_table(paths.problems, table.with_columns(gold_used=pl.lit("7")), PROBLEMS)
    said = refused([f"checkpoint={model}", *words, "--dry-run"], capsys)
    wanted = read_json(paths.lock)["result"]["sha256"]
    assert f"{paths.lock} records {wanted}: it was changed or damaged" in said
    assert "fgrpo-bench data <benchmark>" in said


def test_prompts_longer_than_the_context_are_refused_before_anything_is_drawn(
    dataset, model, capsys
):
    context = read_json(model / "config.json")["max_position_embeddings"]
    words = [word for word in dataset[0] if not word.startswith("prompt_tokens")]
    said = refused([f"checkpoint={model}", *words, f"prompt_tokens={context}"], capsys)
    assert f"prompt_tokens and response_tokens are {context + 8} together" in said
    assert f"is {context} tokens (max_position_embeddings): lower response_tokens" in said


NAMES = {
    "run": ["run", "checkpoint=x", "benchmarks=[mth500]"],
    "fetch": ["fetch", "mth500"],
    "import": ["import", "nothing.jsonl", "--benchmark", "mth500", "--name", "mine"],
    "export-lm-eval": ["export-lm-eval", "mth500", "--to", "nowhere"],
}


@pytest.mark.parametrize("command", NAMES)
def test_a_misspelt_benchmark_is_refused_with_the_names_there_are(root, command, capsys):
    assert main(NAMES[command]) in (1, 2)
    said = capsys.readouterr().err
    assert "unknown benchmark 'mth500'" in said
    assert "alid ones are aime24, aime25" in said and "conf/benchmark/" in said


def test_a_config_that_is_no_json_is_named(dataset, model, tmp_path, capsys):
    copy = other(model, tmp_path / "copy")
    (copy / "config.json").write_text(json.dumps({})[:-1])
    said = refused([f"checkpoint={copy}", *dataset[0]], capsys)
    assert f"{copy / 'config.json'} holds no valid JSON" in said
