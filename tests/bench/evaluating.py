"""Sampling and grading while it samples, against the bare engine: vLLM, 256 tokens a draw.

A small model with random weights that cannot end a response, on the processor. The bare engine is
one call of vLLM's `LLM.generate` with the same requests, a seed each. Ours takes its draws one by
one, stores them, grades them by `math` in processes beside it, and ends with the table of pass@k.
What is graded is a text of about that length with one of a dozen answers a problem in its box: the
model's own is no mathematics. Wall time of both, in turn, the better of two
runs, and CPU seconds of all processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

PROBLEMS, DRAWS, TOKENS, REPEATS, DISTINCT = 8, 128, 256, 2, 12
TEXT = "We expand the product, collect terms, and compare both sides: $x^2 + 2x = 3$. "


def endless(folder: Path) -> Path:
    """A small checkpoint without an end token and with room for long responses."""
    from fgrpo_bench.files.whole import read_json, write_json
    from tests.support.openrlhf import make_untrained

    make_untrained(folder)
    for name in ("config.json", "generation_config.json"):
        write_json(folder / name, read_json(folder / name) | {"eos_token_id": None})
    config = read_json(folder / "config.json")
    write_json(folder / "config.json", config | {"max_position_embeddings": 1024})
    tokens = read_json(folder / "tokenizer_config.json")
    tokens.pop("eos_token", None)
    write_json(folder / "tokenizer_config.json", tokens)
    return folder


def measure(model: Path) -> None:
    """Run both in turn and print the facts."""
    import evaluators.vllm as back_end
    from tests.bench.grading import cpu_seconds
    from tests.openrlhf.vllm_draws import asked
    from tests.support.openrlhf import heldout_problems

    length = 16 + TOKENS
    engine = back_end.start(asked(model, "unread"), max_model_len=length)
    problems = [
        replace(problem, grader="math", target=f"\\frac{{{i}}}{{17}}")
        for i, problem in enumerate(heldout_problems(PROBLEMS), start=1)
    ]
    prompts = {p.problem_id: engine.get_tokenizer()(p.prompt)["input_ids"] for p in problems}
    walls: dict[str, list[float]] = {"bare": [], "ours": []}
    cpus: dict[str, list[float]] = {"bare": [], "ours": []}
    for _ in range(REPEATS):
        for name, run in (("bare", bare), ("ours", ours)):
            begun, used = time.perf_counter(), cpu_seconds()
            run(engine, problems, prompts)
            walls[name].append(time.perf_counter() - begun)
            cpus[name].append(cpu_seconds() - used)
    wall, cpu = ({name: min(each) for name, each in of.items()} for of in (walls, cpus))
    print(
        json.dumps(
            {
                "draws": PROBLEMS * DRAWS,
                "tokens a draw": TOKENS,
                "bare s": wall["bare"],
                "ours s": wall["ours"],
                "ratio": wall["ours"] / wall["bare"],
                "goal": 1.05,
                "CPU ratio": cpu["ours"] / cpu["bare"],
                "processors": len(os.sched_getaffinity(0)),
                "load": os.getloadavg()[0],
            }
        )
    )


def bare(engine, problems, prompts) -> None:  # type: ignore[no-untyped-def]
    """vLLM's own loop over the same requests."""
    import numpy as np
    from vllm import SamplingParams
    from vllm.inputs import TokensPrompt

    from fgrpo_bench.core.seeds import draw_seeds

    seeds = draw_seeds(0, [p.problem_id for p in problems], np.arange(DRAWS))
    asked = [
        (
            TokensPrompt(prompt_token_ids=prompts[p.problem_id]),
            SamplingParams(temperature=1.0, max_tokens=TOKENS, seed=seed),
        )
        for p, own in zip(problems, seeds.tolist(), strict=True)
        for seed in own
    ]
    done = engine.generate(*map(list, zip(*asked, strict=True)), use_tqdm=False)
    assert all(len(each.outputs[0].token_ids) == TOKENS for each in done)


def ours(engine, problems, prompts) -> None:  # type: ignore[no-untyped-def]
    """An evaluation of one benchmark as the stage makes it, on an engine that runs."""
    import evaluators.vllm as back_end
    from evaluators.grading import Grading
    from evaluators.grading_processes import GradeWorkers, grade_workers
    from evaluators.records import Draw, RequestQueue, SampleRequest
    from evaluators.sample import complete_draws
    from fgrpo_bench.analysis.scoring import count_stored, score
    from fgrpo_bench.files.paths import BenchmarkPaths
    from fgrpo_bench.stages.tables import PASSK, write_table
    from fgrpo_bench.stats.staged import fixed_design
    from tests.openrlhf.vllm_draws import PLACEMENT

    def sampler(wanted: Iterable[SampleRequest | None]) -> Iterator[list[Draw]]:
        for made in back_end.run(
            engine,
            RequestQueue(wanted),
            lambda problem: prompts[problem.problem_id],
            sampling={"temperature": 1.0, "max_tokens": TOKENS},
            in_flight=back_end.in_flight(PLACEMENT, "cpu", 16 + TOKENS),
        ):
            assert all(draw.n_tokens == TOKENS for draw in made)
            yield [replace(draw, response=answered(draw.draw)) for draw in made]

    def answered(draw: int) -> str:
        answer = f"\\frac{{{1 + draw % DISTINCT}}}{{17}}"
        return f"{draw}. {TEXT * 10}So the answer is $\\boxed{{{answer}}}$."

    design = fixed_design(DRAWS)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FGRPO_VERDICTS"] = str(Path(folder) / "verdicts")
        paths = BenchmarkPaths(Path(folder))
        with GradeWorkers(problems, workers=grade_workers()) as workers:
            grading = Grading(paths, problems, "math", workers=workers)
            draws, made = complete_draws(
                paths,
                problems,
                design=design,
                grading=grading,
                seed=0,
                sampler=lambda: sampler,
                on_draws=lambda done, of, draws: grading.add(draws),
            )
            grading.finish(draws)
        assert made == grading.tally.graded == PROBLEMS * DRAWS
        counts = count_stored(paths.grades(grading.version), design, draws=paths.draws)
        table = score(counts, [1, DRAWS], design)
        write_table(paths.passk(), table, PASSK)


def main() -> None:
    if len(sys.argv) > 1:
        return measure(Path(sys.argv[1]))
    from fgrpo_bench.engines.openrlhf.engine import home as openrlhf_home

    python = openrlhf_home("cpu") / "bin" / "python"
    if not python.exists():
        sys.exit(f"there is no {python}: run `make setup-openrlhf-cpu`")
    with tempfile.TemporaryDirectory() as folder:
        model = endless(Path(folder) / "model")
        command = [str(python), "-m", "tests.bench.evaluating", str(model)]
        search = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
        subprocess.run(command, check=True, env=search)
    return None


if __name__ == "__main__":
    main()
