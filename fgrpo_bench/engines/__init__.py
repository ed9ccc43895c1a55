"""Training engines, one package each. Whoever plans or starts a training run asks `engine.Engine`.

The built-in one (`embedded`) also warms base models up and draws from what it made: warm-ups and
evaluators call it by its name for that. Loads none of them: processes that need something small of
one package start often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fgrpo_bench.core import registry

if TYPE_CHECKING:
    from fgrpo_bench.engines.engine import Engine, Environment
    from fgrpo_bench.specs import TrainSpec


def engine_for(train: TrainSpec) -> Engine:
    """The engine of a training run."""
    engine: Engine = registry.entry("engines", train.engine)
    return engine


def engine_for_sampler(sampler: str) -> Engine:
    """The engine in whose environment a sampler runs (EvalSpec.sampler); ValueError for a server,
    which runs in none and has no checkpoint of a sweep."""
    for entry in all_engines():
        if sampler in entry.samplers:
            return entry
    raise ValueError(
        f"sampler={sampler}: a server does not draw from the checkpoints that a sweep trains; set "
        "experiment.evaluation.sampler=vllm or transformers, or evaluate what it serves alone "
        "(`fgrpo-bench evaluate --endpoint URL --model NAME --data FILE`)"
    )


def engine_for_environment(name: str) -> Engine:
    """The engine of an environment by its name in plan.json; ValueError that lists those."""
    by_name = {entry.environment.name: entry for entry in all_engines()}
    if name not in by_name:
        raise ValueError(f"unknown environment {name!r}: there are {', '.join(sorted(by_name))}")
    return by_name[name]


def environment(name: str) -> Environment:
    """An environment by its name; ValueError likewise."""
    return engine_for_environment(name).environment


def all_engines() -> list[Engine]:
    """All engines."""
    return list(registry.table("engines").values())
