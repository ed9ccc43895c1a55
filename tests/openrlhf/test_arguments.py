"""What the installed OpenRLHF makes of the golden command lines and of flags that an experiment
names itself.

Why no option is passed that no field sets, the product says itself (arguments.FIXED).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import deepspeed
import pytest
import torch
from openrlhf.utils import get_strategy
from openrlhf.utils.config import hierarchize

from fgrpo_bench.engines.openrlhf.arguments import FIELDS, FIXED, OPEN
from fgrpo_bench.engines.openrlhf.flags import main, openrlhf_parser, parse_flags

pytestmark = pytest.mark.openrlhf

GOLDEN = {
    path.stem: path.read_text().split()
    for path in sorted((Path(__file__).parents[1] / "golden/openrlhf").glob("*.txt"))
}
"""Written from the shipped configuration by tests/engines/openrlhf/test_arguments.py."""

FURTHER = {"ds.lora.rank", "ds.lora.alpha"} | {
    f"algo.advantage.is_correction_{part}" for part in ("mode", "gating", "threshold")
}
"""Named by the experiments of two golden command lines."""
DATED = "logger.wandb.run_name"
"""Its default is the time of day."""


def words(name: str) -> list[str]:
    """What OpenRLHF gets of a golden command line."""
    return [word for i, word in enumerate(GOLDEN[name]) if not _is_ours(GOLDEN[name], i)]


def _is_ours(line: list[str], i: int) -> bool:
    return line[i].startswith("--fgrpo.") or (i > 0 and line[i - 1].startswith("--fgrpo."))


def options(line: list[str]) -> set[str]:
    return {word.removeprefix("--") for word in line if word.startswith("--")}


def is_fixed(name: str) -> bool:
    parts = name.split(".")
    return any(".".join(parts[:i]) in FIXED for i in range(1, len(parts) + 1))


def test_every_flag_of_the_parser_is_a_fields_or_fixed_or_passed_or_left_to_a_known_default(
    golden: Callable[[str, str], None],
) -> None:
    """The golden file has the options that some golden command line leaves to their defaults, and
    which of them an experiment can name itself: look at what is new there."""
    defaults = {
        action.option_strings[-1].removeprefix("--"): action.default
        for action in openrlhf_parser()._actions
        if "--help" not in action.option_strings
    }
    passed = [options(words(name)) for name in GOLDEN]
    assert len(passed) == 10 and set().union(*passed) <= defaults.keys()
    reachable = {name for name in defaults if name not in FIELDS and not is_fixed(name)}
    lines = [
        f"{name} = {'the time of day' if name == DATED else defaults[name]!r}"
        + ", or as an experiment names it" * (name in reachable)
        for name in sorted(defaults.keys() - set.intersection(*passed))
    ]
    golden("openrlhf-defaults.txt", "\n".join(lines) + "\n")
    assert FIELDS.keys() <= defaults.keys(), "this OpenRLHF has them no more"
    known = {"help", *defaults}
    assert all(any(f"{name}.".startswith(f"{word}.") for name in known) for word in FIXED)
    assert set().union(*passed) & reachable == OPEN.keys() | FURTHER
    assert not OPEN.keys() & FIELDS.keys()


@pytest.mark.parametrize("name", GOLDEN)
def test_the_parser_reads_the_values_that_are_meant(name: str) -> None:
    args = parse_flags(words(name))
    low_lr = name.endswith("-lowlr")
    meant = {
        "data.max_len": 5120 if name.startswith("qwen3") else 9216,
        "rollout.batch_size": 256,
        "rollout.n_samples_per_prompt": 8,
        "train.batch_size": 64 * 8,
        "train.max_epochs": 1,
        "train.num_episodes": 10,
        "rollout.max_new_tokens": 4096 if name.startswith("qwen3") else 8192,
        "rollout.temperature": 1.0,
        "rollout.top_p": 1.0,
        "actor.adam.lr": pytest.approx(6.79e-7 if low_lr else 1e-6, rel=1e-3),
        "actor.adam.betas": [0.9, 0.999],
        "actor.adam.eps": 1e-8,
        "actor.adam.weight_decay": 0.01,
        "actor.max_norm": 1.0,
        "actor.lr_scheduler": "constant_with_warmup",
        "actor.lr_warmup_ratio": pytest.approx(59.5 / 6120),
        "actor.eps_clip_low_high": {"dapo": [0.2, 0.28], "cispo": [1.0, 5.0]}.get(
            name.split("-")[-1], [0.2, 0.2]
        ),
        "actor.loss_agg_mode": "token-mean",
        "actor.entropy_coef": 1e-3 if name.endswith("-entropy") else 0.0,
        "algo.kl.init_coef": 1e-3 if name.endswith("-kl") else 0.0,
        "algo.kl.use_loss": name.endswith("-kl"),
        "algo.advantage.estimator": "group_norm",
        "algo.advantage.is_correction_level": "token" if name.endswith("-correction") else "off",
        "ds.lora.rank": 16 if name.endswith("-lora") else 0,
        "algo.dynamic_filtering_enable": False,
        "reward.overlong_buffer_len": None,
        "reward.clip_range": [-10.0, 10.0],
        "train.seed": 11,
        "eval.steps": 25,
        "eval.n_samples_per_prompt": 64,
        "eval.temperature": 1.0,
        "ckpt.load_enable": True,
    }
    assert {option: args[option] for option in meant} == meant


@pytest.mark.parametrize("name", ["qwen2.5-7b-grpo", "qwen2.5-7b-grpo-lowlr"])
def test_the_learning_rate_is_constant_from_the_16th_step_on(name, monkeypatch) -> None:
    """The optimizer and the scheduler are made by OpenRLHF's own strategy; only DeepSpeed, which
    would start processes, is left out."""
    args = hierarchize(SimpleNamespace(**parse_flags(words(name))))
    updates = (  # fgrpo_bench.engines.openrlhf.trainer.prepare_prompts
        int(GOLDEN[name][GOLDEN[name].index("--fgrpo.prompts_per_epoch") + 1])
        * args.rollout.n_samples_per_prompt
        // args.train.batch_size
        * args.train.num_episodes
        * args.train.max_epochs
    )
    assert updates == 10 * 153 * 4
    made = {}

    def initialize(*, model, model_parameters, lr_scheduler, config, **_):
        chosen = config["optimizer"]
        assert chosen["type"] == "AdamW" and config["gradient_clipping"] == 1.0
        made["optimizer"] = torch.optim.AdamW(model_parameters, **chosen["params"])
        return model, made["optimizer"], None, lr_scheduler(made["optimizer"])

    monkeypatch.setattr(deepspeed, "initialize", initialize)
    settings = {
        "optim": args.actor.optim,
        "adam": vars(args.actor.adam),
        "lr_scheduler": args.actor.lr_scheduler,
        "lr_warmup_ratio": args.actor.lr_warmup_ratio,
        "min_lr_ratio": args.actor.min_lr_ratio,
        "max_norm": args.actor.max_norm,
        "scheduler_steps": updates,
    }
    model = torch.nn.Linear(2, 2)
    _, optimizer, scheduler = get_strategy(args)._ds_init_train_model(model, settings)
    rates = []
    for _ in range(updates):
        rates.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    peak = 6.79e-7 if name.endswith("-lowlr") else 1e-6
    wanted = {1: 0.0, 2: peak / 60, 60: peak * 59 / 60, 61: peak, 62: peak, updates: peak}
    assert {update: rates[update - 1] for update in wanted} == pytest.approx(wanted, rel=1e-3)
    (group,) = {tuple(g["betas"]) for g in optimizer.param_groups}
    assert group == (0.9, 0.999)
    assert [g["weight_decay"] for g in optimizer.param_groups] == [0.01, 0.0]  # the last: biases


def test_the_parser_says_what_it_makes_of_flags() -> None:
    read = parse_flags(
        ["--ds.lora.rank", "16", "--algo.advantage.is_correction_threshold", "0", "2"]
    )
    assert (read["ds.lora.rank"], read["algo.advantage.is_correction_threshold"]) == (16, [0, 2])
    assert read["ds.overlap_comm"] is False
    assert main(["--ds.overlap_comm"]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--ds.lora.ranks 16", "has no flag ds.lora.ranks: similar ones are ds.lora.rank, "),
        ("--ds.lora.ran 16", "has no flag ds.lora.ran: similar ones are ds.lora.rank"),
        ("--train.nothing 1", "has no flag train.nothing: "),
        ("--ds.lora.rank many", "refuses it: argument --ds.lora.rank: invalid int value: 'many'"),
        ("--ds.lora.rank", "refuses it: argument --ds.lora.rank: expected one argument"),
        ("--algo.advantage.is_correction_mode cut", "invalid choice: 'cut' (choose from"),
        ("--ds.overlap_comm 3", "refuses it: unrecognized arguments: 3"),
    ],
)
def test_what_the_installed_version_does_not_take_is_refused_with_its_words(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    error = capsys.readouterr().err
    assert error.startswith("OpenRLHF 0.11.2 ") and said in error and error.count("\n") == 1
