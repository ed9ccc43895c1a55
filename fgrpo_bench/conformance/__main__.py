"""`fgrpo-bench conform`: does an estimator give the advantages of its paper?

In: the name of an installed trainer, or a function. Out: a table, JSON, JUnit's XML; exit code 0
where everything that was compared is equal. Next: check.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from importlib import import_module
from inspect import signature
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any

import typer

from fgrpo_bench.command import application
from fgrpo_bench.command.application import (
    Application,
    Json,
    check_choice,
    print_json,
    refusals,
    refuse,
)
from fgrpo_bench.conformance.check import (
    DIFFERS,
    EQUAL_REWARDS,
    NOT_COMPARABLE,
    WHOLE_GROUPS,
    Estimator,
    Verdict,
    Worst,
    check_estimator,
    check_groups,
    example_rewards,
    is_conform,
)
from fgrpo_bench.conformance.trainers import TRAINERS, load_trainer
from fgrpo_bench.conformance.vectors import Floats, read_vectors, written
from fgrpo_bench.documents.markdown import escape_markdown
from fgrpo_bench.documents.table import Table
from fgrpo_bench.documents.terminal import plain, plain_table
from fgrpo_bench.paper.theory.weights import Method

MORE = """\
A function takes rewards [groups, N] and gives advantages of that shape; where it has keyword
arguments of the advantage's names, it is called with every setting of the vectors. With --split it
is also asked whether groups stay whole: a function of rewards [rollouts] and of the group of each
rollout that gives parts, each the numbers of rollouts in the order in which they are cut into
groups. A constant factor or an epsilon beside a deviation counts as equal, and is named.
"""
PAGE_WIDTH = 100
"""Characters of a line of the pages."""
app = Application(str(__doc__), guard=refusals)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 where something differs or cannot be compared at all."""
    return application.run(app, arguments, "fgrpo-bench conform")


@app.add(
    "conform",
    "does an estimator of advantages give what its paper says?",
    "fgrpo-bench conform verl",
    "fgrpo-bench conform --function mypkg:advantages --advantage grpo",
    "fgrpo-bench conform --function mypkg:pkpo --advantage pkpo:k=2,baseline=none --array torch",
    more=MORE,
)
def conform(
    context: typer.Context,
    trainer: Annotated[
        str, typer.Argument(metavar="[TRAINER]", help=f"an installed one: {', '.join(TRAINERS)}")
    ] = "",
    function: Annotated[
        str, typer.Option(metavar="MODULE:NAME", help="of your own, in place of a trainer")
    ] = "",
    advantage: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="that the function is to be: advantage[:parameter=value,...]"
        ),
    ] = "",
    array: Annotated[str, typer.Option(help="what the function takes: numpy or torch")] = "numpy",
    binary: Annotated[
        bool, typer.Option("--binary", help="leave out groups of rewards other than 0 and 1")
    ] = False,
    split: Annotated[
        str, typer.Option(metavar="MODULE:NAME", help="the function's filter and splits")
    ] = "",
    as_json: Json = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="a table a page can have, with where it differs")
    ] = False,
    junit: Annotated[str, typer.Option(metavar="FILE", help="JUnit's XML there too")] = "",
) -> int:
    if bool(trainer) == bool(function):
        context.fail(f"name a trainer ({', '.join(TRAINERS)}) or --function, one of the two")
    if trainer:
        check_choice("TRAINER", trainer, TRAINERS)
        refuse(context, "is of --function", "advantage", "array", "binary", "split")
        title, verdicts = _check_trainer(trainer)
    else:
        check_choice("--array", array, ("numpy", "torch"))
        if not advantage:
            context.fail("--function needs --advantage, what it is compared with")
        title = function
        verdicts = _check_function(function, advantage, array, binary, split)
    result = {
        "of": title,
        "conform": is_conform(verdicts),
        "verdicts": [asdict(verdict) for verdict in verdicts],
    }
    if junit:
        _write_junit(Path(junit), title, verdicts)
    if as_json and as_markdown:
        context.fail("--json and --markdown: choose one of the two")
    if as_json:
        print_json(result)
    elif as_markdown:
        print("\n".join(_markdown(title, verdicts)))
    else:
        print("\n".join(_lines(title, verdicts)))
    return 0 if is_conform(verdicts) else 1


