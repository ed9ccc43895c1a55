"""Which flags of OpenRLHF an experiment can name itself, against the installed parser."""

from __future__ import annotations

import pytest

from fgrpo_bench.engines.openrlhf.arguments import FIELDS, FIXED, OPEN
from fgrpo_bench.engines.openrlhf.flags import main, openrlhf_parser, parse_flags

pytestmark = pytest.mark.openrlhf

REACHABLE = {
    "actor.dual_clip",
    "actor.freeze_visual_encoder",
    "actor.gradient_checkpointing_reentrant",
    "algo.advantage.is_correction_gating",
    "algo.advantage.is_correction_mode",
    "algo.advantage.is_correction_threshold",
    "algo.kl.unbiased_gradient",
    "ds.deepcompile",
    "ds.experts_implementation",
    "ds.grad_accum_dtype",
    "ds.lora.alpha",
    "ds.lora.dropout",
    "ds.lora.rank",
    "ds.lora.target_modules",
    "ds.overlap_comm",
    "ds.use_liger_kernel",
    "ds.zpg",
    "ref.offload",
    "reward.stop_properly_penalty_coef",
    "train.colocate_actor_ref",
    "train.full_determinism_enable",
    "vllm.sync_with_ray",
} | OPEN.keys()


def beginnings(name: str) -> set[str]:
    parts = name.split(".")
    return {".".join(parts[: i + 1]) for i in range(len(parts))}


def test_every_flag_of_the_parser_is_a_fields_or_fixed_or_reachable() -> None:
    known = {flag.removeprefix("--") for flag in openrlhf_parser()._option_string_actions} - {"-h"}
    fixed = {name for name in known if beginnings(name) & FIXED.keys()}
    assert known - FIELDS.keys() - fixed == REACHABLE - FIXED.keys() == REACHABLE
    assert FIELDS.keys() <= known, "this OpenRLHF has them no more"
    assert all(any(word in beginnings(name) for name in known) for word in FIXED)


def test_the_parser_says_what_it_makes_of_flags() -> None:
    told = parse_flags(
        ["--ds.lora.rank", "16", "--algo.advantage.is_correction_threshold", "0", "2"]
    )
    assert (told["ds.lora.rank"], told["algo.advantage.is_correction_threshold"]) == (16, [0, 2])
    assert told["ds.overlap_comm"] is False
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
