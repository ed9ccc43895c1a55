"""Delta NLL: the set of rare correct answers, and its likelihood under checkpoints."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch
from transformers import AutoTokenizer

from evaluators import vllm
from evaluators.__main__ import main
from evaluators.backends import embedded
from evaluators.rare import StoredResponse, make_scorer, rarest
from evaluators.transformers import transformers
from fgrpo_bench.core.problems import Problem
from fgrpo_bench.engines.embedded.__main__ import main as train_main
from fgrpo_bench.engines.embedded.tokenizer import EOS
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.graders import get_grader
from fgrpo_bench.stages.tables import LIKELIHOODS, TRAJECTORIES, read_table
from fgrpo_bench.tasks import make_task
from sweeps.plan import Plan
from tests.evaluators.evaluations import asked, wanted
from tests.support.openrlhf import heldout_problems, make_untrained
from tests.support.stages import freeze

RARE = "{n_prompts:24,n_samples:64,share:0.1}"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, RunPaths]:
    """A small sweep, trained, with both stages done for its first point."""
    root = tmp_path_factory.mktemp("rare")
    plan, paths = freeze(
        root, f"experiment.rare={RARE}", "sweep.grid.group_size=[4]", "sweep.family=null"
    )
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


@pytest.mark.slow
def test_the_set_holds_the_correct_draws_that_are_least_likely(
    made: tuple[Plan, RunPaths],
) -> None:
    plan, _ = made
    marker = read_json(folder(made, "rare").done)
    table = read_table(folder(made, "rare").trajectories, TRAJECTORIES)
    assert marker["n_draws"] == 24 * 64
    assert len(table) == marker["n_rare"] == max(1, marker["n_correct"] // 10) > 2
    assert marker["nll_rare"] > marker["nll_correct"] > 0
    assert table["ended"].any()
    assert table["end_token"].to_list() == [EOS if ended else None for ended in table["ended"]]
    task = make_task(plan.points[0].train.task)
    training = {task.problem(i).problem_id for i in range(task.n_train)}
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


@pytest.mark.slow
def test_the_score_is_the_mean_rise_over_the_set(made: tuple[Plan, RunPaths]) -> None:
    scored = read_table(folder(made, "likelihood").likelihoods, LIKELIHOODS)
    base = read_table(folder(made, "rare").trajectories, TRAJECTORIES)
    delta = scored["nll"].to_numpy() - base["nll"].to_numpy()
    assert scored.select("problem_id", "draw").equals(base.select("problem_id", "draw"))
    np.testing.assert_allclose(scored["delta_nll"].to_numpy(), delta)
    marker = read_json(folder(made, "likelihood").done)
    assert marker["delta_nll"] == pytest.approx(delta.mean())
    assert np.abs(delta).max() > 0


@pytest.mark.slow
def test_under_the_base_model_itself_nothing_has_risen(made: tuple[Plan, RunPaths]) -> None:
    _, paths = made
    spec = read_json(folder(made, "likelihood").spec)
    at = StagePaths(paths.folder / "again")
    warmup, rare = folder(made, "warmup").folder, folder(made, "rare").folder
    changed = {"source": str(warmup), "set": str(rare), "step": 0}
    write_json(at.spec, spec | changed | {"fingerprint": "again"})
    assert main(["run", str(at.folder)]) == 0
    assert read_json(at.done)["delta_nll"] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.slow
def test_a_second_run_does_nothing(
    made: tuple[Plan, RunPaths], capsys: pytest.CaptureFixture[str]
) -> None:
    before = folder(made, "rare").trajectories.stat().st_mtime_ns
    assert main(["run", str(folder(made, "rare").folder)]) == 0
    assert "already done" in capsys.readouterr().out
    assert folder(made, "rare").trajectories.stat().st_mtime_ns == before


def test_transformers_gives_what_the_embedded_engine_gives(tmp_path: Path) -> None:
    checkpoint = make_untrained(tmp_path / "model")
    answers = [
        StoredResponse(problem=problem, response=response, ended=ended, end_token=None)
        for problem, response, ended in zip(
            heldout_problems(3), ("1+2*3-4", "9*9", "5"), (True, True, False), strict=True
        )
    ]
    ours, theirs = (nats(checkpoint, sampler, answers) for sampler in ("embedded", "transformers"))
    assert len(ours) == 3
    assert theirs == pytest.approx(ours, rel=1e-5)


@pytest.fixture(scope="module")
def with_two_ends(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A checkpoint whose responses end with EOS or the token of `9`, and the latter's id."""
    checkpoint = make_untrained(tmp_path_factory.mktemp("ends") / "model")
    nine = int(AutoTokenizer.from_pretrained(checkpoint).convert_tokens_to_ids("9"))
    config = checkpoint / "generation_config.json"
    write_json(config, read_json(config) | {"eos_token_id": [EOS, nine]})
    return checkpoint, nine


