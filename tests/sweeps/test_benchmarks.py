"""Benchmarks of a sweep: every evaluation is planned, each with the prompt of its model family."""

from __future__ import annotations

import pytest

from fgrpo_bench.graders import grader_version
from fgrpo_bench.specs import Declaration, EvalSpec, config
from sweeps.plan import Plan, make_plan

MODELS = ("qwen2.5-7b", "qwen3-4b-base", "llama3.2-3b")
HELPFUL = "You are a helpful assistant."


def declared(experiment: str, evaluation: str, *overrides: str) -> Declaration:
    chosen = [f"experiment={experiment}", f"evaluation@experiment.evaluation={evaluation}"]
    return config.load("groupsize", [*chosen, *overrides])


def evaluated(plan: Plan) -> dict[str, dict[str, object]]:
    """The identity of an evaluation's benchmarks."""
    stage = next(stage for stage in plan.stages if stage.kind == "evaluate")
    found: dict[str, dict[str, object]] = stage.spec.identity["sampling"]["benchmarks"]
    return found


@pytest.mark.parametrize("model", MODELS)
def test_every_benchmark_of_the_paper_is_planned_for_a_published_model(model: str) -> None:
    plan = make_plan(declared(model, "paper"))
    names = plan.declaration.experiment.evaluation.benchmarks
    assert {f"_data/{name}" for name in names} < {stage.name for stage in plan.stages}


@pytest.mark.parametrize("evaluation", config.options("evaluation"))
def test_every_evaluation_is_named_by_its_file_and_valid(evaluation: str) -> None:
    experiment = "countdown" if "pass" in evaluation else "qwen2.5-7b"
    experiment = "rehearsal" if evaluation == "rehearsal" else experiment
    made = declared(experiment, evaluation).experiment.evaluation
    assert made.name == evaluation


def prompts(model: str) -> dict[str, tuple[str | None, bool | None]]:
    evaluation: EvalSpec = declared(model, "out-of-domain").experiment.evaluation
    found = {name: evaluation.prompt_of(name) for name in evaluation.benchmarks}
    return {name: (each.system, each.thinking) for name, each in found.items() if each is not None}


def test_the_prompts_are_those_of_the_papers_table_9() -> None:
    assert prompts("qwen2.5-7b") == {"ifeval": (HELPFUL, None), "synlogic": (HELPFUL, None)}
    assert prompts("qwen3-4b-base") == {"ifeval": (None, False), "synlogic": (None, True)}
    assert prompts("llama3.2-3b") == {"ifeval": (None, None), "synlogic": (None, None)}


def test_a_prompt_of_its_own_is_part_of_an_evaluations_identity_and_of_no_training() -> None:
    plain = make_plan(declared("qwen2.5-7b", "out-of-domain"))
    changed = "experiment.evaluation.prompts.instructions.system=Obey."
    other = make_plan(declared("qwen2.5-7b", "out-of-domain", changed))
    assert evaluated(plain)["ifeval"]["prompt"] != evaluated(other)["ifeval"]["prompt"]
    assert "prompt" not in evaluated(plain)["gpqa"]
    marks = [
        {s.name: s.fingerprint for s in plan.stages if s.kind != "evaluate"}
        for plan in (plain, other)
    ]
    assert marks[0] == marks[1]


def test_further_graders_are_a_layer_on_top_of_the_same_draws() -> None:
    none = "experiment.evaluation.benchmarks.minerva.extra_graders=[]"
    stages = [
        next(s for s in make_plan(d).stages if s.kind == "evaluate")
        for d in (declared("qwen2.5-7b", "in-domain"), declared("qwen2.5-7b", "in-domain", none))
    ]
    assert stages[0].fingerprint == stages[1].fingerprint
    graders = stages[0].target["graders"]
    assert graders["minerva/math-tolerance"] == grader_version("math-tolerance")
    assert "minerva/math-tolerance" not in stages[1].target["graders"]


BENCHMARKS = "experiment.evaluation.benchmarks"


@pytest.mark.parametrize(
    ("override", "said"),
    [
        (f"{BENCHMARKS}.ifeval.prompt=polite", "prompts has instructions, logic"),
        (f"{BENCHMARKS}.gpqa.extra_graders=[choice]", "name each grader once"),
        (f"{BENCHMARKS}.gpqa.extra_graders=[chance]", "unknown grader 'chance'"),
        (f"{BENCHMARKS}.gpqa.grader=math", "set grader and dataset.grader alike"),
    ],
)
def test_a_benchmark_that_contradicts_itself_is_refused(override: str, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("(", "\\(")):
        make_plan(declared("qwen2.5-7b", "out-of-domain", override))


def test_a_held_out_split_needs_a_number_of_problems() -> None:
    with pytest.raises(ValueError, match="neither a dataset nor n_problems"):
        config.load("smoke", [f"{BENCHMARKS}.countdown.n_problems=null"])
