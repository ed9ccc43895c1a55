"""passk-inference: a line {"id", "c", "n"} a problem, a file a checkpoint and benchmark.

Its pass@k takes every draw for one of a fixed number, so draws that stop are refused. n counts the
draws that the grader could judge.
"""

from __future__ import annotations

from pathlib import Path

from fgrpo_bench.report.exports.evaluated import Evaluated, stopped, write_json_lines


def write(evaluated: Evaluated, folder: Path, *, draws: bool) -> list[Path]:
    """<benchmark>/<model>.jsonl. ValueError for draws that stop, for problems of which no draw
    could be judged, and with draws, for which there is no place."""
    if draws:
        raise ValueError("--draws: passk-inference reads counts alone; leave --draws out")
    if evaluated.design is not None:
        raise stopped(evaluated, "passk-inference reads a number of draws and of correct ones")
    rows = evaluated.counts.select("problem_id", "n_correct", "n_scored").rows()
    empty = [name for name, _, n in rows if not n]
    if empty:
        raise ValueError(
            f"{evaluated.label} on {evaluated.benchmark}: no draw of problem {empty[0]} could be "
            "judged, and passk-inference has no place for a problem without draws; grade again"
        )
    path = folder / evaluated.benchmark / f"{evaluated.model.split('/')[1]}.jsonl"
    write_json_lines(path, ({"id": name, "c": c, "n": n} for name, c, n in rows))
    return [path]
