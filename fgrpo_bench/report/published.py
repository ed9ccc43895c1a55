"""The paper's published figures by their short name: `python -m fgrpo_bench.report.published`."""

from fgrpo_bench.paper.published.__main__ import main

if __name__ == "__main__":
    raise SystemExit(main())
