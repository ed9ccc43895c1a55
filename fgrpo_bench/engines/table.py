"""The one table of engines. To add one: a package with an ENGINE, and a line here."""

from __future__ import annotations

from fgrpo_bench.engines.embedded.engine import ENGINE as EMBEDDED
from fgrpo_bench.engines.engine import Engine
from fgrpo_bench.engines.openrlhf.engine import ENGINE as OPENRLHF

ENGINES: dict[str, Engine] = {"embedded": EMBEDDED, "openrlhf": OPENRLHF}
