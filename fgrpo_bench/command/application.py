"""What every command of fgrpo-bench is made of, on typer: help as it is written, refusals that name
what was meant, exit codes.

In: functions whose annotated parameters are a command's words. Out: an `app` that `python -m
<module>` runs and that `fgrpo_bench.__main__` finds by its place.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from functools import partial, wraps
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException
from typer.main import get_command

from fgrpo_bench.command.runs import ROOT_HELP, RUN_HELP, complete_run
from fgrpo_bench.core.commandline import NO_MULTIRUN, fitted
from fgrpo_bench.core.registry import did_you_mean, nearest, suggestion

Function = TypeVar("Function", bound=Callable[..., Any])
WIDTH = 100
"""The most columns of a help page."""
REPEATED_METAVAR = "TEXT"
"""Metavar of options that are given once for each value: what follows may be any other word."""
Run = Annotated[str, typer.Argument(metavar="SWEEP", help=RUN_HELP, autocompletion=complete_run)]
WHICH_RUN = """\
Which run: where a sweep was run with several experiments or versions, what you do not name is what
`fgrpo-bench sweep run <sweep>` would take; where that was never run, you get the list of runs.
"""
Root = Annotated[Path | None, typer.Option(help=ROOT_HELP)]
Select = Annotated[
    str,
    typer.Option(
        metavar="RULE",
        help="which checkpoint stands for a run: last, step=<step>, paper (the best of the base "
        "algorithm, then the best focal one of no more compute) or held-out (the same, chosen on "
        "one half of the problems, reported on the other)",
    ),
]
By = Annotated[
    str | None,
    typer.Option(
        "--by",
        metavar="COLUMN",
        help="tell pass@k by the values of a column of the problems too, e.g. level or subject",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="print the result as JSON: docs/reference/json.md")
]
Wide = Annotated[
    bool, typer.Option("--wide", help="every column and row, however wide the terminal is")
]
"""Words that several commands take; a root that is None is the usual folder of all runs."""


class Application(typer.Typer):
    """Commands with one way of saying what went wrong.

    guard: what a command's work is done in; it turns errors into a message and typer.Exit.
    examples: whole lines, of the application's help. default: the command of words that begin with
    an option, or of none. otherwise: that of words whose first one names no command.
    """

    def __init__(
        self,
        about: str,
        *examples: str,
        guard: Callable[[], AbstractContextManager[None]] = nullcontext,
        default: str | None = None,
        otherwise: str | None = None,
    ) -> None:
        super().__init__(
            cls=_group(default, otherwise),
            help=about,
            epilog=_epilog(examples),
            add_completion=False,  # it is the whole program's: fgrpo_bench.__main__
            rich_markup_mode=None,  # rich takes longer to import than `status` takes
            context_settings={"max_content_width": WIDTH},
        )
        self.guard = guard

    def add(
        self, name: str, summary: str, *examples: str, more: str = "", single: bool = False
    ) -> Callable[[Function], Function]:
        """Make a command of a function, which returns its exit code.

        summary: its line in the list. more: further help, as it is to be shown. examples: whole
        lines.
        """

        def register(function: Function) -> Function:
            @wraps(function)
            def guarded(*values: Any, **named: Any) -> int:
                with self.guard():
                    return int(function(*values, **named))

            self.command(
                name,
                cls=_Command,
                help=f"{summary[0].upper()}{summary[1:]}.",
                short_help=summary,
                epilog="\n".join(filter(None, [more, _epilog(examples)])),
                context_settings={"max_content_width": WIDTH},
            )(guarded)
            return function

        return register


def run(app: typer.Typer, argv: Sequence[str] | None, program: str) -> int:
    """Run the command that the words name to its exit code.

    argv: None is those of the process. Leaves by SystemExit, as argparse does, with 2 where the
    words make no command.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        command = get_command(app)
        return int(command.main(arguments, prog_name=program, standalone_mode=False) or 0)
    except TyperException as error:
        cast(Any, error).show()
        sys.exit(2)


