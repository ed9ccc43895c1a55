"""Further flags of OpenRLHF: which are refused in the plan, and with whose name."""

from __future__ import annotations

from pathlib import Path

import pytest

from fgrpo_bench.engines.openrlhf import arguments
from fgrpo_bench.engines.openrlhf.arguments import OPEN
from sweeps.plan import make_plan
from tests.support.points import ALGORITHMS, by_option, declared, openrlhfs_words, point


def with_flag(flag: str) -> str:
    return f"+experiment.train.extra.{flag}"


@pytest.mark.slow
def test_every_flag_that_is_passed_is_a_fields_or_fixed_or_open() -> None:
    passed = set()
    for name in ALGORITHMS:
        further = f"algorithms.{name}.dynamic_sampling=true"
        of = point(name, further, "experiment.train.overlong_buffer_tokens=512")
        words = openrlhfs_words(
            of,
            "profile.placement.vllm_enforce_eager=true",
            "profile.placement.adam_offload=true",
            evaluation=Path("/e"),
        )
        passed |= {line.split()[0].removeprefix("--") for line in by_option(words)}
    unexplained = {
        name for name in passed - arguments.FIELDS.keys() if arguments._fixed(name) is None
    }
    assert unexplained == OPEN.keys()
    assert not arguments.FIELDS.keys() & OPEN.keys()


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


def test_cispo_has_no_correction() -> None:
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
    plans = [make_plan(each) for each in (nested, by_name, declared())]
    marks = [{s.fingerprint for s in plan.stages if s.kind == "train"} for plan in plans]
    assert marks[0] == marks[1] and not marks[0] & marks[2]
