"""The command line that OpenRLHF gets, against the paper's settings and golden files."""

from __future__ import annotations

from math import ceil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgrpo_bench.engines.openrlhf.arguments import arguments, batches, warmup_ratio
from fgrpo_bench.engines.openrlhf.engine import ENGINE
from fgrpo_bench.specs import config
from fgrpo_bench.stats.selection import saved_steps
from sweeps.plan import make_plan
from tests.support.points import (
    ALGORITHMS,
    EXPERIMENTS,
    by_option,
    command_line,
    declared,
    files,
    openrlhfs_words,
    point,
)

SHIPPED = {f"qwen2.5-7b-{name}": point(name) for name in ALGORITHMS}
SHIPPED |= {f"{name}-grpo": point(experiment=name) for name in EXPERIMENTS[1:]}
EXTRAS = ("lora", "rollout-correction")
SHIPPED |= {
    f"qwen2.5-7b-grpo-{name}": point("grpo", f"+extra@experiment.train.extra={name}")
    for name in EXTRAS
}
GROUP_SIZES = (2, 4, 8, 16, 32)


def told(words: list[str]) -> dict[str, list[str]]:
    """Values of every option, by its name without dashes; none may be given twice."""
    lines = [line.split() for line in by_option(words)]
    assert len({line[0] for line in lines}) == len(lines)
    return {line[0].removeprefix("--"): line[1:] for line in lines}


@pytest.mark.parametrize("name", SHIPPED)
def test_the_command_line_of_what_is_shipped_is_the_golden_one(name, golden):
    golden(f"openrlhf/{name}.txt", command_line(SHIPPED[name]))


def test_batch_invariant_rollouts_are_asked_for_and_refused_where_there_are_none():
    asked = "+experiment.train.batch_invariant=true"
    invariant, other = point("grpo", asked), point("grpo")
    words, plain = command_line(invariant).split(), command_line(other).split()
    assert set(words) - set(plain) == {"--fgrpo.batch_invariant"}
    assert ENGINE.identity(invariant.train) == ENGINE.identity(other.train) | {
        "batch_invariant": True
    }
    ENGINE.check(invariant, declared(asked).profile)
    for override, rule in (
        ("profile.device=cpu", r"device=cpu: vLLM has .* for GPUs alone; set .*invariant=false"),
        ("profile.placement.colocate=false", r"share an NCCL group .* or colocate=true"),
    ):
        with pytest.raises(ValueError, match=rule):
            ENGINE.check(invariant, declared(asked, override).profile)


@pytest.mark.parametrize("experiment", EXPERIMENTS)
@pytest.mark.parametrize("group_size", GROUP_SIZES)
@pytest.mark.slow
def test_a_step_has_256_prompts_in_mini_batches_of_64_whatever_the_group_size(
    experiment, group_size
):
    it = point(experiment=experiment, group_size=group_size)
    flags = told(openrlhfs_words(it))
    assert flags["rollout.batch_size"] == ["256"]  # prompts
    assert flags["rollout.vllm_generate_batch_size"] == ["256"]
    assert flags["rollout.n_samples_per_prompt"] == [str(group_size)]
    assert flags["train.batch_size"] == [str(64 * group_size)]  # samples
    assert flags["train.max_epochs"] == ["1"]
    assert flags["train.num_episodes"] == ["10"]
    assert it.train.steps * 4 == batches(it).updates == 10 * 153 * 4


