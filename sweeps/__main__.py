"""`python -m sweeps`: see sweeps.cli."""

import sys

from fgrpo_bench.commandline import entered

if __name__ == "__main__":
    with entered():
        from sweeps.cli import main

        sys.exit(main())
