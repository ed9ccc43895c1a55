"""fgrpo-bench: what group size, focal exponent and base algorithm do to pass@k.

The top of the package is light: `import fgrpo_bench` in a notebook loads no torch, no MLflow and no
Hydra, and what it offers (__all__) needs NumPy, and SciPy for an interval, which are loaded with
the first use. `load`, the results of a run in a notebook, needs the analysis, so that
`from fgrpo_bench import *` leaves it out.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fgrpo_bench.objectives.focal import focal_weight
    from fgrpo_bench.report.notebook import load as load
    from fgrpo_bench.stats.counts import compare_counts
    from fgrpo_bench.stats.passk import pass_at_k
    from fgrpo_bench.stats.readings import distinct_at_k
    from fgrpo_bench.stats.staged import StagedDesign

__version__ = "0.1.0"
__all__ = [
    "StagedDesign",
    "__version__",
    "compare_counts",
    "distinct_at_k",
    "focal_weight",
    "pass_at_k",
]
_HOMES = {
    "StagedDesign": "fgrpo_bench.stats.staged",
    "compare_counts": "fgrpo_bench.stats.counts",
    "distinct_at_k": "fgrpo_bench.stats.readings",
    "focal_weight": "fgrpo_bench.objectives.focal",
    "load": "fgrpo_bench.report.notebook",
    "pass_at_k": "fgrpo_bench.stats.passk",
}


def __getattr__(name: str) -> Any:
    """What __all__ names, and `load`, from the module where it is at home."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def _check_environment() -> None:
    """Where Python runs a command of ours (`python -m fgrpo_bench.report`), this is imported before
    it: outside the environment one line and exit code 2 stand for the traceback of its imports."""
    arguments = sys.orig_argv
    module = arguments[arguments.index("-m") + 1] if "-m" in arguments[:-1] else ""
    if module.startswith(f"{__name__}."):
        from fgrpo_bench.__main__ import COMMANDS
        from fgrpo_bench.core.commandline import check_packages

        names = {f"{__name__}.{name}" for name in COMMANDS}
        if module in names | {place.removesuffix(".__main__") for place, _ in COMMANDS.values()}:
            check_packages()


_check_environment()
