"""Hours, days and disk of a plan: arithmetic by hand, and what measured rates replace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fgrpo_bench.files.journal import append_lines
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.spec import StageSpec
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.kinds import KINDS, Kind
from fgrpo_bench.kinds.kind import by_module, make_stage, training_inputs
from fgrpo_bench.kinds.warmup import parameters
from sweeps import estimate
from sweeps.estimate import plan_cost
from sweeps.plan import Plan, make_plan
from sweeps.preview import cost_lines
from tests.support.plans import loaded, planned

MEASURED = {
    "model": "qwen2.5-7b",
    "parameters": 7_615_616_512,
    "gpu": "NVIDIA H200",
    "placement": "single-gpu",
    "n_gpus": 1,
    "source": "make check-gpu",
    "date": "2026-07-02",
    "generate_tokens_per_second_per_gpu": 6000.0,
    "train_tokens_per_second_per_gpu": 9000.0,
    "save_gb_per_second": 4.0,
    "peak_memory_gib": 61.0,
    "planned_memory_gib": 58.0,
    "seconds": {"generate": 12.0},
}
ROW = {"step": 1, "time_ms": 0, "tokens": 1_600_000, "step_tokens": 1_600_000, "gpus": 8} | {
    "response_tokens": 800.0,
    "seconds": 125.0,
    "seconds_generation": 50.0,
}
"""2,000 rollouts of 800 tokens."""


@pytest.fixture
def transfer(tmp_path: Path) -> tuple[Plan, RunPaths]:
    return on_a_cluster(tmp_path)


def on_a_cluster(root: Path, *overrides: str, sweep: str = "transfer") -> tuple[Plan, RunPaths]:
    model = ["experiment=qwen2.5-7b", "profile=slurm-8gpu"]
    paths, plan = planned(root, sweep, *model, *overrides)
    return plan, paths


def on_gpus(plan: Plan, paths: RunPaths, *, done: str | None = None) -> dict[str, Any]:
    stages = [stage for stage in plan.stages if done is None or stage.name != done]
    answer: dict[str, Any] = plan_cost(plan, paths, stages)["on_gpus"]
    return answer


def test_the_transfer_sweep_costs_what_it_does_by_hand(transfer: tuple[Plan, RunPaths]) -> None:
    answer = on_gpus(*transfer)
    # A step on 8 GPUs: 256 x 8 rollouts and a 25th of 30 x 64 evaluated draws, 1,500 tokens each,
    # drawn at 3,000 a second and GPU: 132.8 s. Trained with prompts of 200 at 4,500: 96.711 s. A
    # tenth of a state of 91.387 GB and a 153rd of a checkpoint of 15.231 GB at 1 GB/s: 9.238 s.
    work = 1530 * (132.8 + 96.71111 + 9.23829)
    # A job of 1,440 min is told to stop 1,800 s before, and computes after 300 s: 84,300 s.
    train = answer["by_kind"]["train"]["longest"]
    assert (train["gpus"], train["requeues"]) == (8, 4)
    assert train["seconds"] == pytest.approx(work + 5 * 300)
    evaluation = answer["by_kind"]["evaluate"]["longest"]
    assert evaluation == {"gpus": 8, "seconds": 500 * 1024 * 1500 / 24_000 + 300, "requeues": 0}
    hours = 6 * 8 * (work + 1500) / 3600 + 7 * 8 * 32_300 / 3600
    assert answer["gpu_hours"] == pytest.approx(hours) == pytest.approx(5393, abs=1)
    # Of four jobs at once two train two runs each, one after the other, and evaluate the second.
    assert answer["wall_seconds"] == pytest.approx(2 * (work + 1500) + 32_300)
    assert (answer["checkpoints"], answer["states"]) == (60, 4 * 2)
    assert answer["checkpoint_gb"] == pytest.approx(15.231233024)
    assert answer["state_gb"] == pytest.approx(91.387398144)
    assert answer["responses_gb"] == pytest.approx(7 * 500 * 1024 * 1500 * 4 / 1e9)


def test_what_check_gpu_measured_replaces_what_was_assumed(
    transfer: tuple[Plan, RunPaths],
) -> None:
    assumed = on_gpus(*transfer)["rates"]
    assert assumed["words"].startswith(
        "3,000 tokens drawn a second and GPU (assumed of an H100 80GB), 4,500 trained (assumed of "
        "an H100 80GB), 1,500 a response (assumed), 1 GB saved a second (profile.save_gb_per_second"
    )
    folder = transfer[1].root / "_measured"
    older = MEASURED | {"date": "2026-07-01", "generate_tokens_per_second_per_gpu": 1.0}
    write_json(folder / "qwen2.5-7b.NVIDIA-H200.json", MEASURED)
    write_json(folder / "qwen2.5-7b.other.json", older)
    other = older | {"model": "qwen3-4b-base", "parameters": 4_022_468_096}
    write_json(folder / "qwen3-4b-base.json", other | {"date": "2026-07-03"})
    answer = on_gpus(*transfer)
    source = "measured by make check-gpu on NVIDIA H200, 2026-07-02"
    assert answer["rates"]["words"] == (
        f"6,000 tokens drawn a second and GPU ({source}), 9,000 trained ({source}), 1,500 a "
        f"response (assumed), 4 GB saved a second ({source})"
    )
    work = 1530 * (132.8 / 2 + 96.71111 / 2 + 9.23829 / 4)
    assert answer["by_kind"]["train"]["longest"]["seconds"] == pytest.approx(work + 3 * 300)
    write_json(folder / "qwen2.5-7b.NVIDIA-H200.json", MEASURED | {"adam_offload": True})
    offloaded = on_gpus(*transfer)["rates"]
    assert (offloaded["generate"], offloaded["train"]) == (6000.0, assumed["train"])
    write_json(folder / "qwen2.5-7b.zero.json", MEASURED | {"save_gb_per_second": 0})
    write_json(folder / "qwen2.5-7b.NVIDIA-H200.json", older)
    with pytest.raises(ValueError, match=r"zero\.json has save_gb_per_second=0, .* delete it"):
        on_gpus(*transfer)


def test_what_check_gpu_measured_of_another_size_goes_by_parameters(
    transfer: tuple[Plan, RunPaths],
) -> None:
    smaller = MEASURED | {"model": "qwen2.5-1.5b", "parameters": 7_615_616_512 // 8}
    write_json(transfer[1].root / "_measured/a.json", smaller | {"save_gb_per_second": None})
    write_json(transfer[1].root / "_measured/b.json", smaller | {"model": "x", "parameters": 9})
    source = "measured by make check-gpu on NVIDIA H200, 2026-07-02, of qwen2.5-1.5b, by its"
    assert on_gpus(*transfer)["rates"]["words"] == (
        f"750 tokens drawn a second and GPU ({source} parameters), 1,125 trained ({source} "
        "parameters), 1,500 a response (assumed), 1 GB saved a second (profile.save_gb_per_second)"
    )


def test_steps_and_evaluations_that_ran_tell_more_than_any_table(
    transfer: tuple[Plan, RunPaths],
) -> None:
    plan, paths = transfer
    write_json(paths.root / "_measured/qwen2.5-7b.json", MEASURED)
    on_processors = ROW | {"gpus": 0, "seconds_generation": 1.0}
    append_lines(paths.point("grpo-n8-g0-s11").step_rows, [ROW, on_processors, ROW], sync=False)
    known = on_gpus(plan, paths)["rates"]
    # 1.6e6 tokens in 50 s on 8 GPUs; with 2,000 prompts of 200 in the other 75 s
    assert (known["generate"], known["response"]) == (4000.0, 800.0)
    assert known["train"] == pytest.approx(2e6 / (75 * 8))
    assert known["save"] == 4.0
    assert known["source"] == known["response_source"] == "measured in 2 steps here"
    evaluations = [stage for stage in plan.stages if stage.kind == "evaluate"]
    seconds = 500 * 1024 * 800 / (4000 * 8) + 300
    done = evaluations[0]
    marker = {"fingerprint": done.fingerprint, "target": {}, "outputs": {}}
    marker["wall_seconds"] = 2 * seconds
    write_json(StagePaths(paths.folder / done.name).done, marker)
    answer = on_gpus(plan, paths, done=done.name)
    assert answer["by_kind"]["evaluate"]["longest"]["seconds"] == pytest.approx(2 * seconds)
    assert answer["measured_stages"] == 1


def test_controls_and_filters_cost_more_and_other_models_go_by_their_size(tmp_path: Path) -> None:
    def longest(*overrides: str, sweep: str = "transfer") -> float:
        answer = on_gpus(*on_a_cluster(tmp_path, *overrides, sweep=sweep))
        return float(answer["by_kind"]["train"]["longest"]["seconds"])

    plain = longest()  # 5 starts
    assert longest(sweep="controls") - plain == pytest.approx(1530 * 0.2 * 96.71111)
    filtered = longest("algorithms.dapo.dynamic_sampling=true")
    assert filtered - plain == pytest.approx(1530 * 128 + (7 - 5) * 300)
    half = ["experiment.train.pretrained.name=half"]
    half += [f"experiment.train.pretrained.parameters={7615616512 // 2}"]
    half += ["experiment.train.response_tokens=7500"]  # a fifth of it is the 1,500 of the table
    assert longest(*half) == pytest.approx((plain - 5 * 300) / 2 + 3 * 300)


def seconds_by_kind(*overrides: str) -> dict[str, float]:
    plan = make_plan(loaded("groupsize", *overrides))
    seconds = estimate.assumed_seconds(plan)
    return {stage.kind: seconds[stage.name] for stage in plan.stages}


def test_a_stage_costs_its_start_and_its_tokens() -> None:
    training, evaluation = "experiment.train", "experiment.evaluation"
    seconds = seconds_by_kind(
        f"{training}.warmup.steps=500",
        f"{training}.warmup.batch_size=128",
        f"{training}.steps=300",
        f"{training}.rollouts_per_step=256",
        f"{training}.eval_every=100",
        f"{training}.eval_n_problems=300",
        f"{training}.eval_n_samples=100",
        f"{evaluation}.n_samples=6000",
        f"{evaluation}.benchmarks.countdown.n_problems=100",
    )
    # Prompts of 8 tokens, responses of 8: 600,000 drawn a second, 38,000 trained, 1 GB saved. The
    # last training has N = 8 and 32 prompts a step, each read once a group; its evaluations make
    # 300 * 100 draws every 100 steps, 300 a step.
    drawn = 300 * (256 + 300) * 8 / 600_000
    trained = 300 * (32 + 256) * 8 / 38_000
    assert seconds["train"] == pytest.approx(2.5 + drawn + trained, rel=0.01)
    assert seconds["warmup"] == pytest.approx(2.5 + 64_000 * 16 / 38_000, rel=0.01)
    assert seconds["evaluate"] == pytest.approx(2.5 + 600_000 * 8 / 600_000, rel=0.01)


def test_a_larger_model_of_the_built_in_engine_goes_by_its_parameters(tmp_path: Path) -> None:
    paths, plan = planned(tmp_path, "maze", "experiment=maze")
    needs = training_inputs(plan.points[0])
    assert needs.model is not None and needs.task is not None
    assert parameters(needs.model, needs.task) == 3_944_704
    slow = estimate.planned_model(plan).built_in
    paths, gpu = planned(tmp_path, "maze", "experiment=maze", "profile.device=cuda")
    fast = estimate.planned_model(gpu).built_in
    small = estimate.BUILT_IN["maze"]
    assert slow.train == pytest.approx(small.train * 279_648 / 3_944_704)
    assert fast.train == pytest.approx(1_000 * slow.train)
    answer = on_gpus(gpu, paths)
    assert answer["by_kind"]["train"]["longest"]["gpus"] == 1
    assert "of 1,000 processors" in answer["rates"]["words"]


def test_a_staged_plan_says_its_largest_cost(tmp_path: Path) -> None:
    def told(*overrides: str) -> tuple[float, list[str]]:
        paths, plan = planned(tmp_path, "groupsize", *overrides)
        answer = plan_cost(plan, paths, list(plan.stages))
        return answer["cpu_seconds"], list(cost_lines(answer, "local"))

    staged = "experiment.evaluation.design={stages:[64,512],enough:8}"
    (seconds, words), (fixed_seconds, fixed_words) = told(staged), told()
    assert seconds == fixed_seconds
    assert len(words) == len(fixed_words) + 1
    assert words[-1] == (
        "this is the most that it can cost, with at most 512 draws per problem, in stages 64 and "
        "512; a problem stops after a stage with 8 correct"
    )


def test_how_many_stages_are_of_unknown_kinds_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stages(planned: Any) -> Any:
        for point in planned.points:
            name = f"{point.point_id}/count"
            yield make_stage(StageSpec, "count", name, {}, point_id=point.point_id)

    kind = Kind(name="count", noun="count", stages=stages, command=by_module("count"))
    monkeypatch.setitem(KINDS, "count", kind)
    paths, plan = planned(tmp_path)
    answer = plan_cost(plan, paths, list(plan.stages))
    assert answer["not_estimated"] == 2
    assert [line for line in cost_lines(answer, "local") if "not estimated" in line] == [
        "cost not estimated: 2 stages of kinds that sweeps/estimate.py does not know"
    ]
    monkeypatch.delitem(KINDS, "count")
    _, known = planned(tmp_path)
    assert answer["cpu_seconds"] == plan_cost(known, paths, list(known.stages))["cpu_seconds"]
