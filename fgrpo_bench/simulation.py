"""The paper's simulation by its short name: `python -m fgrpo_bench.simulation`."""

from fgrpo_bench.paper.simulation.__main__ import main

if __name__ == "__main__":
    raise SystemExit(main())
