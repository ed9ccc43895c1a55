"""`python -m tests.openrlhf.vllm_draws <checkpoint> <out.json>`: draws of a checkpoint by the real
vLLM on the processor as an evaluation makes them, in one process, without stand-ins.
With `two` behind it: by two engines as an evaluation starts them. With `likelihoods` behind it:
nats per token of three answers by vLLM and by transformers.

Other tests take the settings, and the stage of such an evaluation, from here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml

import evaluators.evaluate as evaluating
import evaluators.vllm as back_end
from evaluators.backends import make_engine
from evaluators.rare import StoredResponse, make_scorer
from evaluators.records import Draw, SampleRequest, SamplingEngine, SamplingTarget
from evaluators.sample import DrawScheduler
from fgrpo_bench.core.seeds import draw_seeds, stream
from fgrpo_bench.files.paths import StagePaths
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
from fgrpo_bench.stages import tables
from fgrpo_bench.stages.digests import weights_sha256
from fgrpo_bench.stages.markers import Marker, write_marker
from fgrpo_bench.stages.stage import EXIT_DONE, run_stage
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
DRAWS = 130
"""Of three problems: more than are in flight at once."""
PARTS = ((slice(None), slice(0, 16)), (slice(1, 2), slice(16, 21)))
"""Of the problems and of their draws, that are made once more."""
TAKEN = 40
"""Of three problems, by evaluations under one run root."""
DESIGN = StagedDesign(stages=(16, 40, 100, DRAWS), enough=12)


def environment(**more: str) -> dict[str, str]:
    """Of a process without the stand-ins for CUDA."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("FGRPO_", "VLLM_"))}
    return inherited | {"PYTHONPATH": ".", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"} | more


def observed_of(checkpoint: Path, folder: Path, *mode: str) -> Any:
    """What this module observes, in a process of its own."""
    out = folder / "out.json"
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(checkpoint), str(out), *mode],
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(out.read_text())


def is_right(response: str) -> bool:
    """Stands for a judgement: so for about a seventh of the responses."""
    return sum(map(ord, response)) % 7 == 0


class Judgements:
    """Those of a grader that knows a draw as soon as it is made (evaluators.grading.Grading)."""

    def __init__(self) -> None:
        self.right: dict[str, dict[int, bool]] = {}

    def add(self, draws: Sequence[Draw]) -> None:
        for made in draws:
            self.right.setdefault(made.problem_id, {})[made.draw] = is_right(made.response)

    def judge(self, draws: pl.DataFrame) -> None:
        """Nothing is stored."""

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
    engine: their markers, what stands in their draws.json, and how many engines they asked for,
    which is the one that runs here."""
    started: list[SamplingTarget] = []

    def start(asked: SamplingTarget) -> SamplingEngine:
        started.append(asked)
        return engine

    evaluating.make_engine = start  # type: ignore[attr-defined]
    source, found = source_of(model, root / "source"), []
    for name, at_once in (("first", PLACEMENT.vllm_max_num_seqs), ("second", 90)):
        paths = stage_of(root / name, source, n_problems=3, n_samples=TAKEN)
        work = partial(
            evaluating.evaluate,
            device="cpu",
            placement=replace(PLACEMENT, vllm_max_num_seqs=at_once),
            bar=None,
            root=root,
        )
        assert run_stage(paths, work) == EXIT_DONE
        stored = read_json(paths.benchmark("countdown").manifest)
        found.append({"marker": read_json(paths.done), "stored": stored, "engines": len(started)})
    return found


Rows = list[list[tuple[str, int, str]]]
"""(response, tokens, how it ended) of the draws of each problem."""


def requests(*, seed: int, n: int) -> list[list[SampleRequest]]:
    """The first n draws of three problems."""
    problems = heldout_problems(3)
    seeds = draw_seeds(seed, [problem.problem_id for problem in problems], np.arange(n))
    return [
        [SampleRequest(problem=problem, draw=i, seed=s) for i, s in enumerate(row)]
        for problem, row in zip(problems, seeds.tolist(), strict=True)
    ]


def drawn(engine: SamplingEngine, rows: list[list[SampleRequest]]) -> Rows:
    found = {
        (made.problem_id, made.draw): (made.response, made.n_tokens, made.finish_reason)
        for batch in engine.draw([wanted for row in rows for wanted in row])
        for made in batch
    }
    return [[found[wanted.problem.problem_id, wanted.draw] for wanted in row] for row in rows]


def drawn_in_stages(engine: SamplingEngine, rows: list[list[SampleRequest]]) -> Rows:
    judged, problems = Judgements(), heldout_problems(3)
    seeds = {row[0].problem.problem_id: [wanted.seed for wanted in row] for row in rows}
    scheduler = DrawScheduler(DESIGN, problems, seeds, tables.DRAWS.to_frame(), judged)  # type: ignore[arg-type]
    found = {problem.problem_id: dict[int, tuple[str, int, str]]() for problem in problems}
    for batch in engine.draw(scheduler):
        for made in batch:
            found[made.problem_id][made.draw] = made.response, made.n_tokens, made.finish_reason
        judged.add(batch)
        scheduler.count_draws(batch)
    return [[made[number] for number in range(len(made))] for made in found.values()]


def by_two_engines(checkpoint: Path, folder: Path) -> dict[str, Any]:
    halves = replace(PLACEMENT, evaluation_engines=2, vllm_max_num_seqs=90)
    engine = make_engine(asked(checkpoint, weights_sha256(checkpoint), halves))
    return of_any_engine(engine)


def of_any_engine(engine: SamplingEngine) -> dict[str, Any]:
    rows = requests(seed=0, n=DRAWS)
    return {
        "facts": engine.facts,
        "all": drawn(engine, rows),
        "staged": drawn_in_stages(engine, rows),
    }


def by_one_engine(checkpoint: Path, folder: Path) -> dict[str, Any]:
    engine = back_end.vllm(asked(checkpoint, weights_sha256(checkpoint)))
    rows = requests(seed=0, n=DRAWS)
    return of_any_engine(engine) | {
        "parts": [drawn(engine, [row[draws] for row in rows[of]]) for of, draws in PARTS],
        "other": drawn(engine, requests(seed=1, n=16)),
        "of evaluation": drawn(
            engine, requests(seed=stream(EVALUATION.seed, SETTINGS["stream"]), n=TAKEN)
        ),
        "taken over": evaluated_twice(checkpoint, folder / "root", engine),
    }


def likelihoods(checkpoint: Path, folder: Path) -> dict[str, list[float]]:
    answers = [
        StoredResponse(problem=problem, response=response, ended=ended, end_token=None)
        for problem, response, ended in zip(
            heldout_problems(3), ("1+2*3-4", "9*9", "5"), (True, True, False), strict=True
        )
    ]
    whole, found = asked(checkpoint, weights_sha256(checkpoint)), {}
    for sampler in ("transformers", "vllm"):
        evaluation = replace(EVALUATION, sampler=sampler, dtype="float32")
        score = make_scorer(replace(whole, evaluation=evaluation))
        found[sampler] = [nll for _, nll in sorted(p for batch in score(answers) for p in batch)]
    return found


def main() -> None:
    checkpoint, out, mode = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    observe = {(): by_one_engine, ("two",): by_two_engines, ("likelihoods",): likelihoods}
    out.write_text(json.dumps(observe[tuple(mode)](checkpoint, out.parent)))


if __name__ == "__main__":
    main()