def program(places: Mapping[str, str | None]) -> typer.Typer:
    """The whole program: commands by their places, of which one is imported when it is called.

    places: a module with an `app`, for one of several commands followed by `:` and its name, which
    it then has here alone; None for a command that is in a checkout alone.
    """

    class Program(_group(None)):  # type: ignore[misc]
        def list_commands(self, ctx: typer.Context) -> list[str]:
            return list(places)

        def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:
            if cmd_name in places and places[cmd_name] is None and not ctx.resilient_parsing:
                ctx.fail(
                    f"{cmd_name} is not part of the installed package: run it in a checkout of "
                    "fgrpo-bench"
                )
            place = places.get(cmd_name)
            if place is None:
                return None
            module, _, name = place.partition(":")
            command = cast(Any, get_command(import_module(module).app))
            if name:
                return command.commands[name]
            for other in filter(None, places.values()):
                if other.startswith(f"{module}:"):
                    del command.commands[other.partition(":")[2]]
            return command

        def meant(self, word: str, ctx: Any) -> str:
            """Also a command within another one, as `evaluate import`."""
            names = {name: name for name in places}
            for name, place in places.items():
                if place is not None and ":" not in place:
                    within = getattr(self.get_command(ctx, name), "commands", {})
                    names = {inner: f"{name} {inner}" for inner in within} | names
            near = nearest(word, names)
            return did_you_mean([names[near]] if near else [])

    app = typer.Typer(cls=Program, rich_markup_mode=None)
    app.callback()(lambda: None)
    return app


def check_choice(option: str, value: str, valid: Iterable[str]) -> None:
    """A usage error that lists the valid ones where an option has another value."""
    names = list(valid)
    if value not in names:
        raise typer.BadParameter(
            f"{value!r}{suggestion(value, names)}: there are {', '.join(names)}", param_hint=option
        )


def refuse(context: typer.Context, reason: str, *names: str) -> None:
    """A usage error where one of these parameters was typed, though it would change nothing."""
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = next(param.opts[0] for param in context.command.params if param.name == name)
            context.fail(f"{option} {reason}: leave it out")


@contextmanager
def refusals() -> Iterator[None]:
    """Refusals of what reads stored files: a line on standard error and exit code 1."""
    try:
        yield
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(1) from None


@contextmanager
def aside(as_json: bool) -> Iterator[None]:
    """What is said while a command works, beside its result: where that is JSON, it goes to
    standard error, so that standard output is JSON alone."""
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        yield


def print_json(result: Any) -> None:
    """Print a result, which json knows but for paths, NumPy's numbers and what is not finite: that
    has its name, as JSON has no number for it."""
    print(json.dumps(_jsonable(result), indent=1, allow_nan=False))


def _jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _jsonable(part) for key, part in value.items()}
    if hasattr(value, "tolist"):  # of NumPy
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_jsonable(part) for part in value]
    if isinstance(value, Path):
        return str(value)
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def _fitted(text: str) -> str:
    # the lines of a terminal do not matter here, and without one 100 columns are usual
    return fitted(text, shutil.get_terminal_size((WIDTH, 24)).columns)


class _PlainText:
    """Takes words as they stand, and the flag --help. typer converts even these by pydantic, whose
    import takes longer than `status` does."""

    def coerce(self, value: Any, **_: Any) -> Any:
        return value


class _Raw:
    """Help as it is written where the terminal is wide enough for it."""

    help: str | None
    epilog: str | None

    def get_help_option(self, ctx: Any) -> Any:
        option = cast(Any, super()).get_help_option(ctx)
        if option is not None:
            option._runtime_param = _PlainText()
        return option

    def format_help_text(self, _: Any, formatter: Any) -> None:
        formatter.write(f"\n{_fitted(self.help)}\n" if self.help else "")

    def format_epilog(self, _: Any, formatter: Any) -> None:
        formatter.write(f"\n{_fitted(self.epilog)}\n" if self.epilog else "")


