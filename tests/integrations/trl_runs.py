"""A tiny GRPO run of TRL on processors: a model of random weights, a vocabulary of eight tokens.

`python -m tests.integrations.trl_runs <folder>` is one process of a run over several; it writes
what its steps recorded to <folder>/<rank>.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import datasets
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from fgrpo_bench.integrations.trl import FocalGRPOTrainer

GROUP_SIZE, N_GROUPS = 4, 4
WORDS = ["<pad>", "<eos>", "a", "b", "c", "d", "e", "f"]
PROMPTS = ["a b", "c d", "e f", "b a"]


def by_prompt(prompts, completions, **_):
    """1 for a completion of at most two tokens; always to the prompt `a b`, never to `c d`."""
    always = {"a b": 1.0, "c d": 0.0}
    return [
        always.get(prompt, float(len(text.split()) < 3))
        for prompt, text in zip(prompts, completions, strict=True)
    ]


class Records:
    """Keeps what each step made, with log-probabilities by a pass of its own."""

    def __init__(self, *args, **kwargs):
        self.steps = []
        super().__init__(*args, **kwargs)

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], 1)
        attention = torch.cat([output["prompt_mask"], output["completion_mask"]], 1)
        length = output["completion_ids"].shape[1]
        with torch.no_grad():
            logits = self.model(input_ids=ids, attention_mask=attention).logits[:, -length - 1 : -1]
        scored = logits.log_softmax(-1).gather(2, output["completion_ids"][:, :, None])[:, :, 0]
        mask = output["completion_mask"]
        self.steps.append(
            {
                "rewards": torch.tensor([*self._logs["rewards"].values()]).T,
                "advantages": output["advantages"].clone(),
                "logged": [*self._logs["advantages"]],
                "mask": mask,
                "log_probs": (scored * mask).sum(1),
                "n_tokens": mask.sum(1),
                "has_log_probs": "old_per_token_logps" in output,
            }
        )
        return output

    def _compute_loss(self, model, inputs):
        self.loss = super()._compute_loss(model, inputs)
        return self.loss


class Ours(Records, FocalGRPOTrainer):
    pass


class Theirs(Records, GRPOTrainer):
    pass


def model():
    config = Qwen2Config(
        vocab_size=len(WORDS),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=32,
        eos_token_id=1,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    return Qwen2ForCausalLM(config)


def tokenizer():
    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="a"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token="<eos>", pad_token="<pad>", padding_side="left"
    )


def trainer(folder, *, reward_funcs=by_prompt, configuration=None, kind=Ours, **settings):
    """Not trained yet; `settings` are those of FocalGRPOTrainer."""
    return kind(
        model(),
        reward_funcs,
        GRPOConfig(
            **{
                "output_dir": str(folder),
                "per_device_train_batch_size": GROUP_SIZE * N_GROUPS,
                "num_generations": GROUP_SIZE,
                "max_completion_length": 4,
                "max_steps": 3,
                "learning_rate": 0.01,
                "bf16": False,
                "use_cpu": True,
                "report_to": [],
                "save_strategy": "no",
                "logging_strategy": "no",
                "disable_tqdm": True,
                **(configuration or {}),
            }
        ),
        datasets.Dataset.from_dict({"prompt": PROMPTS}),
        processing_class=tokenizer(),
        **settings,
    )


def main(folder: Path) -> None:
    """One group over all processes."""
    whole = {"per_device_train_batch_size": GROUP_SIZE, "num_generations": 2 * GROUP_SIZE}
    run = trainer(folder, advantage="unlikeliness", parameters={"beta": 0.5}, configuration=whole)
    run.train()
    steps = [
        {
            "rewards": step["rewards"][:, 0].tolist(),
            **{name: step[name].tolist() for name in ("advantages", "log_probs", "n_tokens")},
        }
        for step in run.steps
    ]
    rank = run.accelerator.process_index
    (folder / f"{rank}.json").write_text(json.dumps(steps), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
