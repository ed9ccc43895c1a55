"""`status` on SLURM: the files' word on progress beside the scheduler's on jobs."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fgrpo_bench.documents.terminal import aligned
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.stages.plan import read_plan
from fgrpo_bench.stages.watch import NUMBERS, shown
from sweeps import status
from sweeps.slurm import scheduler
from sweeps.slurm.arrays import is_job
from sweeps.slurm.decide import Decision, StageObservation, decide_stage
from sweeps.slurm.reasons import remedy
from sweeps.slurm.scheduler import Call
from sweeps.slurm.tick import frozen_profile, observe
from sweeps.text import counted

AT_REST = ("done", "waiting", "ended")
"""States of a stage that SLURM has no job of."""


def standing_now(decision: Decision) -> str:
    """e.g. `3 active (Dependency 2), 1 done`: states, and in SLURM's words why jobs wait."""
    standings = decision.standings.values()
    waits = Counter(
        each.exit_reason for each in standings if each.state == "active" and each.exit_reason
    )
    why = ", ".join(f"{reason} {count}" for reason, count in sorted(waits.items()))
    states = Counter(each.state for each in standings)
    return ", ".join(
        f"{count} {state}" + (f" ({why})" if state == "active" and why else "")
        for state, count in sorted(states.items())
    )


def stuck(decision: Decision) -> list[str]:
    """A line for each reason that no waiting ends, with what can be done about it."""
    held: dict[str, list[str]] = {}
    for name, standing in decision.standings.items():
        if standing.state == "active" and remedy(standing.exit_reason) is not None:
            held.setdefault(standing.exit_reason, []).append(name)
    return [
        f"{counted(len(names), 'stage')} ({names[0]}{', ...' if len(names) > 1 else ''}) will not "
        f"begin by waiting, as SLURM says {reason}: {remedy(reason)}"
        for reason, names in held.items()
    ]


def saved_now(paths: RunPaths, decision: Decision) -> list[str]:
    """What draws that stop have saved so far, as of sweeps.status.saved_words."""
    done = {name for name, each in decision.standings.items() if each.state == "done"}
    if not done:
        return []
    records = read_plan(paths).stages
    return status.saved_words(status.saved_draws(paths, records, done))


def warn_once(say: Callable[[str], None]) -> Callable[[str], None]:
    """Say a warning once, whatever its numbers are the next time."""
    warned: set[str] = set()

    def once(text: str) -> None:
        kind = re.sub(r"\d+", "", text)
        if kind not in warned or not text.startswith("warning: "):
            say(text)
        warned.add(kind)

    return once


def report(
    paths: RunPaths, *, warn: Callable[[str], None], call: Call = scheduler.call
) -> dict[str, Any]:
    """What `sweeps.status.report` gives, with job_id, node, elapsed and reason at every stage and
    its state by the scheduler's word; where SLURM cannot be asked, the files' word with a warning.
    """
    answer = status.report(paths)
    limit = frozen_profile(paths).max_attempts
    records = read_plan(paths).stages
    try:
        seen = {each.record.name: each for each in observe(paths, records, call, warn=warn).seen}
    except (ValueError, ConnectionError) as error:
        warn(f"warning: SLURM was not asked, so this is what the files tell: {error}")
        seen = {}
    for point in answer["points"]:
        for stage in point["stages"]:
            observed = seen.get(stage["name"])
            of_slurm = _of_slurm(observed, limit) if observed is not None else {}
            if stage["state"] == status.DAMAGED and of_slurm.get("state") in AT_REST:
                of_slurm |= {"state": status.DAMAGED, "reason": stage["why"]}
            stage |= of_slurm
    stages = [stage for point in answer["points"] for stage in point["stages"]]
    return answer | {"stages": dict(Counter(stage["state"] for stage in stages))}


def _of_slurm(seen: StageObservation, max_attempts: int) -> dict[str, Any]:
    standing = decide_stage(seen, now=time.time(), max_attempts=max_attempts)
    if not is_job(seen.record.kind):  # no job: its files tell how it stands
        return {"reason": standing.exit_reason}
    job, place = seen.job, seen.place
    state: str = standing.state
    if state == "active":
        at_work = seen.at_work or _begun(seen)
        unseen = "running" if at_work else "pending"
        state = job.state.lower() if job is not None and seen.queued else unseen
    return {
        "state": {"new": "waiting", "again": "ended"}.get(state, state),
        "attempts": max(seen.attempts, seen.starts),
        "job_id": place.job_id if place is not None else None,
        "node": (job.node if job is not None else "")
        or ("" if seen.note is None else seen.note.node or ""),
        "elapsed": job.elapsed if job is not None else "",
        "reason": standing.exit_reason,
    }


def _begun(seen: StageObservation) -> bool:
    """Whether its job noted that it began, and nothing says that it ended."""
    ended = seen.job is not None and not seen.job.active
    return seen.note is not None and seen.note.outcome is None and not ended


def _title(stage: Mapping[str, Any], of_point: Sequence[Mapping[str, Any]]) -> str:
    """e.g. `train`; where several checkpoints are evaluated, e.g. `evaluate step-00300`."""
    kind: str = stage["kind"]
    alone = sum(other["kind"] == kind for other in of_point) == 1
    return kind if alone else f"{kind} {stage['name'].rpartition('/')[2]}"


def render(answer: Mapping[str, Any]) -> str:
    """A row a stage that is at work, waits for a reason or failed; a count of the others."""
    columns = status.number_columns(s for point in answer["points"] for s in point["stages"])
    header = ["point", "stage", "state", "job", "node", "elapsed", "attempts", "step"]
    header += [NUMBERS[name].column for name in columns]
    rows = [
        [
            point["point_id"],
            _title(stage, point["stages"]),
            stage["state"],
            stage.get("job_id") or "",
            stage.get("node") or "",
            stage.get("elapsed") or "",
            str(stage["attempts"] or ""),
            f"{stage['step']}/{stage['of']}" if stage.get("of") else "",
            *(shown(name, stage["numbers"]) for name in columns),
            stage.get("reason") or "",
        ]
        for point in answer["points"]
        for stage in point["stages"]
    ]
    return status.framed(answer, aligned([[*header, "why"], *rows]))
