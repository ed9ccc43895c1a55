"""The kinds of stages: one file each, one line each in KINDS.

What a kind's stages compute and what defines it, their command, and what whoever dispatches them
must know stands in its file. Whoever runs, shows or reads stages asks the table.
"""

from fgrpo_bench.kinds import evaluate, fetch, likelihood, rare, train, warmup
from fgrpo_bench.kinds.kind import Environment as Environment
from fgrpo_bench.kinds.kind import Kind as Kind
from fgrpo_bench.kinds.kind import Planned as Planned
from fgrpo_bench.kinds.kind import Stage as Stage
from fgrpo_bench.stages.states import RERUN_HINT

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        fetch.KIND,
        warmup.KIND,
        train.KIND,
        evaluate.KIND,
        rare.KIND,
        likelihood.KIND,
    )
}
"""By name, in an order in which what is needed comes first."""


def rerun_hint(kind: str) -> str:
    """What `run` does about a missing file of a stage of a kind, which may be another version's."""
    return KINDS[kind].rerun_hint if kind in KINDS else RERUN_HINT
