"""The command of the evaluators: `python -m evaluators <command> ...`."""

from __future__ import annotations

import sys

from fgrpo_bench.commandline import Parser, entered
from fgrpo_bench.doors import meant

EXAMPLES = """examples:
  python -m evaluators run checkpoint=Qwen/Qwen2.5-7B benchmarks=[math500,aime24] n_samples=64
  python -m evaluators run runs/groupsize/countdown/v1/grpo-n8-g0-s11/eval/pass256-*/step-00300
  python -m evaluators grade qwen2.5-7b-1f0a52c3
  python -m evaluators audit qwen2.5-7b-1f0a52c3 --json
  python -m evaluators import samples_math500.jsonl --benchmark math500 --name theirs
  python -m evaluators export-lm-eval math500 aime24 --to tasks

exit code 0: done (or was done before); 75: stopped at a save, run it again; other: failed"""


def main(argv: list[str] | None = None) -> int:
    """Run a command to its exit code."""
    from evaluators import commands

    parser = Parser(
        prog="python -m evaluators",
        description="A checkpoint in; draws, grades and pass@k out.",
        epilog=EXAMPLES,
    )
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="command")
    commands.add(subparsers)
    options, others = parser.parse_known_args(argv)
    for other in others:  # argparse gives up on words that stand after an option
        if other.startswith("-") or "=" not in other or getattr(options, "words", None) is None:
            near = meant(other, parser.options())
            parser.error(
                f"unknown argument {other!r}{near}: see `python -m evaluators {options.command} "
                "--help`"
            )
        vars(options)[options.words].append(other)
    try:
        code: int = options.run(parser, options)
        return code
    except (ValueError, OSError) as error:
        print(f"python -m evaluators {options.command}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    with entered():
        sys.exit(main())
