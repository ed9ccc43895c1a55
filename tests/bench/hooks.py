"""The share of a training step of OpenRLHF that is spent inside our hooks.

The real OpenRLHF on the processor: a small model, 32 prompts of 8 rollouts per step, two updates a
step, focal weight on. Step time and clocks come from the same run, the first step left out. With
responses of a few tokens a step is as short as it gets, and the share as large; those of 256 tokens
are nearer to real ones. Then 256 prompts of 2 rollouts with a tokenizer as large as a published
model's, sent our way and, as its baseline, the way of OpenRLHF.

Counted by wall time, as if nothing ran beside anything: focal weights, ordering and counting of
rollouts, labels, seeds and bookkeeping of the reward executor, pickling and unpickling of the
tokenizer, the metrics row with its fsync, the seeding of updates, and the metrics that ride on
updates. Judging is said apart: every reward function does it.

Arguments: names of cases; without any all are run.
"""

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

from fgrpo_bench.engines.openrlhf.engine import home as openrlhf_home
from fgrpo_bench.files.journal import read_lines
from fgrpo_bench.files.whole import read_json, write_json
from tests.support.openrlhf import Run, make_model, train_problems, write_prompts

GOAL = 2.0
TOKENS = 151_644
"""Of Qwen2.5's tokenizer."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A run."""

    steps: int
    shortest: int
    longest: int
    """Tokens of a response."""
    prompts: int = 32
    group_size: int = 8
    has_large_tokenizer: bool = False
    sends_stock_tokenizer: bool = False


MANY = Case(steps=3, shortest=256, longest=256, prompts=256, group_size=2, has_large_tokenizer=True)
CASES = {
    "at most 8 tokens": Case(steps=12, shortest=1, longest=8),
    "256 tokens": Case(steps=6, shortest=256, longest=256),
    "256 tokens to 256 prompts": MANY,
    "256 tokens to 256 prompts with the tokenizer sent whole": replace(
        MANY, sends_stock_tokenizer=True
    ),
}


def enlarge(folder: Path) -> None:
    """Make the tokenizer of a checkpoint one of byte-pair encoding with so many TOKENS, of which
    the model's own keep their numbers."""
    path = folder / "tokenizer.json"
    content = read_json(path)
    vocabulary = dict(content["model"]["vocab"])
    letters = [chr(0x4E00 + i) for i in range(400)]
    pairs = [(a, b) for a in letters for b in letters]
    merges = pairs[: TOKENS - len(vocabulary) - len(letters)]
    for token in [*letters, *map("".join, merges)]:
        vocabulary[token] = len(vocabulary)
    unknown = content["model"]["unk_token"]
    model = {"type": "BPE", "vocab": vocabulary, "merges": merges, "unk_token": unknown}
    write_json(path, content | {"model": model})


def options(case: Case) -> dict[str, str]:
    """Of OpenRLHF's command line, beside those of the tests' runs."""
    return {
        "--fgrpo.steps": str(case.steps),
        "--fgrpo.base_sha256": "0" * 64,
        "--fgrpo.vllm_max_num_seqs": "384",
        "--fgrpo.vllm_max_num_batched_tokens": "65536",
        "--rollout.batch_size": str(case.prompts),
        "--rollout.n_samples_per_prompt": str(case.group_size),
        "--rollout.micro_batch_size": "32",
        "--rollout.max_new_tokens": str(case.longest),
        "--data.max_len": str(case.longest + 16),
        "--train.batch_size": str(case.prompts * case.group_size // 2),
        "--train.micro_batch_size": "32",
        "--train.num_episodes": str(-(-case.steps // 2)),
    }


def measure(folder: Path, python: Path, model: Path, case: Case) -> dict[str, float]:
    """Seconds a step: the step's own under `step`, then by hook; its mean response as `tokens`."""
    steps = case.steps
    if case.has_large_tokenizer:
        model = Path(shutil.copytree(model, folder / "model"))
        enlarge(model)
    problems = itertools.islice(itertools.cycle(train_problems(64)), 2 * case.prompts)
    run = Run(
        folder=folder / "run",
        model=model,
        prompts=write_prompts(folder / "prompts.jsonl", list(problems)),
        options=options(case),
    )
    (folder / "clocks").mkdir()
    further = {
        "FGRPO_OPENRLHF_DEVICE": "cpu",
        "FGRPO_BENCH_CLOCKS": str(folder / "clocks"),
        "FGRPO_BENCH_SHORTEST": str(case.shortest),
        "FGRPO_BENCH_STOCK_TOKENIZER": str(int(case.sends_stock_tokenizer)),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    done = subprocess.run(
        [str(python), "-m", "tests.bench.clocked_driver", *run.arguments],
        env=os.environ | further,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"the run failed:\n{done.stdout[-3000:]}")
    rows = run.rows()
    assert len(rows) == steps, rows
    ends = [float(str(row["time_ms"])) / 1000 for row in rows]
    tokens = [float(str(row["response_tokens"])) for row in rows[1:]]
    total: dict[str, float] = defaultdict(float)
    for path in (folder / "clocks").glob("*.jsonl"):
        for clock, at, seconds in read_lines(path):
            if ends[0] < at <= ends[-1]:
                name, _, stock = clock.partition("/")
                total[name] += -seconds if stock else seconds
    facts = {"step": (ends[-1] - ends[0]) / (steps - 1), "tokens": sum(tokens) / (steps - 1)}
    return facts | {name: seconds / (steps - 1) for name, seconds in total.items()}


def main() -> None:
    python = openrlhf_home("cpu") / "bin" / "python"
    if not python.exists():
        sys.exit(f"there is no {python}: run `make setup-openrlhf-cpu`")
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(Path(folder) / "model")
        config = model / "config.json"  # its rotary positions hold for any length
        write_json(config, read_json(config) | {"max_position_embeddings": 512})
        chosen = sys.argv[1:] or CASES
        for name in chosen:
            own = Path(folder) / name.replace(" ", "-")
            own.mkdir()
            report(name, CASES[name], measure(own, python, model, CASES[name]))


def report(name: str, case: Case, seconds: dict[str, float]) -> None:
    """Print the facts of a case."""
    step, tokens, judging = (seconds.pop(key) for key in ("step", "tokens", "judging"))
    hooks = sum(seconds.values())
    rollouts = case.prompts * case.group_size
    facts = {"case": f"responses of {name}", "steps": case.steps - 1, "tokens a response": tokens}
    print(json.dumps(facts | {"s a step": step, "us in hooks a rollout": 1e6 * hooks / rollouts}))
    print(json.dumps({"share of the step, %": 100 * hooks / step, "goal, %": GOAL}))
    print(json.dumps({f"ms in {key}": 1000 * s for key, s in sorted(seconds.items())}))
    print(
        json.dumps({"ms of judging": 1000 * judging, "with it, %": 100 * (hooks + judging) / step})
    )


if __name__ == "__main__":
    main()