@pytest.mark.parametrize(
    ("experiment", "response"),
    [("qwen2.5-7b", 8192), ("qwen3-4b-base", 4096), ("llama3.2-3b", 8192)],
)
def test_lengths_sampling_and_epochs_are_the_papers(experiment, response):
    it = point(experiment=experiment)
    flags = told(openrlhfs_words(it))
    assert flags["rollout.max_new_tokens"] == [str(response)]
    assert flags["data.max_len"] == [str(1024 + response)]
    assert (flags["rollout.temperature"], flags["rollout.top_p"]) == (["1.0"], ["1.0"])
    assert it.train.steps // it.train.epochs == it.train.save_every == 39202 // 256
    assert it.train.epochs == 10
    assert saved_steps(steps=it.train.steps, save_every=it.train.save_every) == [
        *range(153, 1531, 153)
    ]
    assert it.train.prompt.system == (
        "Please reason step by step, and put your final answer within \\boxed{}."
    )
    assert "reward.overlong_buffer_len" not in flags
    assert "algo.dynamic_filtering_enable" not in flags


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_the_optimizer_is_the_papers(experiment):
    flags = told(openrlhfs_words(point(experiment=experiment)))
    assert flags["actor.optim"] == ["adam"]
    assert float(flags["actor.adam.lr"][0]) == 1e-6
    assert [float(beta) for beta in flags["actor.adam.betas"]] == [0.9, 0.999]
    assert float(flags["actor.adam.weight_decay"][0]) == 0.01
    assert float(flags["actor.max_norm"][0]) == 1.0
    assert flags["actor.lr_scheduler"] == ["constant_with_warmup"]
    assert ceil(6120 * float(flags["actor.lr_warmup_ratio"][0])) == 15 * 4  # 15 steps


def test_a_warm_up_is_counted_in_steps_or_in_updates():
    in_updates = ["experiment.train.lr_warmup_updates=15", "experiment.train.lr_warmup_steps=null"]
    flags = told(openrlhfs_words(point("grpo", *in_updates)))
    assert ceil(6120 * float(flags["actor.lr_warmup_ratio"][0])) == 15
    rule = "lr_warmup_updates=15 and lr_warmup_steps=15: the warm-up is counted in one of them"
    with pytest.raises(ValueError, match=rule):
        point("grpo", *in_updates[:1])


@pytest.mark.parametrize(
    ("algorithm", "bounds"),
    [("grpo", ["0.2", "0.2"]), ("dapo", ["0.2", "0.28"]), ("cispo", ["1.0", "5.0"])],
)
def test_clip_bounds_and_aggregation_are_the_papers(algorithm, bounds):
    flags = told(openrlhfs_words(point(algorithm)))
    assert flags["actor.eps_clip_low_high"] == bounds
    assert flags["actor.loss_agg_mode"] == ["token-mean"]
    assert flags["algo.kl.init_coef"] == ["0.0"] and "algo.kl.use_loss" not in flags
    assert flags["actor.entropy_coef"] == ["0.0"]


def test_controls_differ_from_grpo_in_what_they_control_alone():
    base = set(by_option(openrlhfs_words(point())))
    others = {
        name: set(by_option(openrlhfs_words(point(name)))) - base
        for name in ("grpo-lowlr", "grpo-entropy", "grpo-kl", "cispo", "dapo")
    }
    (low,) = others.pop("grpo-lowlr")
    assert low.startswith("--actor.adam.lr ") and float(low.split()[1]) == pytest.approx(
        6.79e-7, rel=1e-3
    )
    assert others == {
        "grpo-entropy": {"--actor.entropy_coef 0.001"},
        "grpo-kl": {"--algo.kl.init_coef 0.001", "--algo.kl.use_loss", "--algo.kl.estimator k3"},
        "cispo": {"--actor.eps_clip_low_high 1.0 5.0"},
        "dapo": {"--actor.eps_clip_low_high 0.2 0.28"},
    }


