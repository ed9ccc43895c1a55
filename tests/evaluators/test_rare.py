"""Delta NLL: the set of rare correct answers, and its likelihood under checkpoints."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from evaluators.__main__ import main
from evaluators.likelihood import Answer, make_scorer
from evaluators.rare import rarest
from fgrpo_bench.checkpoints import weights_sha256
from fgrpo_bench.files import read_json, write_json
from fgrpo_bench.fingerprint import sampling_identity
from fgrpo_bench.graders import get_grader
from fgrpo_bench.paths import RunPaths, StagePaths
from fgrpo_bench.records import Problem
from fgrpo_bench.specs import PromptSpec
from fgrpo_bench.tables import LIKELIHOODS, TRAJECTORIES, read_table
from fgrpo_bench.tasks import make_task
from fgrpo_bench.training.__main__ import main as train_main
from sweeps.plan import Plan
from tests.evaluators.test_transformers import evaluation
from tests.support.openrlhf import heldout_problems, make_untrained
from tests.support.stages import freeze

RARE = "{n_prompts:24,n_samples:64,share:0.1}"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, RunPaths]:
    """A small sweep, trained, with both stages done for its first point."""
    root = tmp_path_factory.mktemp("rare")
    plan, paths = freeze(root, f"experiment.rare={RARE}", "sweep.grid.group_size=[4]")
    threads = torch.get_num_threads()
    for kind in ("warmup", "train", "rare", "likelihood"):
        stage = next(stage for stage in plan.stages if stage.kind == kind)
        command = train_main if kind in ("warmup", "train") else lambda a: main(["run", *a])
        assert command([str(paths.folder / stage.name)]) == 0
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)
    return plan, paths


def folder(made: tuple[Plan, RunPaths], kind: str) -> StagePaths:
    plan, paths = made
    return StagePaths(paths.folder / next(s.name for s in plan.stages if s.kind == kind))


def test_the_set_holds_the_correct_draws_that_are_least_likely(
    made: tuple[Plan, RunPaths],
) -> None:
    plan, _ = made
    marker = read_json(folder(made, "rare").done)
    table = read_table(folder(made, "rare").trajectories, TRAJECTORIES)
    assert marker["n_draws"] == 24 * 64
    assert len(table) == marker["n_rare"] == max(1, marker["n_correct"] // 10) > 2
    assert marker["nll_rare"] > marker["nll_correct"] > 0
    task = make_task(plan.points[0].train.task)
    training = {task.train_problem(i).problem_id for i in range(task.n_train)}
    for row in table.iter_rows(named=True):
        problem = Problem(
            benchmark="rare",
            problem_id=row["problem_id"],
            prompt=row["prompt"],
            target=row["problem_id"],
            grader="countdown",
        )
        assert row["problem_id"] in training
        assert get_grader("countdown")(problem, row["response"]).outcome == "correct"


def test_the_score_is_the_mean_rise_over_the_set(made: tuple[Plan, RunPaths]) -> None:
    scored = read_table(folder(made, "likelihood").likelihoods, LIKELIHOODS)
    base = read_table(folder(made, "rare").trajectories, TRAJECTORIES)
    delta = scored["nll"].to_numpy() - base["nll"].to_numpy()
    assert scored.select("problem_id", "draw").equals(base.select("problem_id", "draw"))
    np.testing.assert_allclose(scored["delta_nll"].to_numpy(), delta)
    marker = read_json(folder(made, "likelihood").done)
    assert marker["delta_nll"] == pytest.approx(delta.mean())
    assert np.abs(delta).max() > 0


def test_under_the_base_model_itself_nothing_has_risen(made: tuple[Plan, RunPaths]) -> None:
    _, paths = made
    spec = read_json(folder(made, "likelihood").spec)
    at = StagePaths(paths.folder / "again")
    warmup, rare = folder(made, "warmup").folder, folder(made, "rare").folder
    changed = {"source": str(warmup), "set": str(rare), "step": 0}
    write_json(at.spec, spec | changed | {"fingerprint": "again"})
    assert main(["run", str(at.folder)]) == 0
    assert read_json(at.done)["delta_nll"] == pytest.approx(0.0, abs=1e-6)


def test_a_second_run_does_nothing(
    made: tuple[Plan, RunPaths], capsys: pytest.CaptureFixture[str]
) -> None:
    before = folder(made, "rare").trajectories.stat().st_mtime_ns
    assert main(["run", str(folder(made, "rare").folder)]) == 0
    assert "already done" in capsys.readouterr().out
    assert folder(made, "rare").trajectories.stat().st_mtime_ns == before


def test_transformers_gives_what_the_embedded_engine_gives(tmp_path: Path) -> None:
    checkpoint = make_untrained(tmp_path / "model")
    settings = sampling_identity(
        evaluation(),
        task=None,
        prompt=PromptSpec(chat_template=False, system=None),
        prompt_tokens=16,
        response_tokens=8,
    )
    answers = [
        Answer(problem=problem, response=response, ended=ended)
        for problem, response, ended in zip(
            heldout_problems(3), ("1+2*3-4", "9*9", "5"), (True, True, False), strict=True
        )
    ]
    found = []
    for sampler in ("embedded", "transformers"):
        scorer = make_scorer(
            checkpoint,
            weights_sha256(checkpoint),
            evaluation(sampler=sampler),
            settings,
            device="cpu",
            placement=None,
        )
        found.append(dict(pair for batch in scorer(answers) for pair in batch))
    assert sorted(found[0]) == [0, 1, 2]
    for number in range(3):
        assert found[1][number] == pytest.approx(found[0][number], rel=1e-5)


def test_the_rarest_are_a_share_but_at_least_one_and_ties_go_by_problem_and_draw() -> None:
    table = pl.DataFrame(
        {
            "problem_id": ["b", "a", "a", "c"],
            "draw": [0, 1, 0, 0],
            "nll": [2.0, 2.0, 1.0, 0.5],
        }
    )
    assert rarest(table, 0.01).rows() == [("a", 1, 2.0)]
    assert rarest(table, 0.5).rows() == [("a", 1, 2.0), ("b", 0, 2.0)]
    assert rarest(table.clear(), 0.5).rows() == []
