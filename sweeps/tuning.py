"""`tune`: a sweep with every method at the learning rate that suited it best, as YAML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from fgrpo_bench.analysis import analysed
from fgrpo_bench.analysis.rates import Choice, choose_rates
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.specs import Grid, SweepSpec, config, to_dict
from fgrpo_bench.specs.cell import to_columns


def tuned(paths: RunPaths) -> str:
    """The text of conf/sweep/<sweep>-tuned.yaml. paths: the run of the sweep over learning rates;
    seeds, exclusions and family are those that conf/sweep/<sweep>.yaml declares. Raises as
    `choose_rates`."""
    declared = config.load(paths.sweep).sweep
    analysis = analysed(load_results(paths))
    chosen = choose_rates(analysis, declared.grid.seed)
    seeds = sorted({point.seed for point in analysis.results.of_sweep().points})
    return _text(declared, chosen, paths, seeds)


def _text(
    declared: SweepSpec, chosen: Sequence[Choice], paths: RunPaths, seeds: Sequence[int]
) -> str:
    grid: dict[str, Any] = {field.name: [] for field in fields(Grid)}
    grid |= {"learning_rate_factor": [1.0], "seed": list(declared.grid.seed)}
    sweep = [
        f"name: {declared.name}-tuned",
        f"question: {declared.question} Each method at the learning rate that suits it.",
        *("grid:", *(f"  {name}: {json.dumps(values)}" for name, values in grid.items())),
        *("cells:", *map(_cell, chosen)),
        f"exclude: {json.dumps([_given(to_dict(rule)) for rule in declared.exclude])}",
        f"family: {'null' if declared.family is None else json.dumps(to_dict(declared.family))}",
    ]
    made_by = f"experiment={paths.experiment} version={paths.version}"
    return "\n".join(
        [
            "# @package _global_",
            f"# Every method of {declared.name} at the learning rate of those tried that had the",
            f"# highest pass@1 on another seed ({', '.join(map(str, seeds))}). Printed by",
            f"# `fgrpo-bench sweep tune {paths.sweep} {made_by}`.",
            *("defaults:", f"  - override /experiment: {paths.experiment}", "  - _self_", ""),
            *("sweep:", *(f"  {line}" for line in sweep)),
        ]
    )


def _cell(choice: Choice) -> str:
    own = ", ".join(f"{name}: {value}" for name, value in to_columns(choice.cell).items())
    scores = ", ".join(f"{100 * score:.1f} at {f:g}" for f, score in choice.pass_at_1.items())
    return f"  - {{{own}}}  # pass@1 {scores}"


def _given(rule: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in rule.items() if value is not None}