class _Command(_Raw, TyperCommand):
    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        for parameter in self.params:
            if cast(Any, parameter).type_descriptor.annotation in (str, list[str]):
                cast(Any, parameter)._runtime_param = _PlainText()

    def make_parser(self, ctx: Any) -> Any:
        parser = cast(Any, super().make_parser(ctx))
        for option in [*parser._short_opt.values(), *parser._long_opt.values()]:
            if option.action == "store":
                option.process = partial(_set_once, ctx, option, option.process)
        return parser

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        several = {
            name
            for param in self.params
            if param.multiple and param.metavar != REPEATED_METAVAR
            for name in param.opts
        }
        try:
            return super().parse_args(ctx, list(_repeated(args, several)))
        except TyperException as error:
            if (option := getattr(error, "option_name", None)) is None or "takes" in str(error):
                raise
            near = suggestion(option, [name for param in self.params for name in param.opts])
            if re.fullmatch(r"-m|--multirun", option):
                near = f": {NO_MULTIRUN}"
            cast(typer.Context, ctx).fail(f"unknown argument {option!r}{near}")


def _set_once(ctx: Any, option: Any, process: Callable[..., None], value: Any, state: Any) -> None:
    """Give an option its value; a usage error where it has another one, which would be dropped."""
    first = state.opts.get(option.dest, value)
    if first != value:
        texts = [text if isinstance(text, str) else " ".join(text) for text in (first, value)]
        name = option.obj.opts[0]
        ctx.fail(f"{name} {texts[0]} beside {name} {texts[1]}: give one of the two")
    process(value, state)


def _repeated(arguments: Sequence[str], several: set[str]) -> Iterator[str]:
    """`--k 1 8` as typer takes it, `--k 1 --k 8`. several: options that take several values."""
    option, is_first = None, False
    for word in arguments:
        if word.startswith("-"):
            option, is_first = word if word in several else None, True
        elif option is not None and not is_first:
            yield option
            yield word
            continue
        else:
            is_first = False
        yield word


def _group(default_command: str | None, otherwise: str | None = None) -> type[TyperGroup]:
    class Group(_Raw, TyperGroup):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            first = set(args[:1])
            named = first & {"--help", *self.list_commands(ctx)}
            if default_command and not named and all(word.startswith("-") for word in first):
                args = [default_command, *args]
            elif otherwise and not named and any(map(_is_no_command, first)):
                args = [otherwise, *args]
            return super().parse_args(ctx, args)

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            names = self.list_commands(ctx)
            if args[0] not in names and not ctx.resilient_parsing:
                what = "command or folder" if otherwise else "command"
                near = self.meant(args[0], ctx)
                ctx.fail(f"unknown {what} {args[0]!r}{near}: there are {', '.join(names)}")
            return super().resolve_command(ctx, args)

        def meant(self, word: str, ctx: Any) -> str:
            """What a refusal of a word adds: the command that is spelt like it, or the one of the
            whole program that it is."""
            program, names = ctx.find_root(), {name: name for name in self.list_commands(ctx)}
            if program is not ctx:
                commands = program.command.list_commands(program)
                names = {name: f"{program.info_name} {name}" for name in commands} | names
            near = nearest(word, names)
            return did_you_mean([names[near]] if near else [])

        def format_options(self, ctx: Any, formatter: Any) -> None:
            if otherwise:  # what most people come for
                command = cast(Any, self).get_command(ctx, otherwise)
                records = [param.get_help_record(ctx) for param in command.params]
                with formatter.section(f"Options of `{otherwise}`, a word that may be left out"):
                    formatter.write_dl([record for record in records if record is not None])
            super().format_options(ctx, formatter)

    return Group


def _is_no_command(word: str) -> bool:
    """Whether a word can be a folder, an id of the Hub, an override or an option."""
    return word.startswith("-") or "/" in word or "=" in word or is_there(word)


def is_there(word: str) -> bool:
    """Whether a word is a path that is there; Python raises for one that is too long to be any."""
    try:
        return Path(word).exists()
    except (OSError, ValueError):
        return False


def _epilog(examples: Sequence[str]) -> str:
    return "\n".join(["examples:", *(f"  {example}" for example in examples)]) if examples else ""
