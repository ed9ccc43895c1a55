"""What leaves a policy with adapters: whole weights by the base model's names."""

from __future__ import annotations

import pytest
import torch
from peft import LoraConfig, TaskType, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from fgrpo_bench.engines.openrlhf import policy

pytestmark = pytest.mark.openrlhf


def adapted(base, target_modules="all-linear", dtype=torch.bfloat16):
    """A model with adapters that change something, as OpenRLHF makes them."""
    model = AutoModelForCausalLM.from_pretrained(base, dtype=dtype)
    config = LoraConfig(
        task_type=TaskType.CAUSAL_LM,
        r=4,
        lora_alpha=8,
        target_modules=target_modules,
        lora_dropout=0,
        bias="none",
    )
    torch.manual_seed(5)
    model = get_peft_model(model, config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05)
    return model


def copies(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def test_vllm_gets_the_base_models_names_and_the_adapters_in_the_weights(model):
    trained, before = adapted(model), load_file(model / "model.safetensors")
    own = copies(trained)
    with policy.merged(trained, zero_stage=2):
        sent = copies(trained)
    assert sent.keys() == before.keys()
    changed = {name for name in before if not torch.equal(sent[name], before[name].bfloat16())}
    assert changed == {name for name in before if name.endswith("_proj.weight")}
    name = "model.layers.1.self_attn.q_proj"
    a, b = (own[f"{policy.PREFIX}{name}.lora_{x}.default.weight"].float() for x in "AB")
    whole = before[f"{name}.weight"].bfloat16().float() + 8 / 4 * b @ a
    assert torch.equal(sent[f"{name}.weight"], whole.bfloat16())


def test_afterwards_the_weights_are_what_they_were_to_the_bit(model):
    trained = adapted(model)
    own = copies(trained)
    with pytest.raises(RuntimeError, match="cut off"), policy.merged(trained, zero_stage=2):
        raise RuntimeError("cut off")
    after = copies(trained)
    assert after.keys() == own.keys()
    assert all(torch.equal(after[name], own[name]) for name in own)


def test_an_export_is_a_checkpoint_that_computes_what_the_policy_computes(model, tmp_path):
    trained, tokenizer = adapted(model, dtype=torch.float32), AutoTokenizer.from_pretrained(model)
    policy.export(trained, tokenizer, tmp_path, zero_stage=2, writes=True)
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {
        path.name for path in tmp_path.iterdir()
    }
    exported = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    tokens = torch.arange(12)[None]
    with torch.no_grad():
        got, wanted, former = (each(tokens).logits for each in (exported, trained, base))
    torch.testing.assert_close(got, wanted, atol=1e-4, rtol=1e-4)
    assert (wanted - former).abs().max() > 0.1


@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`")
def test_adapters_on_anything_but_linear_layers_are_refused_by_name(model):
    with pytest.raises(ValueError, match=r"embed_tokens has an adapter and is no linear layer"):
        policy.check(adapted(model, target_modules=["embed_tokens"]))


def test_a_policy_without_adapters_is_known_as_one(model):
    trained = adapted(model)
    policy.check(trained)
    assert policy.has_adapters(trained)
    assert not policy.has_adapters(AutoModelForCausalLM.from_pretrained(model))