@pytest.mark.parametrize(
    ("sweep", "experiment", "dapo", "cispo"),
    [
        ("transfer", "qwen2.5-7b", 0.5, 1.0),
        ("transfer-llama3.2-3b", "llama3.2-3b", 1.0, 0.5),
        ("transfer-qwen3-4b-base", "qwen3-4b-base", 0.5, 0.5),
    ],
)
def test_transfer_has_the_gammas_of_the_papers_table_7(sweep, experiment, dapo, cispo):
    overrides = ["profile=slurm-8gpu"] + (
        [f"experiment={experiment}"] if sweep == "transfer" else []
    )
    plan = make_plan(config.load(sweep, overrides))
    assert plan.declaration.experiment.name == experiment
    assert {p.group_size for p in plan.points} == {8}
    gammas = {"grpo": {0.0, 0.5}, "dapo": {0.0, dapo}, "cispo": {0.0, cispo}}
    for name, expected in gammas.items():
        assert {p.focal_gamma for p in plan.points if p.algorithm.name == name} == expected


def test_dynamic_sampling_may_draw_an_epochs_prompts_several_times_over():
    it = point("dapo", "algorithms.dapo.dynamic_sampling=true")
    flags = told(openrlhfs_words(it))
    assert flags["algo.dynamic_filtering_range"] == ["0", "1"]
    assert flags["train.num_episodes"] == ["160"]
    ratio = float(flags["actor.lr_warmup_ratio"][0])
    assert ceil(batches(it).updates * ratio) == 60  # the schedule is as long as the episodes


def test_an_overlong_penalty_is_passed_where_it_is_asked_for():
    flags = told(openrlhfs_words(point("dapo", "experiment.train.overlong_buffer_tokens=1024")))
    assert flags["reward.overlong_buffer_len"] == ["1024"]
    assert flags["reward.overlong_penalty_factor"] == ["1.0"]


def test_evaluation_is_passed_with_its_prompts_and_is_off_without():
    path = "/runs/point/openrlhf/evaluation.jsonl"
    off, on = (told(openrlhfs_words(point(), evaluation=e)) for e in (None, Path(path)))
    assert "eval.dataset" not in off and off["eval.steps"] == ["-1"]
    assert (on["eval.dataset"], on["eval.steps"]) == ([path], ["25"])
    assert (on["eval.temperature"], on["eval.n_samples_per_prompt"]) == (["1.0"], ["64"])


def test_processors_have_neither_nccl_nor_sleep_mode():
    placement = declared().profile.placement
    gpu, cpu = (
        told(arguments(point(), placement, files(), nodes=2, device=device))
        for device in ("cuda", "cpu")
    )
    assert gpu["vllm.sync_backend"] == ["nccl"] and cpu["vllm.sync_backend"] == ["gloo"]
    assert {"vllm.enable_sleep", "ds.enable_sleep"} <= gpu.keys() - cpu.keys()
    assert gpu["actor.num_nodes"] == gpu["ref.num_nodes"] == ["2"]


def test_further_flags_end_the_command_line_and_change_nothing_else():
    base = by_option(openrlhfs_words(point()))
    lora, correction = (by_option(openrlhfs_words(SHIPPED[f"qwen2.5-7b-grpo-{e}"])) for e in EXTRAS)
    assert lora == [*base, "--ds.lora.alpha 32", "--ds.lora.rank 16"]
    off = base.index("--algo.advantage.is_correction_level off")
    assert correction[:off] == base[:off]
    assert sorted(correction[off:]) == sorted(
        [
            "--actor.aux_loss_coef 0.0",
            "--algo.advantage.is_correction_level token",
            "--algo.advantage.is_correction_mode clip",
            "--algo.advantage.is_correction_gating ratio",
            "--algo.advantage.is_correction_threshold 0.0 2.0",
        ]
    )


def test_prompts_that_fill_no_mini_batches_are_refused():
    it = point("grpo", "experiment.train.prompts_per_step=254")
    with pytest.raises(
        ValueError, match=r"254 prompts per step, no multiple of updates_per_batch=4"
    ):
        batches(it)


@given(st.integers(1, 10_000_000), st.data())
def test_the_ratio_gives_exactly_the_warm_up_updates_that_are_asked_for(updates, data):
    warmup = data.draw(st.integers(0, updates))
    assert ceil(updates * warmup_ratio(warmup_updates=warmup, updates=updates)) == warmup
