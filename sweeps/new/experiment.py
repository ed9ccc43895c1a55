"""`fgrpo-bench new experiment mine --model ... --data ...`: a training run of one's own.

In: a model, a file of problems with answers, and a reward. Out: one short file of conf/experiment,
which says what differs from the paper's main experiment, and what a sweep of it takes: memory,
hours and disk. What is looked up is said: columns in the file, sizes in the model's folder or at
its publisher's. Next: sweeps.rehearse, which runs the experiment with a tiny model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fgrpo_bench.core import registry
from fgrpo_bench.core.problems import Problem
from fgrpo_bench.data.columns import file_dataset, question_columns
from fgrpo_bench.data.fetch import check_remote_code
from fgrpo_bench.data.prepare import file_table
from fgrpo_bench.data.published import Published, read_published
from fgrpo_bench.graders import BOX_SUFFIX, BOX_SYSTEM, BOXED, function, get_grader
from fgrpo_bench.specs import DatasetSpec, PretrainedSpec, config, from_dict, to_dict
from sweeps import preview
from sweeps.freeze import run_paths
from sweeps.new.changes import Changes, filled, quoted
from sweeps.plan import make_plan
from sweeps.text import short_path

GRADER = "math"
"""What judges where no reward is named."""
SWEEP, PROFILE = "transfer", "slurm-8gpu"
"""What the experiment is planned as."""
PROMPTS_PER_STEP, UPDATES, EPOCHS, EVALUATIONS = 256, 4, 10, 6
"""Of the paper's main experiment: the most prompts of a step and the updates on them, epochs, and
evaluations during one."""
PROMPT_TOKENS, RESPONSE_TOKENS = 1024, 8192
"""Of the same, where the model's context has room for both."""
WARMUP_STEPS, EVALUATED = 15, 30
"""Of the same: the learning rate's warm-up, and problems of an evaluation during training."""


@dataclass(frozen=True, kw_only=True)
class Problems:
    """A file of problems with answers."""

    dataset: DatasetSpec
    rows: int
    """Of those that have both."""
    first: Problem
    longest: int
    """Characters of the longest problem."""
    summary: str
    """What was looked up, for a person."""


def read_problems(path: Path, prompt: str | None, answer: str | None, grader: str) -> Problems:
    """A file with the columns that are named, or have a usual name, its golds tried with the
    grader; FileNotFoundError or ValueError where it is none."""
    registry.entry("graders", grader)
    columns = question_columns(path, prompt=prompt, answer=answer, grader=grader)
    dataset = file_dataset(path, columns, name=_slug(path.stem), grader=grader)
    table, summary = file_table(dataset)
    if table.is_empty():
        raise ValueError(
            f"{path}: no row has both {columns.prompt} and {columns.answer}: fill some"
        )
    used = f"columns {columns.prompt!r} and {columns.answer!r}, judged by {grader}"
    row = table.row(0, named=True)
    return Problems(
        dataset=dataset,
        rows=len(table),
        first=Problem(
            benchmark=dataset.name,
            problem_id=f"the first row of {path.name}",
            prompt=row["prompt"],
            target=row["gold_used"],
            grader=grader,
        ),
        longest=max(map(len, table["prompt"])),
        summary="; ".join([used, *summary, *columns.said]),
    )


def _slug(text: str) -> str:
    """A text as a name that YAML takes for one, too."""
    slug = re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-_")[:50]
    return slug if slug and quoted(slug) == slug else f"problems-{slug}".rstrip("-")


def check_grader(problems: Problems, *, is_reward: bool) -> None:
    """ValueError for a grader that says nothing of an answer."""
    first, name = problems.first, problems.first.grader
    if ":" in name:
        function.check(name, first, is_reward=is_reward)
    elif (judged := get_grader(name)(first, first.target)).outcome == "unscored":
        raise ValueError(
            f"the grader {name} cannot judge {first.target!r}, the answer of {first.problem_id} "
            f"({judged.reason}): name another (docs/reference/grading.md), or mend the answers"
        )


def _pretrained_specs() -> list[PretrainedSpec]:
    """The published models of conf/experiment whose shape stands there."""
    trained = [content.get("train") or {} for content in config.contents("experiment")]
    models = [train["pretrained"] for train in trained if train.get("pretrained")]
    return [from_dict(PretrainedSpec, {"revision": None} | model)
            for model in models if model.get("shape")]  # fmt: skip


def begin(
    name: str,
    *,
    model: str,
    data: Path,
    reward: str | None,
    heldout: Path | None,
    prompt: str | None,
    answer: str | None,
    trust_remote_code: bool,
    is_dry: bool,
) -> int:
    """Write the experiment and plan it; ValueError or OSError, with value, rule and remedy, before
    anything is written."""
    grader = reward or GRADER
    problems, published = (
        read_problems(data, prompt, answer, grader),
        read_published(model, _pretrained_specs()),
    )
    if published.folder is not None:
        check_remote_code(
            published.folder, trusted=trust_remote_code, remedy="give --trust-remote-code"
        )
    published = replace(
        published, spec=replace(published.spec, trust_remote_code=trust_remote_code)
    )
    check_grader(problems, is_reward=True)
    held = None if heldout is None else read_problems(heldout, prompt, answer, grader)
    if held is not None and held.dataset.path == problems.dataset.path:
        raise ValueError(
            f"--heldout {heldout} is the file of --data: name problems that are not trained on, or "
            "leave it out"
        )
    path = config.CONF / "experiment" / f"{name}.yaml"
    changes = Changes()
    changes.write(path, _experiment_text(name, published, problems, held, reward))
    print(
        f"problems: {problems.rows:,} of {data}, {problems.summary}\n"
        f"model: {model}, {published.spec.parameters:,} parameters, {published.source}; "
        f"{'its chat template' if published.chat_template else 'no chat template'}"
    )
    if held is None:
        print("evaluated on math500: problems of your own are named with --heldout")
    else:
        print(f"evaluated on {held.rows:,} problems of {heldout}, {held.summary}")
    steps = [
        f"edit {short_path(path)}: fgrpo-bench sweep plan {SWEEP}/{name} profile={PROFILE}",
        f"make rehearse EXPERIMENT={name}   # all of it on processors, with a tiny model",
        f"make sweep-{SWEEP} EXPERIMENT={name} PROFILE={PROFILE}",
    ]
    if is_dry:
        return changes.conclude(steps, is_dry=True)
    changes.conclude([], is_dry=False)
    print("\n".join(_planned(name)))
    if published.unknown is not None:
        print(f"not known: {published.unknown}")
    print("next:", *(f"  {step}" for step in steps), sep="\n")
    return 0


