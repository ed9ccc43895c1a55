"""IFEval's four scores: strict and loose, by prompt and by instruction, over stored grades."""

from __future__ import annotations

import polars as pl

from fgrpo_bench.graders.ifeval import COUNTS


def levels(grades: pl.DataFrame) -> dict[str, float]:
    """Shares of the draws that were judged, or of their instructions; empty for other graders.

    grades: tables.GRADES.
    """
    counts = [
        (draws, *map(int, each.groups()))
        for reason, draws in grades.group_by("reason").len().drop_nulls().iter_rows()
        if (each := COUNTS.fullmatch(reason)) is not None
    ]
    if not counts:
        return {}
    judged = sum(draws for draws, *_ in counts)
    asked = sum(draws * of for draws, _, of, _ in counts)
    return {
        "prompt strict": sum(n for n, strict, of, _ in counts if strict == of) / judged,
        "prompt loose": sum(n for n, _, of, loose in counts if loose == of) / judged,
        "instruction strict": sum(n * strict for n, strict, _, _ in counts) / asked,
        "instruction loose": sum(n * loose for n, _, _, loose in counts) / asked,
    }


def level_line(name: str, scores: dict[str, float]) -> str:
    """e.g. `ifeval: prompt strict 77.22%, prompt loose 79.81%, ...`."""
    shares = ", ".join(f"{kind} {share:.2%}" for kind, share in scores.items())
    return f"{name}, over all judged draws: {shares}"
