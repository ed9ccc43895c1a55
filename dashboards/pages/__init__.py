"""Pages: pure functions from results and parameters to a Page.

A module for each view: what it reads of the stored files, what it shows of them, its charts and
tables. overview.py is the first page, maze.py draws mazes for Draws.
"""

from __future__ import annotations

from collections.abc import Callable

from dashboards.page import Given, Page
from dashboards.pages import audit, compare, draws, forgetting, rollouts, sweep
from fgrpo_bench.analysis.results import Results

Builder = Callable[[Results, Given], Page]

BUILDERS: dict[str, Builder] = {
    "sweep": sweep.build,
    "compare": compare.build,
    "forgetting": forgetting.build,
    "draws": draws.build,
    "rollouts": rollouts.build,
    "audit": audit.build,
}
"""By view."""
