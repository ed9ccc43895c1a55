"""TRL's trainers, whose advantages are computed between sampling and loss (TRL 1.16.0).

A model of random weights samples a token; the rewards of the vectors stand in for its own.
"""

from __future__ import annotations

from functools import partial
from tempfile import mkdtemp
from typing import Any

import datasets
import torch
import trl
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from fgrpo_bench.conformance.check import Estimator
from fgrpo_bench.conformance.trainers import Trainer, place
from fgrpo_bench.conformance.vectors import Floats

VOCABULARY = ["<pad>", "<eos>", *"abcdefghijklmnop"]
GROUP = trl.GRPOTrainer, trl.GRPOConfig
LEAVE_ONE_OUT = trl.RLOOTrainer, trl.RLOOConfig


def load() -> Trainer:
    single = ("float32",)  # what TRL makes of any reward
    group = partial(_advantages, *_trainer(*GROUP, scale_rewards="group"))
    none = partial(_advantages, *_trainer(*GROUP, scale_rewards="none"))
    rloo = partial(_advantages, *_trainer(*LEAVE_ONE_OUT))
    whole_batch = "divides by the deviation of the batch (arXiv 2508.08221)"
    where = place(trl.GRPOTrainer._generate_and_score_completions, "/ (std_rewards + 1e-4)")
    estimators = [
        Estimator("GRPOTrainer, scale_rewards=group", "grpo", group, dtypes=single, where=where),
        Estimator("GRPOTrainer, scale_rewards=none", "dr_grpo", none, dtypes=single),
        Estimator("GRPOTrainer, scale_rewards=batch", "", None, why=whole_batch),
        Estimator("RLOOTrainer", "rloo", rloo, dtypes=single),
    ]
    return Trainer(f"TRL {trl.__version__}", estimators, _parts)


def _trainer(
    kind: Any, configuration: Any, *, group_size: int = 2, n_groups: int = 1, **settings: Any
) -> tuple[Any, dict[str, Any]]:
    """A trainer and what its reward function reads: `rewards`, next, and writes: `prompts`."""
    state: dict[str, Any] = {}

    def reward(prompts: list[str], **_: Any) -> list[float]:
        state["prompts"] = prompts
        rewards: list[float] = state["rewards"]
        return rewards

    numbers = {word: i for i, word in enumerate(VOCABULARY)}
    by_word = Tokenizer(models.WordLevel(numbers, unk_token="a"))
    by_word.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    sizes: Any = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    config = Qwen2Config(
        vocab_size=len(VOCABULARY), num_attention_heads=1, num_key_value_heads=1, **sizes
    )
    arguments = configuration(
        output_dir=mkdtemp(prefix="conform-"), num_generations=group_size,
        per_device_train_batch_size=n_groups * group_size, max_completion_length=1, bf16=False,
        use_cpu=True, report_to=[], **settings, **({"beta": 0.0} if kind is trl.RLOOTrainer else {})
    )  # fmt: skip
    prompts = datasets.Dataset.from_dict({"prompt": VOCABULARY[2:][:n_groups]})
    fast: Any = PreTrainedTokenizerFast
    tokenizer = fast(
        tokenizer_object=by_word, eos_token="<eos>", pad_token="<pad>", padding_side="left"
    )
    model = Qwen2ForCausalLM(config)
    return kind(model, reward, arguments, prompts, processing_class=tokenizer), state


def _advantages(trainer: Any, state: dict[str, Any], rewards: Floats) -> Any:
    state["rewards"] = rewards.flatten().tolist()
    trainer.num_generations = rewards.shape[1]
    trainer.model.train()
    output = trainer._generate_and_score_completions([{"prompt": "a"} for _ in rewards.flat])
    return output["advantages"].reshape(rewards.shape)


def _parts(rewards: Floats) -> list[list[int]]:
    """TRL filters nothing: prompts as its sampler draws them, cut into groups as it cuts them."""
    n_groups, size = rewards.shape
    trainer, state = _trainer(*GROUP, group_size=size, n_groups=n_groups)
    state["rewards"] = rewards.flatten().tolist()
    trainer.model.train()
    trainer._generate_and_score_completions(next(iter(trainer.get_train_dataloader())))
    chosen = torch.tensor([VOCABULARY.index(prompt) - 2 for prompt in state["prompts"]])
    copies = torch.stack([(chosen[:i] == group).sum() for i, group in enumerate(chosen)])
    parts: list[list[int]] = (chosen * size + copies).view(-1, size).tolist()
    return parts
