"""`python -m evaluators`: see evaluators.cli."""

import sys
from collections.abc import Sequence

from fgrpo_bench.core.commandline import entered


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command to its exit code."""
    from . import cli

    return cli.main(argv)


if __name__ == "__main__":
    with entered():
        sys.exit(main())
