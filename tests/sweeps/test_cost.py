"""GPU-hours, days and disk of a plan: arithmetic by hand, and what measured rates replace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fgrpo_bench.files.journal import append_lines
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import write_json
from sweeps import cost
from sweeps.plan import Plan
from tests.support.plans import planned

MEASURED = {
    "model": "qwen2.5-7b",
    "gpu": "NVIDIA H200",
    "placement": "single-gpu",
    "n_gpus": 1,
    "source": "make check-gpu",
    "date": "2026-07-02",
    "generate_tokens_per_second_per_gpu": 6000.0,
    "train_tokens_per_second_per_gpu": 9000.0,
    "save_gb_per_second": 4.0,
    "peak_memory_gib": 61.0,
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
    answer: dict[str, Any] = cost.estimate(plan, paths, stages)["on_gpus"]
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
    write_json(folder / "qwen3-4b-base.json", older | {"model": "qwen3-4b-base"})
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