def nats(checkpoint: Path, sampler: str, answers: list[StoredResponse]) -> list[float]:
    """Nats per token of each answer."""
    scorer = make_scorer(asked(checkpoint, sampler=sampler))
    return [nll for _, nll in sorted(pair for batch in scorer(answers) for pair in batch)]


def test_a_draw_keeps_the_end_token_that_ended_it(with_two_ends: tuple[Path, int]) -> None:
    checkpoint, nine = with_two_ends
    problems = heldout_problems(3)
    sampler = transformers(asked(checkpoint)).draw
    draws = [each for part in sampler(wanted(problems)) for each in part]
    assert {each.end_token for each in draws} == {EOS, nine, None}
    assert {each.end_token is None for each in draws if each.finish_reason == "length"} == {True}
    assert not any("9" in each.response for each in draws)  # it ends them, and is no part of them
    ours = embedded(asked(checkpoint)).draw
    assert {
        (each.finish_reason, each.end_token) for part in ours(wanted(problems)) for each in part
    } == {("stop", EOS), ("length", None)}


@pytest.mark.parametrize("sampler", ["embedded", "transformers"])
def test_the_end_token_that_was_sampled_is_the_one_that_is_scored(
    with_two_ends: tuple[Path, int], sampler: str
) -> None:
    checkpoint, nine = with_two_ends
    problem = heldout_problems(1)[0]
    ends = {"unknown": None, "eos": EOS, "nine": nine}
    scored = {
        name: StoredResponse(problem=problem, response="1+2", ended=True, end_token=end)
        for name, end in ends.items()
    }
    scored["cut"] = StoredResponse(problem=problem, response="1+2", ended=False, end_token=None)
    scored["longer"] = StoredResponse(problem=problem, response="1+29", ended=False, end_token=None)
    found = dict(zip(scored, nats(checkpoint, sampler, list(scored.values())), strict=True))
    assert found["nine"] == pytest.approx(found["longer"], rel=1e-6)  # the same four tokens
    assert found["unknown"] == pytest.approx(found["eos"], rel=1e-6)  # the first of the engine
    assert abs(found["eos"] - found["nine"]) > 1e-3
    assert 4 * found["eos"] - 3 * found["cut"] > 0.1  # what the end token itself costs


def test_vllm_stores_the_token_that_its_answer_stopped_at() -> None:
    draw = wanted(heldout_problems(1), draws=1)[0]
    for reason, stop, end in (("stop", None, 7), ("stop", "Q:", None), ("length", None, None)):
        answer = SimpleNamespace(
            text="1+2", token_ids=[3, 4, 5, 7], finish_reason=reason, stop_reason=stop
        )
        made = vllm.finished_draw(draw, answer)
        assert (made.finish_reason, made.end_token, made.n_tokens) == (reason, end, 4)


def test_a_checkpoint_that_lacks_weights_is_not_scored(tmp_path: Path) -> None:
    checkpoint = make_untrained(tmp_path / "model")
    config = checkpoint / "config.json"
    write_json(config, read_json(config) | {"num_hidden_layers": 9})
    with pytest.raises(ValueError, match=r"are not those of .* in its config\.json; lacks"):
        nats(checkpoint, "transformers", [])


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
