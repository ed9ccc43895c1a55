"""A training spec as processors can run it: few and short draws, and a tiny model in its model's
place, of the same architecture and with the same tokenizer.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from fgrpo_bench.data.fetch import TRUST, check_remote_code, is_no_weight, without_weights
from fgrpo_bench.data.published import parameters_in
from fgrpo_bench.engines.openrlhf.arguments import OpenRLHFTrain
from fgrpo_bench.specs import PretrainedSpec

STEPS, PROMPTS, RESPONSE_TOKENS = 4, 16, 32
"""Of a rehearsal, at most: two epochs of two checkpoints, in minutes; prompts are of a step."""
PROBLEMS, DRAWS = 8, 4
"""Of its evaluations during training."""
SHRUNK: dict[str, Any] = {
    **{"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "head_dim": 32},
    **{"num_attention_heads": 2, "num_key_value_heads": 1, "max_window_layers": 2},
}
"""Of a model's config.json, where it has them: heads of 32, the least that vLLM takes on a CPU."""


def rehearsed(train: OpenRLHFTrain, folder: Path) -> OpenRLHFTrain:
    """The spec of a rehearsal; OSError where the model's config and tokenizer cannot be had.

    folder: where tiny models are put, and are there for the next time.
    """
    per_step = max(PROMPTS // train.updates_per_batch, 1) * train.updates_per_batch
    per_epoch = min(train.steps // train.epochs, STEPS // 2)
    steps = min(train.steps, STEPS) // per_epoch * per_epoch
    buffer, warmup = train.overlong_buffer_tokens, train.lr_warmup_updates
    return replace(
        train,
        pretrained=None if train.pretrained is None else tiny(train.pretrained, folder),
        steps=steps,
        epochs=steps // per_epoch,
        prompts_per_step=train.prompts_per_step and min(train.prompts_per_step, per_step),
        rollouts_per_step=train.rollouts_per_step and min(train.rollouts_per_step, 4 * per_step),
        lr_warmup_steps=train.lr_warmup_steps and 1,
        lr_warmup_updates=warmup and min(warmup, train.updates_per_batch),
        response_tokens=min(train.response_tokens, RESPONSE_TOKENS),
        overlong_buffer_tokens=buffer and min(buffer, RESPONSE_TOKENS // 2),
        save_every=2,
        eval_every=min(train.eval_every, 2),
        eval_n_problems=min(train.eval_n_problems, PROBLEMS),
        eval_n_samples=min(train.eval_n_samples, DRAWS),
        batch_invariant=False,  # which is of GPUs
    )


def tiny(model: PretrainedSpec, below: Path) -> PretrainedSpec:
    """A model of random weights in a folder below another one, made once."""
    source, trusted = without_weights(model), model.trust_remote_code
    check_remote_code(source, trusted=trusted, remedy=TRUST)
    names = sorted(file for file in source.iterdir() if is_no_weight(file))
    digest = hashlib.sha256()
    for file in names:
        digest.update(file.name.encode() + file.read_bytes())
    folder = below.absolute() / f"{model.name}-{digest.hexdigest()[:8]}"
    if not folder.exists():
        _make(names, source, folder, trusted=trusted)
    return PretrainedSpec(
        name=model.name,
        path=str(folder),
        revision=None,
        parameters=parameters_in(folder),
        trust_remote_code=trusted,
    )


def _make(names: list[Path], source: Path, folder: Path, *, trusted: bool) -> None:
    """ValueError where transformers knows no such architecture, or cannot make it small."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    aside = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    torch.manual_seed(0)  # so that a rerun would make the same
    try:
        config = AutoConfig.from_pretrained(source, trust_remote_code=trusted)
        for field, value in SHRUNK.items():
            if getattr(config, field, None) is not None:
                # configs are of a class each, with these fields or without
                setattr(config, field, value)
        if getattr(config, "layer_types", None):
            config.layer_types = config.layer_types[: config.num_hidden_layers]
        models: Any = AutoModelForCausalLM
        models.from_config(config, trust_remote_code=trusted).save_pretrained(aside)
    except (ValueError, AttributeError, KeyError, TypeError, RuntimeError) as error:
        raise ValueError(
            f"no tiny model can be made of {source}/config.json ({str(error).splitlines()[0]}): "
            "rehearse with another model of its family, by experiment.train.pretrained.path"
        ) from error
    for file in names:
        if file.name != "config.json":
            shutil.copyfile(file, aside / file.name)
    aside.replace(folder)
