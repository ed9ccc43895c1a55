"""A sweep that shows again, on other seeds, what another one found."""

from __future__ import annotations

import shutil

import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.report.words import answer
from sweeps.cli import main
from tests.support.report import constant, small_sweep
from tests.support.synthetic import SMALL

CELLS = ["sweep.grid.group_size=[8]", "sweep.cells=[]", "sweep.grid.focal_gamma=[0,1]"]
AGAIN = [
    *CELLS,
    "version=again",
    "sweep.grid.seed=[21,22,23]",
    "sweep.replicates=groupsize/countdown/v1",
]
LIKE_SMALL = [*SMALL, "sweep.family.ks=null"]
HELPS, HARMS = constant(Base=0.2, GRPO=0.05, F_GRPO=0.2), constant(Base=0.2, GRPO=0.2, F_GRPO=0.05)


def said_of(root, *, first, again):
    small_sweep(root, "groupsize", *CELLS, success_rates=first)
    return answer(analyse(small_sweep(root, "groupsize", *AGAIN, success_rates=again)))


@pytest.mark.slow
def test_a_result_that_is_significant_in_both_is_replicated_and_both_are_printed(tmp_path):
    said = said_of(tmp_path, first=HELPS, again=HELPS)
    (at_8,) = [line for line in said if line.startswith("Replicated, gamma = 1 (pass@1)")]
    here, there = at_8.split(" in groupsize/countdown/v1, ")
    assert "significant" in here and "significant" in there and there.endswith(" here.")


@pytest.mark.slow
@pytest.mark.parametrize("again", [HARMS, constant(Base=0.2, GRPO=0.1, F_GRPO=0.1)])
def test_a_result_of_the_other_sign_or_of_none_is_not(tmp_path, again):
    said = said_of(tmp_path, first=HELPS, again=again)
    assert any(line.startswith("Not replicated, gamma = 1 (pass@1)") for line in said)
    assert not any(line.startswith("Replicated, gamma = 1 (pass@1)") for line in said)


def test_a_first_sweep_that_is_gone_is_said(tmp_path):
    small_sweep(tmp_path, "groupsize", *CELLS, success_rates=HELPS)
    results = small_sweep(tmp_path, "groupsize", *AGAIN, success_rates=HELPS)
    shutil.rmtree(tmp_path / "groupsize" / "countdown" / "v1")
    assert any("What it replicates cannot be read" in line for line in answer(analyse(results)))


def test_a_sweep_without_the_key_says_nothing_of_it(tmp_path):
    results = small_sweep(tmp_path, "groupsize", *CELLS, success_rates=HELPS)
    assert not any("eplicate" in line for line in answer(analyse(results)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (["sweep.grid.seed=[13,21]"], "seed 13 is in both this sweep and groupsize/countdown/v1"),
        (
            ["sweep.replicates=nowhere"],
            "sweep.replicates=nowhere: no run of nowhere/countdown (did you mean groupsize/",
        ),
        (["sweep.grid.focal_gamma=[0,2]"], "did not ask for grpo-n8-g2 against grpo-n8-g0"),
    ],
)
def test_what_cannot_replicate_is_refused_by_the_plan(tmp_path, capsys, changes, reason):
    small_sweep(tmp_path, "groupsize", *CELLS, success_rates=HELPS)
    keys = {key.partition("=")[0] for key in changes}
    kept = [key for key in AGAIN if key.partition("=")[0] not in keys]
    assert main(["plan", "groupsize", f"run_root={tmp_path}", *LIKE_SMALL, *kept, *changes]) == 2
    assert reason in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_the_plan_says_what_is_replicated(tmp_path, capsys):
    small_sweep(tmp_path, "groupsize", *CELLS, success_rates=HELPS)
    assert main(["plan", "groupsize", f"run_root={tmp_path}", *LIKE_SMALL, *AGAIN]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "on other seeds than groupsize/countdown/v1, which it replicates" in said