def _check_trainer(name: str) -> tuple[str, list[Verdict]]:
    trainer = load_trainer(name)
    verdicts = []
    for estimator in trainer.estimators:
        try:
            verdicts += check_estimator(estimator)
        except ValueError as error:  # what one of them raises hides none of the others
            verdicts.append(Verdict(estimator.name, estimator.advantage, "", DIFFERS, str(error)))
    rewards = example_rewards()
    parts = trainer.parts(rewards)
    n_groups, size = rewards.shape
    verdicts.append(check_groups(name, parts, n_groups=n_groups, group_size=size))
    return trainer.title, verdicts


def _check_function(
    place: str, advantage: str, array: str, binary: bool, split: str
) -> list[Verdict]:
    method = Method.parse(advantage)
    if method.focal_gamma:
        raise ValueError(f"{advantage}: the vectors are without a focal weight, leave out @")
    vectors, function = read_vectors(method.advantage), _imported("--function", place)
    names = {name for parameters in vectors.settings() for name in parameters}
    passes = bool(names) and names <= {*signature(function).parameters}
    if method.parameters:
        settings = [dict(vectors.cases_with(method.parameters)[0].parameters)]
    elif names and not passes:
        choices = "; ".join(f"{method.advantage}:{written(s)}" for s in vectors.settings())
        raise ValueError(
            f"{place} has no keywords {', '.join(sorted(names))}: say what it was made for, one of "
            f"{choices}"
        )
    else:
        settings = [dict(parameters) for parameters in vectors.settings()]
    estimator = Estimator(
        place,
        method.advantage,
        partial(_with_torch, function) if array == "torch" else function,
        tuple(settings),
        passes=passes,
        binary=binary,
    )
    verdicts = check_estimator(estimator)
    if split:
        verdicts.append(_check_split(split))
    return verdicts


def _with_torch(function: Callable[..., Any], rewards: Floats, **parameters: Any) -> Any:
    import torch

    return function(torch.from_numpy(rewards), **parameters)


def _check_split(place: str) -> Verdict:
    import numpy as np

    rewards = example_rewards()
    n_groups, size = rewards.shape
    groups = np.repeat(np.arange(n_groups), size)
    parts = []
    for part in map(list, _imported("--split", place)(rewards.ravel(), groups)):
        parts += [part[start : start + size] for start in range(0, len(part), size)]
    return check_groups(place, parts, n_groups=n_groups, group_size=size)


def _imported(option: str, place: str) -> Callable[..., Any]:
    """ValueError for what is no function, or is not there."""
    module, _, name = place.partition(":")
    if not (module and name):
        raise ValueError(f"{option} {place!r}: write module:function")
    if "" not in sys.path:
        sys.path.insert(0, "")  # modules of the folder that the command runs in
    try:
        function = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"{option} {place}: {error}: run the command where the module can be imported"
        ) from error
    if not callable(function):
        raise ValueError(f"{option} {place}: is a {type(function).__name__}, name a function")
    imported: Callable[..., Any] = function
    return imported


def _lines(title: str, verdicts: Sequence[Verdict]) -> list[str]:
    rows = tuple(
        (verdict.name, _with_setting(verdict), verdict.kind, plain(verdict.detail))
        for verdict in verdicts
    )
    table = Table(
        title=f"Advantages of {title} against the papers'",
        header=("estimator", "advantage", "verdict", "how"),
        rows=rows,
        n_labels=4,
        notes=("A constant factor, or an epsilon beside a deviation, counts as equal.",),
    )
    lines = plain_table(table)
    for verdict in verdicts:
        if verdict.kind == DIFFERS and (verdict.worst or verdict.curve):
            lines += ["", f"{verdict.name} {_with_setting(verdict)} differs".replace("  ", " ")]
            lines += _where(verdict.worst) if verdict.worst else []
            lines += _curves(verdict)
    return lines


def _with_setting(verdict: Verdict) -> str:
    return f"{verdict.advantage}:{verdict.setting}" if verdict.setting else verdict.advantage


