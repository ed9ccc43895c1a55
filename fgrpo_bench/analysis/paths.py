"""How cells differ at equal pass@1, where their runs have several evaluated checkpoints.

In: `Scores` of every checkpoint (checkpoints.py), and the pairs that are compared (question.py).
Out: the rows of `equal_pass_at_1`, `path_ranges` and `path_gaps`. Next: frames.py, which puts them
beside the others; the formulas are in fgrpo_bench.stats.paths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.analysis.checkpoints import At, Floats, Scores
from fgrpo_bench.analysis.comparisons import (
    Resamples,
    corrected,
    uncorrected,
)
from fgrpo_bench.analysis.question import Family, Pair
from fgrpo_bench.analysis.rows import EqualPassAt1, PathGap, PathRange
from fgrpo_bench.specs.cell import BASE
from fgrpo_bench.stats.intervals import (
    DIFFERENCES,
    Limits,
    Resampled,
    average,
    conclude,
    resample,
    room_of_difference,
)
from fgrpo_bench.stats.paths import END, MEAN, Gaps, PassCurve, gaps

AT = "at equal pass@1"
"""Behind the group of a pair."""
BASES: At = (BASE, 0)
"""Where every path of a sweep begins."""


@dataclass(frozen=True, kw_only=True)
class PathRows:
    """The rows of three frames."""

    compared: list[EqualPassAt1]
    ranges: list[PathRange]
    curves: list[PathGap]


def along_paths(
    resamples: Resamples,
    pairs: Sequence[Pair],
    *,
    columns: Sequence[str],
    ks: Sequence[int],
    family: Family,
) -> PathRows:
    """By column and pair. family: that of the sweep, which these are the comparisons of where it is
    declared at equal pass@1."""
    out = PathRows(compared=[], ranges=[], curves=[])
    for column in columns:
        for pair in pairs:
            if not pair.new.is_base and not pair.old.is_base:
                _add(out, resamples, column, pair, ks)
    if not family.at_equal_pass_at_1:
        return out
    by_cells = {(pair.new.cell, pair.old.cell): pair for pair in pairs}

    def is_in(row: EqualPassAt1) -> bool:
        return family.has(by_cells[row.new, row.old], row.column, row.k)

    return PathRows(
        compared=corrected(out.compared, is_in, family), ranges=out.ranges, curves=out.curves
    )


def _add(out: PathRows, resamples: Resamples, column: str, pair: Pair, ks: Sequence[int]) -> None:
    names = resamples.benchmarks(column)
    checkpoints = checkpoints_of(resamples, names, (pair.new.cell, pair.old.cell))
    steps = {
        cell: [step for name, step in ats if name == cell] for cell, ats in checkpoints.items()
    }
    if all(len(of_cell) < 2 for of_cell in steps.values()):
        return  # nothing but last checkpoints
    seeds = resamples.seeds(column, *(at for ats in checkpoints.values() for at in ats))
    few = next((cell for cell, of_cell in steps.items() if len(of_cell) < 2), None)
    label = {pair.new.cell: pair.new.label, pair.old.cell: pair.old.label}
    reason = None if few is None else f"{label[few]} has one evaluated checkpoint"
    if not seeds:
        reason = reason or "no seed has every evaluated checkpoint of both"
    groups = [
        (of_ks, gaps(*by_cell), masks)
        for of_ks, by_cell, masks in (
            [] if reason else paths_of(resamples, names, list(checkpoints.values()), seeds, ks)
        )
    ]
    if not groups and reason is None:
        return
    low = high = None
    if groups:
        _, first, masks = groups[0]
        low, high = float(first.low.mean()), float(first.high.mean())
        reason = _apart(resamples, names, first, masks, checkpoints, label, seeds)
    out.ranges.append(
        PathRange(
            column=column, group=pair.group, name=pair.name, new=pair.new.cell, old=pair.old.cell,
            seeds=seeds, low=low, high=high, reason=reason,
        )
    )  # fmt: skip
    if reason is not None:
        return
    for of_ks, matched, masks in groups:
        resampled = _resampled(resamples, names, matched, masks)
        _add_rows(out, column, pair, of_ks, matched, resampled, steps=steps, seeds=seeds)


def checkpoints_of(
    resamples: Resamples, names: Sequence[str], cells: Sequence[str]
) -> dict[str, list[At]]:
    """Evaluated checkpoints of each cell on any of these benchmarks, by rising step, the base
    models first where there are some."""
    bases = [BASES] if BASES in resamples.scores[names[0]] else []
    evaluated = {
        at for name in names for at, scores in resamples.scores[name].items() if scores.seeds
    }
    return {cell: [*bases, *sorted(at for at in evaluated if at[0] == cell)] for cell in cells}


def paths_of(
    resamples: Resamples,
    names: Sequence[str],
    checkpoints: Sequence[Sequence[At]],
    seeds: tuple[int | None, ...],
    ks: Sequence[int],
) -> Iterator[tuple[list[int], list[list[PassCurve]], list[NDArray[np.bool_]]]]:
    """k whose pass@k the same problems have, the paths by cell and benchmark, and which problems
    these are by benchmark; none of k that fewer than two problems have.

    checkpoints: of every cell, by rising step, the base models first where there are some.
    """
    scores = {
        name: [[resamples.scores[name][at].for_seeds(seeds) for at in ats] for ats in checkpoints]
        for name in names
    }
    groups: dict[bytes, tuple[list[int], list[NDArray[np.bool_]]]] = {}
    for i, k in enumerate(ks):
        if k > 1:
            masks = [_has_values(scores[name], i) for name in names]
            key = b"".join(mask.tobytes() for mask in masks)
            groups.setdefault(key, ([], masks))[0].append(i)
    for places, masks in groups.values():
        if all(mask.sum() >= 2 for mask in masks):
            by_cell = [
                [
                    _path(scores[name][cell], mask, places)
                    for name, mask in zip(names, masks, strict=True)
                ]
                for cell in range(len(checkpoints))
            ]
            yield [ks[i] for i in places], by_cell, masks


def _has_values(cells: Sequence[Sequence[Scores]], place: int) -> NDArray[np.bool_]:
    """[problems], whether every checkpoint and seed has a value. place: of the k."""
    known = np.all(
        [
            ~np.isnan(scores.values[:, :, place]) & ~np.isnan(scores.success_rates())
            for cell in cells
            for scores in cell
        ],
        axis=(0, 1),
    )
    return np.asarray(known)


def _path(cell: Sequence[Scores], mask: NDArray[np.bool_], places: Sequence[int]) -> PassCurve:
    noise = [scores.draw_variance(1)[:, mask] for scores in cell]
    return PassCurve(
        pass_at_1=np.stack([scores.success_rates()[:, mask] for scores in cell], axis=1),
        pass_at_k=np.stack([scores.values[:, mask][:, :, places] for scores in cell], axis=1),
        noise=np.stack(noise, axis=1).mean(axis=2) / mask.sum(),
    )


def concatenated(
    resamples: Resamples,
    names: Sequence[str],
    masks: Sequence[NDArray[np.bool_]],
    parts: Sequence[tuple[Floats, Floats | None]],
    limits: Limits = DIFFERENCES,
) -> Resampled:
    """Resamples of values [seeds, problems, columns] and room by benchmark, put together. masks: of
    which problems these are."""
    out = []
    for name, mask, (values, room) in zip(names, masks, parts, strict=True):
        clusters = resamples.clusters(name)
        out.append(
            resample(
                values,
                limits=limits,
                stream=resamples.streams[name],
                clusters=None if clusters is None else clusters[mask],
                room=room,
            )
        )
    return out[0] if len(out) == 1 else average(out)


def _resampled(
    resamples: Resamples, names: Sequence[str], matched: Gaps, masks: Sequence[NDArray[np.bool_]]
) -> Resampled:
    """Of the places of `Gaps.by_seed`, each at every k: [places * ks] columns."""
    parts = []
    for name, mask, values, sides in zip(names, masks, matched.parts, matched.sides, strict=True):
        clusters = resamples.clusters(name)
        new, old = (side.reshape(*side.shape[:2], -1) for side in sides)
        of_mask = None if clusters is None else clusters[mask]
        room = room_of_difference(new, old, clusters=of_mask)
        parts.append((values.reshape(*values.shape[:2], -1), room))
    return concatenated(resamples, names, masks, parts)


def _apart(
    resamples: Resamples,
    names: Sequence[str],
    matched: Gaps,
    masks: Sequence[NDArray[np.bool_]],
    checkpoints: Mapping[str, Sequence[At]],
    label: Mapping[str, str],
    seeds: tuple[int | None, ...],
) -> str | None:
    """Why the ranges do not meet; None where they do, in every seed and, of these runs, by an
    interval over problems."""
    apart = [
        str(seed) for seed, a, b in zip(seeds, matched.low, matched.high, strict=True) if a >= b
    ]
    # These runs' own rise, so that problems alone vary: the mean over seeds is one row.
    widths = [(width.mean(axis=0)[None, :, None], None) for width in matched.width]
    (rise,) = conclude(concatenated(resamples, names, masks, widths))
    if not apart and rise.low is not None and rise.low > 0:
        return None
    highest = {}
    for cell, ats in checkpoints.items():
        # pass@1 of each benchmark at the checkpoint where it is highest, mean over benchmarks
        best = []
        for name in names:
            scores = resamples.scores[name]
            best.append(max(np.nanmean(scores[at].success_rates()) for at in ats))
        highest[cell] = np.mean(best)
    slower = label[min(highest, key=lambda cell: highest[cell])]
    begins = "the base models" if BASES in next(iter(checkpoints.values())) else "where both begin"
    where = f" in seed {', '.join(apart)}" if apart and None not in seeds else ""
    return f"pass@1 of {slower} does not rise beyond doubt above {begins}{where}"


def _add_rows(
    out: PathRows,
    column: str,
    pair: Pair,
    ks: Sequence[int],
    matched: Gaps,
    resampled: Resampled,
    *,
    steps: Mapping[str, Sequence[int]],
    seeds: tuple[int | None, ...],
) -> None:
    estimates = np.array(conclude(resampled), dtype=object).reshape(-1, len(ks))
    new, old = pair.new.cell, pair.old.cell
    of_new = matched.new.mean(axis=0)
    for i, k in enumerate(ks):
        end, mean = estimates[END, i], estimates[MEAN, i]
        out.compared.append(
            EqualPassAt1(
                column=column,
                k=k,
                group=f"{pair.group}, {AT}",
                name=pair.name,
                new=new,
                new_step=steps[new][-1],
                old=old,
                old_step=steps[old][-1],
                p_draws=None,
                seeds=seeds,
                **uncorrected(end),
                pass_at_1=float(matched.high.mean()),
                pass_at_k=float(of_new[END, i]),
                mean_difference=mean.mean,
                mean_low=mean.low,
                mean_high=mean.high,
                mean_p=mean.p_value,
            )
        )
        for place, level in enumerate(matched.levels.tolist(), start=MEAN + 1):
            here = estimates[place, i]
            out.curves.append(
                PathGap(
                    column=column, new=new, old=old, k=k, pass_at_1=level,
                    new_pass_at_k=float(of_new[place, i]), difference=here.mean, low=here.low,
                    high=here.high,
                )
            )  # fmt: skip
