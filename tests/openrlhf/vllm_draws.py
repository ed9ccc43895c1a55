"""`python -m tests.openrlhf.vllm_draws <checkpoint> <out.json>`: draws of a checkpoint by the real
vLLM on the processor as an evaluation makes them, in one process, without stand-ins.
With `two` behind it: by two engines as an evaluation starts them.

Other tests take the settings, and the stage of such an evaluation, from here."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

import evaluators.evaluate as evaluating
import evaluators.vllm as back_end
from evaluators.backends import make_engine
from evaluators.records import Draw, SampleRequest, SamplingEngine, SamplingTarget
from evaluators.sample import DrawScheduler
from fgrpo_bench.core.seeds import draw_seeds, stream
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.spec import read_spec
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.kinds.evaluate import draws_identity
from fgrpo_bench.specs import (
    BenchmarkSpec,
    DesignSpec,
    EvalSpec,
    Placement,
    PromptSpec,
    from_dict,
    to_dict,
)
from fgrpo_bench.stages.digests import weights_sha256
from fgrpo_bench.stages.markers import Marker, write_marker
from fgrpo_bench.stages.stage import StageRun
from fgrpo_bench.stats.staged import StagedDesign
from tests.support.openrlhf import TRAIN, heldout_problems

CONF = Path(__file__).parents[2] / "conf"
PLACEMENT = from_dict(Placement, yaml.safe_load((CONF / "placement/cpu.yaml").read_text()))
EVALUATION = EvalSpec(
    name="x",
    sampler="vllm",
    benchmarks={
        "countdown": BenchmarkSpec(
            name="countdown",
            dataset=None,
            n_problems=3,
            grader="countdown",
            extra_graders=(),
            prompt=None,
        )
    },
    n_samples=256,
    ks=(1, 256),
    temperature=1.0,
    top_p=1.0,
    dtype="bfloat16",
    seed=0,
    prompts={},
)
SETTINGS = draws_identity(EVALUATION, TRAIN, stream=0) | {
    "prompt": to_dict(PromptSpec(chat_template=False, system=None)),
    "prompt_tokens": 16,
    "response_tokens": 8,
}
DRAWS = 200
"""Of three problems: more than are in flight at once."""
SHARED = 40
"""Of three problems, by evaluations under one run root."""
DESIGN = StagedDesign(stages=(16, 40, 100, DRAWS), enough=12)


def is_right(response: str) -> bool:
    """Stands for a judgement: so for about a seventh of the responses."""
    return sum(map(ord, response)) % 7 == 0


class Judgements:
    """Those of a grader that knows a draw as soon as it is made (evaluators.grading.Grading)."""

    def __init__(self) -> None:
        self.right: dict[str, dict[int, bool]] = {}

    def add(self, draws: Sequence[Draw]) -> None:
        for each in draws:
            self.right.setdefault(each.problem_id, {})[each.draw] = is_right(each.response)

    def correct(self, problem_id: str, n_draws: int) -> int:
        return sum(self.right[problem_id][number] for number in range(n_draws))


def asked(folder: Path, sha256: str, placement: Placement = PLACEMENT) -> SamplingTarget:
    """A checkpoint as these draws ask it."""
    return SamplingTarget(
        folder=folder,
        sha256=sha256,
        evaluation=EVALUATION,
        settings=SETTINGS,
        device="cpu",
        placement=placement,
    )


def source_of(model: Path, folder: Path) -> StagePaths:
    """A stage whose checkpoint 0 is the model."""
    paths = StagePaths(folder)
    paths.checkpoint(0).parent.mkdir(parents=True)
    paths.checkpoint(0).symlink_to(model)
    sha256 = weights_sha256(model)
    marker = Marker(fingerprint="f", target={}, outputs={}, step=0, weights_sha256=sha256)
    write_marker(paths, marker)
    return paths


def stage_of(
    folder: Path,
    source: StagePaths,
    *,
    n_problems: int,
    n_samples: int,
    design: DesignSpec | None = None,
) -> StagePaths:
    """The stage of an evaluation of that checkpoint, with its spec.json."""
    benchmark = replace(EVALUATION.benchmarks["countdown"], n_problems=n_problems)
    evaluation = replace(
        EVALUATION,
        benchmarks={"countdown": benchmark},
        n_samples=n_samples,
        ks=(1, n_samples),
        design=design,
    )
    paths = StagePaths(folder)
    spec = {
        "kind": "evaluate",
        "fingerprint": "f",
        "target": {},
        "identity": {"sampling": SETTINGS, "source": "s", "step": 0},
        "evaluation": to_dict(evaluation),
        "data": {},
        "source": str(source.folder),
        "step": 0,
    }
    write_json(paths.spec, spec)
    return paths


def evaluated_twice(model: Path, root: Path, engine: SamplingEngine) -> list[dict[str, Any]]:
    """Two evaluations of a model under a run root, the second one with other settings of the
    engine: the facts of their markers, what stands in their draws.json, and how many engines they
    asked for, which is the one that runs here."""
    started: list[SamplingTarget] = []

    def start(asked: SamplingTarget) -> SamplingEngine:
        started.append(asked)
        return engine

    evaluating.make_engine = start
    os.environ["FGRPO_DRAWS"] = str(root / "draws")
    source, told = source_of(model, root / "source"), []
    for name, at_once in (("first", PLACEMENT.vllm_max_num_seqs), ("second", 90)):
        paths = stage_of(root / name, source, n_problems=3, n_samples=SHARED)
        facts = evaluating.evaluate(
            read_spec(paths),
            StageRun(paths),
            device="cpu",
            placement=replace(PLACEMENT, vllm_max_num_seqs=at_once),
            bar=None,
        )
        stored = read_json(paths.benchmark("countdown").manifest)
        told.append({"marker": facts.as_json(), "stored": stored, "engines": len(started)})
    return told


def main() -> None:
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    two = sys.argv[3:] == ["two"]
    halves = replace(PLACEMENT, evaluation_engines=2, vllm_max_num_seqs=90)
    checkpoint = asked(folder, weights_sha256(folder), halves if two else PLACEMENT)
    engine = (make_engine if two else back_end.vllm)(checkpoint)
    draw, facts, canaries = engine
    problems = heldout_problems(3)
    names = [problem.problem_id for problem in problems]
    seeds = draw_seeds(0, names, np.arange(DRAWS))
    of_evaluation = draw_seeds(
        stream(EVALUATION.seed, SETTINGS["stream"]), names, np.arange(SHARED)
    )

    def drawn(
        problem: slice, draws: slice, further: int = 0, seeds: NDArray[np.int64] = seeds
    ) -> list[list[tuple[str, int, str]]]:
        rows = [
            [SampleRequest(problem=of, draw=i, seed=seed + further) for i, seed in enumerate(own)]
            for of, own in zip(problems[problem], seeds[problem, draws].tolist(), strict=True)
        ]
        found = {
            (each.problem_id, each.draw): (each.response, each.n_tokens, each.finish_reason)
            for made in draw([each for row in rows for each in row])
            for each in made
        }
        return [[found[each.problem.problem_id, each.draw] for each in row] for row in rows]

    def staged() -> list[list[tuple[str, int, str]]]:
        judged = Judgements()
        by_problem = {p.problem_id: own for p, own in zip(problems, seeds.tolist(), strict=True)}
        wanted = DrawScheduler(DESIGN, problems, by_problem, {}, judged)  # type: ignore[arg-type]
        made = {problem.problem_id: dict[int, tuple[str, int, str]]() for problem in problems}
        for draws in draw(wanted):
            for each in draws:
                own = each.response, each.n_tokens, each.finish_reason
                made[each.problem_id][each.draw] = own
            judged.add(draws)
            wanted.count_drawn(draws)
        return [[own[number] for number in range(len(own))] for own in made.values()]

    if two:
        whole = drawn(slice(None), slice(None))
        seen = [asdict(each) for each in canaries(problems)]
        told = {"facts": facts, "all": whole, "staged": staged(), "canaries": seen}
        out.write_text(json.dumps(told))
        return
    told = {
        "facts": facts,
        "all": drawn(slice(None), slice(None)),
        "again": drawn(slice(None), slice(None)),
        "first": drawn(slice(None), slice(0, 16)),
        "block": drawn(slice(1, 2), slice(16, 40)),
        "staged": staged(),
        "other": drawn(slice(None), slice(None), further=1),
        "of evaluation": drawn(slice(None), slice(None), seeds=of_evaluation),
        "canaries": [asdict(each) for _ in range(2) for each in canaries(problems)],
        "shared": evaluated_twice(folder, out.parent / "root", engine),
    }
    back_end.in_flight = lambda *_: 5  # type: ignore[assignment]
    told["five at once"] = drawn(slice(None), slice(0, 40))
    out.write_text(json.dumps(told))


if __name__ == "__main__":
    main()
