"""What both engines say of a step whose numbers are not finite: the run diverged and is no result.

Pure; imports neither torch nor OpenRLHF.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

NAMED = 3
"""Most groups that an error names."""


def diverged(step: int, quantity: str, *, saved: str) -> FloatingPointError:
    """The error that ends such a run.

    quantity: what is not finite, and of which groups where that is known; saved: what there is to
    go on from.
    """
    return FloatingPointError(
        f"step {step}: {quantity} is not finite. The run diverged and gives no result; {saved}. "
        "Lower the learning rate, in training experiment.train.learning_rate, in a warm-up "
        "experiment.train.warmup.learning_rate"
    )


def named_groups(names: Iterable[str]) -> str:
    """Groups by their problems, e.g. `the groups of 3256-24, 3257-9, 3258-1 and 14 more`."""
    distinct = list(dict.fromkeys(names))
    more = f" and {len(distinct) - NAMED} more" if len(distinct) > NAMED else ""
    return f"the group{'s' if len(distinct) > 1 else ''} of {', '.join(distinct[:NAMED])}{more}"


def not_finite(numbers: Mapping[str, float | None]) -> str | None:
    """The first number, by its name, that is none; None where all are, and for what is None.

    A gradient norm below 0 is what DeepSpeed says in place of one that is nan or infinite.
    """
    for name, value in numbers.items():
        if value is not None and (not math.isfinite(value) or ("norm" in name and value < 0)):
            return f"{name} ({value:g})"
    return None
