"""`python -m sweeps`: see sweeps.cli."""

import sys
from collections.abc import Sequence

from fgrpo_bench.core.commandline import entered


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command to its exit code."""
    from sweeps import cli

    return cli.main(argv)


if __name__ == "__main__":
    with entered():
        sys.exit(main())