def _markdown(title: str, verdicts: Sequence[Verdict]) -> list[str]:
    """A table with a row for estimators that give the same, and a line for each that differs."""
    rows: dict[tuple[str, ...], list[str]] = {}
    why: dict[str, list[str]] = {}
    differing, alike = [], {v.name: v for v in verdicts if v.name.endswith(EQUAL_REWARDS)}
    for verdict in verdicts:
        if verdict.kind == NOT_COMPARABLE:
            why.setdefault(verdict.detail, []).append(_code(verdict.name))
        elif not verdict.name.endswith((EQUAL_REWARDS, WHOLE_GROUPS)):
            zero = alike.get(f"{verdict.name}{EQUAL_REWARDS}")
            how = verdict.kind if not verdict.detail else f"{verdict.kind}: {verdict.detail}"
            against = _code(verdict.advantage if verdict.is_equal else _with_setting(verdict))
            if verdict.is_equal and verdict.name.endswith(f"_{verdict.advantage}"):
                against = "what it is named after"
            cells = against, escape_markdown(how), escape_markdown(zero.detail if zero else "-")
            names = rows.setdefault(cells, [])
            names += [name for name in [_code(verdict.name)] if name not in names]
        if verdict.kind == DIFFERS and verdict.worst:
            differing.append(_wrapped(f"- {_example(verdict, verdict.worst)}"))
    lines = [
        f"| {escape_markdown(title)} | against | verdict | equal rewards |",
        "| :-- | :-- | :-- | :-- |",
    ]
    lines += [f"| {', '.join(names)} | {' | '.join(cells)} |" for cells, names in rows.items()]
    lines += ["", *differing] if differing else []
    if why:
        reasons = [f"{', '.join(names)} ({escape_markdown(text)})" for text, names in why.items()]
        lines += ["", _wrapped(f"Not comparable: {'; '.join(reasons)}.")]
    whole = [v for v in verdicts if v.name.endswith(WHOLE_GROUPS)]
    notes = [f"Groups stay whole: {v.kind}, {escape_markdown(v.detail)}." for v in whole]
    return [*lines, *(f"\n{_wrapped(sentence)}" for sentence in notes)]


def _wrapped(text: str) -> str:
    """In the width of a page; an item's further lines are indented."""
    return fill(
        text,
        PAGE_WIDTH,
        subsequent_indent="  " if text.startswith("- ") else "",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _code(text: str) -> str:
    return f"`{plain(text).replace('`', '')}`"


def _example(verdict: Verdict, worst: Worst) -> str:
    rewards, given, expected = map(_in_runs, (worst.rewards, worst.given, worst.expected))
    name = _code(" ".join(filter(None, [verdict.name, verdict.setting])))
    text = f"{name}: rewards {rewards} get {given}, the paper's are {expected}"
    return f"{text} ({_code(verdict.where)})" if verdict.where else text


def _in_runs(values: Sequence[float]) -> str:
    """e.g. `[1, 0 x 7]`."""
    runs = [(text, len([*run])) for text, run in groupby(f"{value:.4g}" for value in values)]
    return f"`[{', '.join(text if n == 1 else f'{text} x {n}' for text, n in runs)}]`"


def _where(worst: Worst) -> list[str]:
    return [
        f"  {name.ljust(8)} {' '.join(f'{value:.4g}' for value in values)}"
        for name, values in (
            ("rewards", worst.rewards),
            ("paper", worst.expected),
            ("it gives", worst.given),
        )
    ]


def _curves(verdict: Verdict) -> list[str]:
    if not verdict.curve:
        return []
    table = Table(
        title=f"  Expected weight at N = {verdict.curve_size}",
        header=("", *(f"p={rate:g}" for rate in verdict.curve)),
        rows=tuple(
            (name, *(f"{pair[i]:.3g}" for pair in verdict.curve.values()))
            for i, name in enumerate(("paper", "it"))
        ),
    )
    return plain_table(table)


def _write_junit(path: Path, title: str, verdicts: Sequence[Verdict]) -> None:
    from xml.etree import ElementTree

    failed = sum(verdict.kind == DIFFERS for verdict in verdicts)
    skipped = sum(verdict.kind == NOT_COMPARABLE for verdict in verdicts)
    counts = {"tests": len(verdicts), "failures": failed, "skipped": skipped}
    suite = ElementTree.Element(
        "testsuite", {"name": plain(title), **{name: str(n) for name, n in counts.items()}}
    )
    for verdict in verdicts:
        name = " ".join(filter(None, [verdict.name, _with_setting(verdict)]))
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": plain(title), "name": plain(name)}
        )
        if verdict.kind in (DIFFERS, NOT_COMPARABLE):
            tag = "failure" if verdict.kind == DIFFERS else "skipped"
            message = plain(f"{verdict.kind}: {verdict.detail}")
            ElementTree.SubElement(case, tag, {"message": message})
        else:
            out = ElementTree.SubElement(case, "system-out")
            out.text = plain(f"{verdict.kind} {verdict.detail}".strip())
    ElementTree.ElementTree(suite).write(path, "utf-8", xml_declaration=True)


if __name__ == "__main__":
    sys.exit(main())
