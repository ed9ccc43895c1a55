"""Pages: pure functions from a sweep's results and parameters to a Page.

A module for each view, and for each of its larger parts one with the view's name in front, hence so
many.
"""

from __future__ import annotations

from collections.abc import Callable

from dashboards.form import Given
from dashboards.page import Links, Page
from dashboards.pages import audit, compare, draws, forgetting, sweep
from fgrpo_bench.results import SweepResults

Builder = Callable[[SweepResults, Given, Links], Page]

BUILDERS: dict[str, Builder] = {
    "sweep": sweep.build,
    "compare": compare.build,
    "forgetting": forgetting.build,
    "draws": draws.build,
    "audit": audit.build,
}
"""By view."""
