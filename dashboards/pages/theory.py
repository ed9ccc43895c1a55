"""Theory: how often a group misses the tail, with sliders; the sweep's own rates laid over it; and
what each advantage weighs."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from dashboards import calls, charts
from dashboards.form import Form, Given, choices
from dashboards.page import Chart, Links, Page, Slider
from dashboards.pages import theory_measured, theory_weights
from dashboards.queries.tail import (
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

BLUE, ORANGE = "#2171b5", "#e6891e"
SLIDERS = {
    "success-rate": ([f"{value:g}" for value in SUCCESS_RATES], "0.3"),
    "tail-share": ([f"{value:.0%}" for value in TAIL_SHARES], "10%"),
    "gamma": ([f"{value:g}" for value in GAMMAS], "0.5"),
}
"""Positions in words, as addresses have them too, and the first one."""


def build(results: SweepResults, given: Given, links: Links) -> Page:
    """The page; parameters: benchmark, n, over, a position of each of SLIDERS, and any number of
    method."""
    form = Form(results.paths, "theory", given, links)
    benchmark = form.value("benchmark", results.benchmarks)
    group_size = int(form.value("n", SIZES, "8"))
    over = form.value("over", METHODS, OVER)
    methods = form.values("method", METHODS) or METHODS
    at = {
        name: values.index(form.value(name, values, default))
        for name, (values, default) in SLIDERS.items()
    }
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
            _tail(tail, results, benchmark, (at["success-rate"], at["tail-share"])),
            *theory_measured.lost(tail, results, benchmark),
            _advantage(at["gamma"]),
            *theory_measured.rates(tail, results, benchmark),
            *theory_weights.build(methods, group_size, over),
        ),
        context={
            "measured": tail is not None,
            "benchmark": benchmark,
            "methods": [(text, label, text in methods) for text, label in labels.items()],
            "kept": [pair for pair in form.address().parameters if pair[0] != "method"],
        },
    )


def _tail(
    tail: MeasuredTail | None, results: SweepResults, benchmark: str, start: tuple[int, int]
) -> Chart:
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
            if tail is not None:
                y.append(tail.curves[j].tolist())
                say += f" Averaged over this sweep's own success rates: N = {tail.peaks[j]}."
            frames[f"{i},{j}"] = {"y": [[round(v, 5) for v in curve] for curve in y], "say": say}
    first = frames[f"{start[0]},{start[1]}"]
    names = ["at this success rate", "averaged over the sweep's success rates"]
    traces = [
        charts.curve(sizes, y, name=name, color=color)
        for y, name, color in zip(first["y"], names, (BLUE, ORANGE), strict=False)
    ]
    return Chart(
        name="tail",
        title="Probability that an active group misses the tail",
        figure=charts.figure(
            traces,
            x="group size N",
            y="probability",
            xaxis=theory_measured.SIZES,
            yaxis={"rangemode": "tozero"},
        ),
        data=_tail_data(tail),
        call=_call(tail, results, benchmark),
        sliders=(
            _slider("success-rate", "success rate", start[0]),
            _slider("tail-share", "tail, share of right answers", start[1]),
        ),
        frames=frames,
    )


def _tail_data(tail: MeasuredTail | None) -> pl.DataFrame:
    """Every curve; without a success rate the average over the sweep's own."""
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
    if tail is not None:
        averaged = {
            "tail_share": np.repeat(TAIL_SHARES, len(sizes)),
            "group_size": np.tile(sizes, len(TAIL_SHARES)),
            "tail_miss_probability": tail.curves.ravel(),
        }
        frames.append(pl.DataFrame(averaged))
    return pl.concat(frames, how="diagonal")


def _advantage(start: int) -> Chart:
    curves = advantages()
    frames = {
        str(i): {
            "y": [[round(v, 5) for v in curve.tolist()]],
            "say": f"gamma = {gamma:g}: groups teach most at a success rate of "
            f"{RATES[int(np.argmax(curve))]:g}.",
        }
        for i, (gamma, curve) in enumerate(zip(GAMMAS, curves, strict=True))
    }
    plain = [round(v, 5) for v in curves[0].tolist()]
    traces = [
        charts.curve(
            RATES, frames[str(start)]["y"][0], name="mean absolute advantage", color=ORANGE
        ),
        charts.curve(
            RATES, plain, name="the same without focal weight", color=BLUE, width=1.5, dash="dash"
        ),
    ]
    data = pl.DataFrame(
        {
            "focal_gamma": np.repeat(GAMMAS, len(RATES)),
            "success_rate": np.tile(RATES, len(GAMMAS)),
            "mean_advantage": curves.ravel(),
        }
    )
    return Chart(
        name="advantage",
        title="How hard a group pushes, by success rate",
        figure=charts.figure(
            traces, x="success rate", y="mean |advantage|", xaxis={"range": [0, 1]}
        ),
        data=data,
        call=calls.ADVANTAGE,
        sliders=(_slider("gamma", "focal gamma", start),),
        frames=frames,
    )


def _call(tail: MeasuredTail | None, results: SweepResults, benchmark: str) -> str:
    """The theory, and what the sweep measured where it did."""
    if tail is None:
        return calls.TAIL
    return f"{calls.TAIL}\n{calls.call(calls.TAIL_MEASURED, results.paths, benchmark=benchmark)}"


def _slider(name: str, label: str, start: int) -> Slider:
    values, default = SLIDERS[name]
    return Slider(name=name, label=label, values=tuple(values), start=start, default=default)
