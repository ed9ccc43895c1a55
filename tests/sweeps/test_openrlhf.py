"""Plans of OpenRLHF on a cluster and what would be sent."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fgrpo_bench.specs import config
from fgrpo_bench.specs.stored import TrainStageSpec
from sweeps.cli import main
from sweeps.freeze import run_paths
from sweeps.plan import Plan, Stage, make_plan, plan_record
from sweeps.slurm import drive
from sweeps.slurm.code import code_folder
from tests.support.points import declared
from tests.support.programs import link_programs

Golden = Callable[[str, str], None]


def test_the_plan_is_the_golden_one(golden: Golden) -> None:
    record = plan_record(make_plan(declared()))
    golden("plan-groupsize-openrlhf.json", json.dumps(record.as_json(), indent=1) + "\n")


def test_the_dry_run_is_the_golden_one_and_writes_nothing(
    golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    link_programs(programs, "git")
    monkeypatch.setenv("PATH", str(programs))  # no SLURM
    root = tmp_path / "runs"
    plan = make_plan(declared(f"run_root='{root}'"))
    paths = run_paths(plan.declaration)
    said = "\n".join(drive.dry_run(plan, paths, limit=1001))
    said = said.replace(str(code_folder(paths.code)), "CODE").replace(str(root), "ROOT")
    golden("sbatch-openrlhf.txt", said.replace(sys.executable, "PYTHON"))
    assert not root.exists()


def stages(plan: Plan) -> dict[str, Stage]:
    return {stage.name: stage for stage in plan.stages}


def test_dataset_and_model_are_fetched_once_and_trained_on_by_every_point() -> None:
    plan = stages(make_plan(declared()))
    data, base = plan["_data/deepscaler"], plan["_base/qwen2.5-7b"]
    evaluated = plan["_data/aime25"]
    assert (data.kind, data.environment, data.needs) == ("fetch", "base", ())
    assert (base.kind, base.spec.as_json()["chat_template"]) == ("fetch", True)
    trained = [stage for stage in plan.values() if stage.kind == "train"]
    assert len(trained) == 21
    for stage in trained:
        needs = (base.name, data.name, evaluated.name)
        assert (stage.needs, stage.environment) == (needs, "openrlhf")
        spec = stage.spec.of(TrainStageSpec)
        told = [spec.base, spec.data, spec.eval_data]
        assert told == [f"../{name}" for name in needs]
    judged = [stage for stage in plan.values() if stage.kind == "evaluate"]
    assert all("_data/math500" in stage.needs for stage in judged)
    assert sum(stage.needs[0] == base.name for stage in judged) == 1, "one base for all seeds"


@pytest.mark.parametrize(
    ("change", "is_identity"),
    [
        ("experiment.train.dataset.max_tokens=512", True),
        ("experiment.train.dataset.revision=main", True),
        ("experiment.train.dataset.deduplicate=false", True),
        ("experiment.train.dataset.expected_rows=1", False),
        ("profile.placement.python=/elsewhere/bin/python", False),
    ],
)
def test_what_changes_a_datasets_rows_is_its_identity(change: str, is_identity: bool) -> None:
    before, after = (
        stages(make_plan(declared(*more)))["_data/deepscaler"] for more in ([], [change])
    )
    assert (before.fingerprint != after.fingerprint) == is_identity


def test_what_is_evaluated_on_while_training_is_fetched_where_it_is_evaluated_on_alone() -> None:
    plan = stages(make_plan(declared("experiment.train.eval_every=0")))
    assert "_data/aime25" not in plan
    assert not any("eval_data" in stage.spec.as_json() for stage in plan.values())


def test_fields_that_training_specs_did_not_always_have_are_identity_only_where_they_are_set() -> (
    None
):
    name = "grpo-n8-g0.5-s11"
    as_before = [
        "experiment.train.lr_warmup_updates=15",
        "experiment.train.lr_warmup_steps=null",
        "experiment.train.eval_every=0",
        "experiment.train.eval_dataset=null",
        "experiment.train.eval_n_problems=1",
        "experiment.train.eval_n_samples=1",
    ]
    stage = stages(make_plan(declared(*as_before)))[name]
    assert not {"lr_warmup_steps", "extra"} & stage.spec.identity["train"].keys()
    further = {
        "lr_warmup_steps": as_before[2:],
        "extra": [*as_before, "+experiment.train.extra.ds.lora.rank=16"],
    }
    for field, overrides in further.items():
        other = stages(make_plan(declared(*overrides)))[name]
        assert field in other.spec.identity["train"].keys() - stage.spec.identity["train"]
        assert other.fingerprint != stage.fingerprint
    evaluated = stages(make_plan(declared(*as_before[:3])))[name]
    assert evaluated.fingerprint == stage.fingerprint, "what is drawn on meanwhile makes no weights"


def test_how_a_run_is_laid_out_and_what_counts_its_memory_is_no_identity() -> None:
    marks = [
        {stage.name: stage.fingerprint for stage in make_plan(declaration).stages}
        for declaration in (
            declared(),
            declared("profile.placement.zero_stage=2", "profile.placement.vllm_gpu_memory=0.5"),
            declared(
                "profile.placement.evaluation_engines=2",
                "profile.placement.evaluation_tensor_parallel=4",
                "profile.placement.vllm_max_num_seqs=64",
            ),
            declared("experiment.train.pretrained.shape=null"),
            config.load("groupsize", ["experiment=qwen2.5-7b", "profile=slurm-multinode"]),
        )
    ]
    assert all(each == marks[0] for each in marks)


def test_two_datasets_of_one_name_are_refused() -> None:
    name = "experiment.evaluation.benchmarks.math500.dataset.name=deepscaler"
    with pytest.raises(ValueError, match="two datasets are named 'deepscaler' and differ"):
        make_plan(declared(name))


def test_a_benchmark_without_problems_is_refused() -> None:
    with pytest.raises(ValueError, match=r"benchmarks\.math500\.dataset"):
        make_plan(declared("experiment.evaluation.benchmarks.math500.dataset=null"))


def test_a_tight_fit_is_said_in_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    tight = ["experiment=qwen2.5-7b", "profile=slurm-8gpu", "profile.placement.gpu_memory_gb=44.0"]
    assert main(["plan", "groupsize", *tight]) == 0
    said = capsys.readouterr().out
    assert said.count("warning: qwen2.5-7b with 7.62 billion parameters needs 40.5 GiB") == 1
    assert said.count("warning: qwen2.5-7b in vLLM has a key-value cache of 352,299 tok") == 1
    assert said.count("\nsaving a training state of 91.4 GB takes about 91 s") == 1
    memory = (
        "\nGiB of a GPU's 44 by grpo: 40.5 in an update (states 14.2 + logits "
        "23.2 + activations 3.1), 19.5 in an optimizer step, 18.0 in sync and save, 34.8 in "
        "rollouts (vLLM 33.0 + policy 1.8)\n"
    )
    assert said.count(memory) == 1
    assert said.count("\nvLLM's key-value cache holds 1,834 tokens per sequence in training") == 1
    assert make_plan(declared()).warnings == ()
