"""The command line that OpenRLHF gets, against golden files, and which further flags are refused in
the plan; tests/sweeps/test_paper_settings.py holds it against the paper."""

from __future__ import annotations

from functools import partial
from math import ceil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgrpo_bench.engines.openrlhf.arguments import (
    arguments,
    batches,
    warmup_ratio,
)
from fgrpo_bench.engines.openrlhf.engine import ENGINE
from fgrpo_bench.specs import SweepPoint
from sweeps.plan import make_plan
from tests.support.plans import loaded
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

EXTRAS = ("lora", "rollout-correction")


def with_extra(name: str) -> SweepPoint:
    return point("grpo", f"+extra@experiment.train.extra={name}")


SHIPPED = {f"qwen2.5-7b-{name}": partial(point, name) for name in ALGORITHMS}
SHIPPED |= {f"{name}-grpo": partial(point, experiment=name) for name in EXPERIMENTS[1:]}
SHIPPED |= {f"qwen2.5-7b-grpo-{name}": partial(with_extra, name) for name in EXTRAS}
"""By golden file; composed in the test that asks, for to collect them takes as long."""


def options_of(words: list[str]) -> dict[str, list[str]]:
    """Values of every option, by its name without dashes; none may be given twice."""
    lines = [line.split() for line in by_option(words)]
    assert len({line[0] for line in lines}) == len(lines)
    return {line[0].removeprefix("--"): line[1:] for line in lines}


@pytest.mark.parametrize("name", SHIPPED)
def test_the_command_line_of_what_is_shipped_is_the_golden_one(name, golden):
    golden(f"openrlhf/{name}.txt", command_line(SHIPPED[name]()))


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


@pytest.mark.parametrize("group_size", [2, 32])
def test_a_step_has_256_prompts_in_mini_batches_of_64_whatever_the_group_size(group_size):
    it = point(group_size=group_size)
    flags = options_of(openrlhfs_words(it))
    assert flags["rollout.batch_size"] == ["256"]  # prompts
    assert flags["rollout.vllm_generate_batch_size"] == ["256"]
    assert flags["rollout.n_samples_per_prompt"] == [str(group_size)]
    assert flags["train.batch_size"] == [str(64 * group_size)]  # samples
    assert it.train.steps * 4 == batches(it).updates == 10 * 153 * 4


def test_a_warm_up_is_counted_in_steps_or_in_updates():
    in_updates = ["experiment.train.lr_warmup_updates=15", "experiment.train.lr_warmup_steps=null"]
    flags = options_of(openrlhfs_words(point("grpo", *in_updates)))
    assert ceil(6120 * float(flags["actor.lr_warmup_ratio"][0])) == 15
    rule = "lr_warmup_updates=15 and lr_warmup_steps=15: the warm-up is counted in one of them"
    with pytest.raises(ValueError, match=rule):
        point("grpo", *in_updates[:1])


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


@pytest.mark.slow
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
    plan = make_plan(loaded(sweep, *overrides))
    assert plan.declaration.experiment.name == experiment
    assert {p.group_size for p in plan.points} == {8}
    gammas = {"grpo": {0.0, 0.5}, "dapo": {0.0, dapo}, "cispo": {0.0, cispo}}
    for name, expected in gammas.items():
        assert {p.focal_gamma for p in plan.points if p.algorithm.name == name} == expected


def test_dynamic_sampling_may_draw_an_epochs_prompts_several_times_over():
    it = point("dapo", "algorithms.dapo.dynamic_sampling=true")
    flags = options_of(openrlhfs_words(it))
    assert flags["algo.dynamic_filtering_range"] == ["0", "1"]
    assert flags["train.num_episodes"] == ["160"]
    ratio = float(flags["actor.lr_warmup_ratio"][0])
    assert ceil(batches(it).updates * ratio) == 60  # the schedule is as long as the episodes


