"""Theory: how often a group misses the tail, with sliders; the sweep's own rates laid over it; and
what each advantage weighs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from dashboards import calls, charts
from dashboards.form import Form, Given, choices
from dashboards.page import Chart, Links, Page, Slider
from dashboards.pages import theory_weights
from dashboards.queries.tail import (
    BINS,
    GAMMAS,
    GROUP_SIZES,
    RATES,
    SUCCESS_RATES,
    TAIL_SHARES,
    MeasuredTail,
    advantages,
    explorer,
    measured,
)
from fgrpo_bench.results import SweepResults
from fgrpo_bench.theory.weights import METHODS, OVER, SIZES, Method

START_RATE, START_SHARE, START_GAMMA = 0.3, 0.1, 0.5
BLUE, ORANGE, GREY = "#2171b5", "#e6891e", "#666666"


def build(results: SweepResults, given: Given, links: Links) -> Page:
    """The page; parameters: benchmark, n, over, and any number of method."""
    form = Form(results.paths, "theory", given, links)
    benchmark = form.one("benchmark", results.benchmarks)
    group_size = int(form.one("n", SIZES, "8"))
    over = form.one("over", METHODS, OVER)
    methods = form.many("method", METHODS) or METHODS
    labels = {text: Method.parse(text).label for text in METHODS}
    tail = measured(results, benchmark)
    return Page(
        address=form.address(),
        title="Which group size misses rare answers most",
        lead=(
            "An active group (some right, some wrong) that holds no rare right answer pushes "
            "probability away from it. Small groups are seldom active, large ones cover the tail."
        ),
        controls=choices(
            form.control("benchmark", "Measured on"),
            form.control("n", "At N", at="weights"),
            form.control("over", "Over N", labels, long=True, at="weights"),
        ),
        charts=(
            _tail(tail, results, benchmark),
            _advantage(tail, results, benchmark),
            *theory_weights.build(methods, group_size, over),
        ),
        context={
            "measured": tail is not None,
            "benchmark": benchmark,
            "methods": [(text, label, text in methods) for text, label in labels.items()],
            "kept": [pair for pair in form.address().parameters if pair[0] != "method"],
        },
    )


def _tail(found: MeasuredTail | None, results: SweepResults, benchmark: str) -> Chart:
    (curves, peaks), sizes = explorer(), GROUP_SIZES
    frames: dict[str, Any] = {}
    for i, rate in enumerate(SUCCESS_RATES):
        for j, share in enumerate(TAIL_SHARES):
            peak = peaks[i, j]
            y = [curves[i, j].tolist()]
            say = (
                f"With a success rate of {rate:g} and a tail of {share:.0%} of the right answers, "
                f"N = {peak} misses the tail most often."
            )
            if found is not None:
                y.append(found.curves[j].tolist())
                say += f" Averaged over this sweep's own success rates: N = {found.peaks[j]}."
            frames[f"{i},{j}"] = {"y": [[round(v, 5) for v in one] for one in y], "say": say}
    start = SUCCESS_RATES.index(START_RATE), TAIL_SHARES.index(START_SHARE)
    first = frames[f"{start[0]},{start[1]}"]
    names = ["at this success rate", "averaged over the sweep's success rates"]
    traces = [
        charts.curve(sizes, y, name=name, color=color)
        for y, name, color in zip(first["y"], names, (BLUE, ORANGE), strict=False)
    ]
    if found is not None and found.of.lost:
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": list(found.of.lost),
                "y": [round(value, 5) for value in found.of.lost.values()],
                "name": f"measured: share of problems lost at k = {results.evaluation['ks'][-1]}",
                "marker": {"color": GREY, "size": 9, "symbol": "diamond"},
            }
        )
    ticks = [2**i for i in range(1, 11)]
    return Chart(
        name="tail",
        title="Probability that an active group misses the tail",
        figure=charts.figure(
            traces,
            x="group size N",
            y="probability; share",
            xaxis={"type": "log", "tickvals": ticks, "ticktext": [str(n) for n in ticks]},
            yaxis={"rangemode": "tozero"},
        ),
        data=_tail_data(found),
        call=_call(calls.TAIL, calls.TAIL_MEASURED, found, results, benchmark),
        note="Points: problems within the base model's reach that training at gamma = 0 lost. They "
        "are another quantity than the curves; compare where each is highest.",
        sliders=(
            _slider("success-rate", "success rate", SUCCESS_RATES, start[0]),
            _slider(
                "tail-share", "tail, as a share of the right answers", TAIL_SHARES, start[1], ".0%"
            ),
        ),
        frames=frames,
    )


def _tail_data(found: MeasuredTail | None) -> pl.DataFrame:
    """Every curve; without a success rate the average over the sweep's own, and below them by N the
    share of problems that were lost."""
    (curves, _), sizes = explorer(), GROUP_SIZES
    frames = [
        pl.DataFrame(
            {
                "success_rate": np.repeat(SUCCESS_RATES, len(TAIL_SHARES) * len(sizes)),
                "tail_share": np.tile(np.repeat(TAIL_SHARES, len(sizes)), len(SUCCESS_RATES)),
                "group_size": np.tile(sizes, len(SUCCESS_RATES) * len(TAIL_SHARES)),
                "tail_miss_probability": curves.ravel(),
            }
        )
    ]
    if found is not None:
        averaged = {
            "tail_share": np.repeat(TAIL_SHARES, len(sizes)),
            "group_size": np.tile(sizes, len(TAIL_SHARES)),
            "tail_miss_probability": found.curves.ravel(),
        }
        lost = list(found.of.lost.items())
        schema = {"group_size": pl.Int64, "share_lost": pl.Float64}
        frames += [pl.DataFrame(averaged), pl.DataFrame(lost, schema=schema, orient="row")]
    return pl.concat(frames, how="diagonal")


def _call(
    plain: str, own: str, found: MeasuredTail | None, results: SweepResults, benchmark: str
) -> str:
    """The theory, and what the sweep measured where it did."""
    if found is None:
        return plain
    return f"{plain}\n{calls.call(own, results.paths, benchmark=benchmark)}"


def _advantage(found: MeasuredTail | None, results: SweepResults, benchmark: str) -> Chart:
    curves = advantages()
    frames = {
        str(i): {
            "y": [[round(v, 5) for v in curve.tolist()]],
            "say": f"gamma = {gamma:g}: groups teach most at a success rate of "
            f"{RATES[int(np.argmax(curve))]:g}.",
        }
        for i, (gamma, curve) in enumerate(zip(GAMMAS, curves, strict=True))
    }
    start = GAMMAS.index(START_GAMMA)
    centres = [(i + 0.5) / BINS for i in range(BINS)]
    plain = [round(v, 5) for v in curves[0].tolist()]
    traces = [
        charts.curve(
            RATES, frames[str(start)]["y"][0], name="mean absolute advantage", color=ORANGE
        ),
        charts.curve(
            RATES, plain, name="the same without focal weight", color=BLUE, width=1.5, dash="dash"
        ),
    ]
    if found is not None:
        traces.append(
            {
                "type": "bar",
                "x": centres,
                "y": [round(float(v), 5) for v in found.histogram],
                "name": "measured: share of the problems",
                "marker": {"color": "#cccccc"},
                "width": 0.9 / BINS,
            }
        )
    data = pl.DataFrame(
        {
            "focal_gamma": np.repeat(GAMMAS, len(RATES)),
            "success_rate": np.tile(RATES, len(GAMMAS)),
            "mean_advantage": curves.ravel(),
        }
    )
    if found is not None:
        bars = pl.DataFrame({"success_rate": centres, "share_of_problems": found.histogram})
        data = pl.concat([data, bars], how="diagonal")
    return Chart(
        name="advantage",
        title="How hard a group pushes, by the success rate of its problem",
        figure=charts.figure(
            traces, x="success rate", y="mean |advantage|; share", xaxis={"range": [0, 1]}
        ),
        data=data,
        call=_call(calls.ADVANTAGE, calls.ADVANTAGE_MEASURED, found, results, benchmark),
        note="Bars: success rates of this sweep's base models by problem, without 0 and 1.",
        sliders=(_slider("gamma", "focal gamma", GAMMAS, start),),
        frames=frames,
    )


def _slider(name: str, label: str, values: Sequence[float], start: int, form: str = "g") -> Slider:
    words = tuple(format(value, form) for value in values)
    return Slider(name=name, label=label, values=words, start=start)