def options_line(dataset: DatasetSpec, indent: int) -> str:
    """The line of a YAML file that names a dataset's columns of options; empty without any."""
    return f"\n{' ' * indent}options: {quoted(dataset.options)}" if dataset.options else ""


def _planned(name: str) -> Iterator[str]:
    """Memory, hours and disk of a sweep of an experiment, in lines for a person."""
    declared = config.load(SWEEP, [f"experiment={name}", f"profile={PROFILE}"])
    try:
        plan = make_plan(declared)
    except ValueError as error:  # the file is right, and too much for these GPUs
        yield f"it cannot run as {SWEEP} with profile={PROFILE}: {error}"
        return
    shown = preview.preview(plan, run_paths(plan.declaration))
    yield f"as {SWEEP} with profile={PROFILE}, {shown['points_total']} runs:"
    yield from (f"  {line}" for line in preview.cost_lines(shown["cost"], PROFILE))
    yield from (f"  {line}" for line in shown["memory"])
    yield from (f"  warning: {line}" for line in shown["warnings"])


def _experiment_text(
    name: str, model: Published, problems: Problems, held: Problems | None, reward: str | None
) -> str:
    """The experiment's file; ValueError for problems too few to train on."""
    step = min(PROMPTS_PER_STEP, 2 ** (problems.rows.bit_length() - 1))
    if step < UPDATES:
        raise ValueError(
            f"{problems.dataset.path} has {problems.rows} problems, fewer than the {UPDATES} of "
            "which a step makes its updates: give more"
        )
    per_epoch = problems.rows // step
    prompt_tokens, response_tokens = PROMPT_TOKENS, RESPONSE_TOKENS
    if model.context is not None:
        prompt_tokens = min(prompt_tokens, model.context // 2)
        response_tokens = min(response_tokens, model.context - prompt_tokens)
    grader = reward or GRADER
    boxed = grader in BOXED
    shape = model.spec.shape
    values: dict[str, Any] = {
        "dataset": quoted(problems.dataset.name),
        "path": quoted(problems.dataset.path),
        "prompt_key": quoted(problems.dataset.prompt_key),
        "answer_key": quoted(problems.dataset.answer_key),
        "options": options_line(problems.dataset, 4),
        "grader": quoted(grader),
        "rows": problems.rows,
        "reward": "null" if reward is None else quoted(reward),
        "model_name": quoted(model.spec.name),
        "model": quoted(model.spec.path),
        "parameters": model.spec.parameters,
        "parameters_source": f"   # {model.source}",
        "shape": "null" if shape is None else json.dumps(to_dict(shape)).replace('"', ""),
        "trusted": "\n    trust_remote_code: true" * model.spec.trust_remote_code,
        "chat_template": json.dumps(model.chat_template),
        "system": json.dumps(BOX_SYSTEM) if boxed and model.chat_template else "null",
        "suffix": json.dumps(BOX_SUFFIX) if boxed and not model.chat_template else "null",
        "prompt_tokens": prompt_tokens,
        "response_tokens": response_tokens,
        "prompts_per_step": step,
        "epochs": EPOCHS,
        "per_epoch": per_epoch,
        "steps": EPOCHS * per_epoch,
        "warmup": min(WARMUP_STEPS, per_epoch),
        "eval_every": 0,
        "heldout": "",
        "heldout_defaults": "",
        "eval_dataset": "  eval_dataset: null\n",
    }
    if held is not None:
        held_name = held.dataset.name
        if held_name == problems.dataset.name:
            held_name += "-heldout"
        values |= {
            "eval_every": max(per_epoch // EVALUATIONS, 1),
            "heldout_defaults": "  - /benchmark/shared/published@evaluation.benchmarks."
            f"{held_name}\n  - override /evaluation@evaluation: shared/vllm\n",
            "eval_dataset": f"  eval_n_problems: {min(EVALUATED, held.rows)}\n  eval_dataset: "
            f"${{experiment.evaluation.benchmarks.{held_name}.dataset}}\n",
            "heldout": filled(
                "heldout.yaml",
                heldout_name=held_name,
                heldout_rows=held.rows,
                heldout_path=quoted(held.dataset.path),
                heldout_prompt_key=quoted(held.dataset.prompt_key),
                heldout_answer_key=quoted(held.dataset.answer_key),
                heldout_options=options_line(held.dataset, 8),
                grader=quoted(grader),
            ),
        }
    return filled("experiment.yaml", name=quoted(name), **values).rstrip() + "\n"