def test_an_overlong_penalty_is_passed_where_it_is_asked_for():
    flags = options_of(
        openrlhfs_words(point("dapo", "experiment.train.overlong_buffer_tokens=1024"))
    )
    assert flags["reward.overlong_buffer_len"] == ["1024"]
    assert flags["reward.overlong_penalty_factor"] == ["1.0"]


def test_evaluation_is_passed_with_its_prompts_and_is_off_without():
    path = "/runs/point/openrlhf/evaluation.jsonl"
    off, on = (options_of(openrlhfs_words(point(), evaluation=e)) for e in (None, Path(path)))
    assert "eval.dataset" not in off and off["eval.steps"] == ["-1"]
    assert (on["eval.dataset"], on["eval.steps"]) == ([path], ["25"])
    assert (on["eval.temperature"], on["eval.n_samples_per_prompt"]) == (["1.0"], ["64"])


def test_processors_have_neither_nccl_nor_sleep_mode():
    placement = declared().profile.placement
    gpu, cpu = (
        options_of(arguments(point(), placement, files(), nodes=2, device=device))
        for device in ("cuda", "cpu")
    )
    assert gpu["vllm.sync_backend"] == ["nccl"] and cpu["vllm.sync_backend"] == ["gloo"]
    assert {"vllm.enable_sleep", "ds.enable_sleep"} <= gpu.keys() - cpu.keys()
    assert gpu["actor.num_nodes"] == gpu["ref.num_nodes"] == ["2"]


def test_further_flags_end_the_command_line_and_change_nothing_else():
    base = by_option(openrlhfs_words(point()))
    lora, correction = (by_option(openrlhfs_words(with_extra(e))) for e in EXTRAS)
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


def with_flag(flag: str) -> str:
    return f"+experiment.train.extra.{flag}"


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("train.seed=5", "has train.seed, which sweep.grid.seed sets: set that, and leave it out"),
        ("ds.zero_stage=2", "which profile.placement.zero_stage sets"),
        (
            "actor.lr_warmup_ratio=0.1",
            "which experiment.train.lr_warmup_steps or lr_warmup_updates",
        ),
        ("critic.adam.lr=0.1", "critic.adam.lr: group-normalised advantages have no critic; leave"),
        ("logger.wandb.key=secret", "has logger.wandb.key: metrics go into the stage's file"),
        ("ds.lora.alpha=32", "ds.lora.alpha=32, which does nothing without ds.lora.rank: add"),
        (
            "algo.advantage.is_correction_mode=clip",
            "nothing without algo.advantage.is_correction_le",
        ),
    ],
)
def test_a_flag_that_is_not_to_be_had_is_refused_in_the_plan(flag: str, said: str) -> None:
    with pytest.raises(ValueError) as refused:
        make_plan(declared(with_flag(flag)))
    assert said in str(refused.value)
    assert str(refused.value).startswith("experiment.train.extra has ")


def test_cispo_has_no_correction_of_rollouts() -> None:
    chosen = ["sweep.grid.algorithm=[cispo]", "sweep.cells=[]"]
    with pytest.raises(ValueError, match=r"which cispo does not have \(objective=cispo\)"):
        make_plan(declared(*chosen, "+extra@experiment.train.extra=rollout-correction"))


@pytest.mark.parametrize(
    "value", ["null", "false", "'--train.seed'", "'a b'", "[]", "[1,[2]]", "''"]
)
def test_a_value_that_is_no_word_of_a_command_line_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r"ds\.zpg=.* is no value of a flag: give true for a bare"):
        declared(with_flag(f"ds.zpg={value}"))


def test_flags_are_the_same_nested_or_by_their_whole_names_and_are_identity() -> None:
    nested = declared(with_flag("ds.lora.rank=16"), with_flag("ds.zpg=2"))
    by_name = declared("+experiment.train.extra={ds.zpg:2,ds.lora.rank:16}")
    plans = [make_plan(made) for made in (nested, by_name, declared())]
    marks = [{s.fingerprint for s in plan.stages if s.kind == "train"} for plan in plans]
    assert marks[0] == marks[1] and not marks[0] & marks[2]
