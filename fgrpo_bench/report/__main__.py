"""Command line: rebuild the report of a sweep, or of evaluations, from stored files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from fgrpo_bench.analysis import analysed
from fgrpo_bench.analysis.checkpoints import LAST
from fgrpo_bench.analysis.results import find_results
from fgrpo_bench.command import application
from fgrpo_bench.command.application import (
    WHICH_RUN,
    Application,
    By,
    Json,
    Root,
    Select,
    print_json,
    refusals,
    refuse,
)
from fgrpo_bench.command.runs import RUN_HELP, complete_run, default_root
from fgrpo_bench.core.registry import suggestion
from fgrpo_bench.documents.terminal import escaped
from fgrpo_bench.files.whole import write_text
from fgrpo_bench.report import build
from fgrpo_bench.report.build import FILES, write_report

app = Application("Answer, tables and figures of a sweep, from stored files.", guard=refusals)
FOR_OTHERS = {
    "export": "fgrpo_bench.report.exports.command",
    "bundle": "fgrpo_bench.report.exports.bundle",
    "leaderboard": "fgrpo_bench.report.leaderboard",
}
"""Modules with a `main` of their own, by the first word."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 with a line on standard error."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given and given[0] in FOR_OTHERS:
        return int(import_module(FOR_OTHERS[given[0]]).main(given[1:]))
    return application.run(app, given, "python -m fgrpo_bench.report")


@app.add(
    "report",
    "rebuild table, words and figures of a sweep, or of evaluations that are compared, into its "
    "report folder, from the stored files",
    "fgrpo-bench report groupsize",
    "fgrpo-bench report groupsize/countdown-prompts/v2",
    "fgrpo-bench report groupsize --format md,html",
    "fgrpo-bench report groupsize --format csv > groupsize.csv",
    "fgrpo-bench report groupsize --html groupsize.html   one page to send",
    "fgrpo-bench report groupsize/qwen2.5-7b --compare-paper",
    "fgrpo-bench report transfer --select paper",
    "fgrpo-bench report transfer --by subject",
    "fgrpo-bench report evals/base-1b+step-300",
    "fgrpo-bench report --verify runs/groupsize/countdown/v1/report",
    "fgrpo-bench report --verify runs/groupsize/countdown/v1/report/report.tex --regrade",
    more=f"{WHICH_RUN}Evaluations: evals/<name>+<name>, against the first. A sweep in progress "
    "gives a report on what is done.\n\n"
    "For others: `fgrpo-bench export` and `fgrpo-bench bundle` (each has a --help).\n",
)
def report(
    context: typer.Context,
    sweep: Annotated[
        str | None,
        typer.Argument(metavar="SWEEP", help=RUN_HELP, autocompletion=complete_run),
    ] = None,
    root: Root = None,
    formats: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="LIST",
            help="of md, latex, csv, html with commas between: what is written; one alone is "
            "printed to standard output, and nothing is written",
        ),
    ] = ",".join(FILES),
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="write one page with all figures and tables, and nothing else: it can be sent",
        ),
    ] = None,
    compare_paper: Annotated[
        bool,
        typer.Option(
            "--compare-paper",
            help="set the published figures beside ours (see fgrpo_bench.report.published)",
        ),
    ] = False,
    select: Select = LAST,
    by: By = None,
    verify: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="build a report anew and compare: its folder, or one file of it",
        ),
    ] = None,
    regrade: Annotated[
        bool, typer.Option("--regrade", help="with --verify: judge the stored responses again")
    ] = False,
    as_json: Json = False,
) -> int:
    if (sweep is None) == (verify is None):
        context.fail("name a sweep, or a report's folder or file with --verify")
    chosen, root = _formats(context, formats), root or default_root()
    if verify is not None:
        refused = ("formats", "html", "compare_paper", "select", "by")
        refuse(context, "is not asked with --verify", *refused)
        return _verify(verify, root=root, regrade=regrade, as_json=as_json)
    refuse(context, "is of --verify", "regrade")
    if as_json:
        refuse(context, "is not asked with --json, which writes nothing", "formats", "html")
    if html is not None:
        refuse(context, "is not asked with --html, which writes that page alone", "formats")
    results = find_results(root, str(sweep))
    if as_json:
        print_json(build.as_json(analysed(results, select, by=by), compare_paper=compare_paper))
        return 0
    if html is not None:
        write_text(html, build.page(analysed(results, select, by=by), compare_paper=compare_paper))
        print(html)
        return 0
    if len(chosen) == 1:
        if chosen == ("md",) and find_spec("matplotlib") is None:
            print("no figures are linked, as matplotlib is not installed", file=sys.stderr)
        analysis = analysed(results, select, by=by)
        sys.stdout.write(build.render(analysis, *chosen, compare_paper=compare_paper))
        return 0
    written = write_report(results, select, formats=chosen, compare_paper=compare_paper, by=by)
    print(written.text)
    for file in written.files:
        print(file)
    return 0


def _formats(context: typer.Context, text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.split(",")))
    unknown = [name for name in names if name not in FILES]
    if unknown:
        context.fail(
            f"--format: {unknown[0]!r} is no format{suggestion(unknown[0], FILES)}: take some of "
            f"{', '.join(FILES)}, with commas between"
        )
    return names


def _verify(path: Path, *, root: Path, regrade: bool, as_json: bool) -> int:
    from fgrpo_bench.report.verify import verify

    verified = verify(path, root=root, regrade=regrade)
    if as_json:
        differences = list(verified.differences)
        print_json({"differences": differences, "not_looked_at": list(verified.unseen)})
        return 1 if differences else 0
    for line in verified.differences:
        print(escaped(line))
    for line in verified.unseen:
        print(escaped(f"not looked at: {line}"))
    built = "judged again and built anew" if regrade else "built anew"
    print(
        f"{path}: {len(verified.differences)} differences"
        if verified.differences
        else f"{path}: {built}, nothing differs"
    )
    return 1 if verified.differences else 0


if __name__ == "__main__":
    sys.exit(main())
