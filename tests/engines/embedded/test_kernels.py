"""One rounding: the same bits whatever kernels a shell asks for, and a word where there are others.

The processor of these tests may be any; what is read of one is given as Linux shows it.
"""

import os

import pytest

from evaluators.__main__ import main as evaluators
from fgrpo_bench.engines.embedded import kernels
from fgrpo_bench.engines.embedded.engine import ENGINE
from fgrpo_bench.engines.embedded.reinforce import reinforce
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.spec import read_spec
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.kinds import evaluate
from fgrpo_bench.specs import config
from fgrpo_bench.stages.stage import StageRun
from fgrpo_bench.stages.tables import DRAWS, read_table
from sweeps.preview import preview, render
from tests.support.plans import planned
from tests.support.stages import start

FORBIDDEN = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
}
ALLOWED = {
    "ATEN_CPU_CAPABILITY": "avx512",
    "MKL_CBWR": "AUTO",
    "MKL_ENABLE_INSTRUCTIONS": "AVX512",
    "ONEDNN_MAX_CPU_ISA": "ALL",
}
SHELLS = [FORBIDDEN, pytest.param(ALLOWED, marks=pytest.mark.rare)]
INTEL = "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu sse4_2 avx avx2 avx512f\n\n"


def beside(stage: StagePaths, name: str) -> StagePaths:
    """The same stage under another name, to be run again."""
    copied = StagePaths(stage.folder.with_name(name))
    write_json(copied.spec, read_json(stage.spec))
    return copied


def run(kind: str, stage: StagePaths, shell: dict[str, str]) -> None:
    process = start(kind, stage.folder, shell=shell)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0, out


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_training_ends_with_the_same_bits_whatever_kernels_the_shell_asks_for(warmed, shell):
    plan, paths = warmed
    here = beside(paths.point(plan.points[0].point_id), "trained-here")
    facts = reinforce(read_spec(here), StageRun(here), "cpu")
    there = beside(here, f"trained-{shell['MKL_CBWR']}")
    run("train", there, shell)
    marker = read_json(there.done)
    assert marker["weights_sha256"] == facts.weights_sha256
    assert marker["engine"]["kernels"] == facts.engine["kernels"]
    assert "torch AVX2" in facts.engine["kernels"] or facts.engine["kernels"] == kernels.COMMON


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.rare  # training draws too
def test_draws_have_the_same_bits_whatever_the_shell_asks_for(warmed, shell):
    plan, paths = warmed
    planned = next(stage for stage in plan.stages if stage.kind == evaluate.NAME)
    stage = StagePaths(paths.folder / planned.name)
    here, there = (beside(stage, f"step-0-{name}") for name in ("here", shell["MKL_CBWR"]))
    assert evaluators(["run", str(here.folder)]) == 0
    run("evaluate", there, shell)
    drawn = [
        read_table(each.benchmark("countdown").draws, DRAWS).drop("seconds", strict=False)
        for each in (here, there)
    ]
    assert drawn[0].equals(drawn[1]) and len(drawn[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processor", "said"),
    [
        (INTEL, None),
        (INTEL.replace("GenuineIntel", "AuthenticAMD"), "processor is AMD's, for which torch's"),
        (INTEL.replace(" avx2", ""), "processor has no AVX2"),
        ("CPU implementer\t: 0x41\n", "processor has no AVX2"),
    ],
)
def test_a_plan_says_where_digits_may_be_others(tmp_path, monkeypatch, processor, said):
    (tmp_path / "cpuinfo").write_text(processor)
    monkeypatch.setattr(kernels, "CPUINFO", tmp_path / "cpuinfo")
    paths, plan = planned(tmp_path, "smoke")
    shown = render(preview(plan, paths), paths)
    assert ("digits may differ" in shown) == (said is not None)
    assert (said or "") in shown
    assert ENGINE.digits(config.load("smoke", ["profile=slurm"]).profile) == []  # who knows where


@pytest.mark.slow
def test_a_processor_without_avx2_keeps_the_kernels_that_it_can_run(tmp_path, monkeypatch):
    monkeypatch.setattr(kernels, "CPUINFO", tmp_path / "cpuinfo")
    for flags, chosen in (("sse4_2 avx", {}), ("avx avx2", kernels.SETTINGS)):
        (tmp_path / "cpuinfo").write_text(f"vendor_id : GenuineIntel\nflags : {flags}\n")
        for name in kernels.SETTINGS:
            monkeypatch.delenv(name, raising=False)
        kernels.choose_kernels()
        assert {name: os.environ[name] for name in kernels.SETTINGS if name in os.environ} == chosen
