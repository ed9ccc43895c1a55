"""Staged designs for tests: any small one, and every end of one."""

import numpy as np
from hypothesis import strategies as st

from fgrpo_bench import StagedDesign
from fgrpo_bench.stats.paths import DrawPath


def paths(design):
    """Every end of a design: draws, correct ones, and the path to it."""
    for n, c in np.stack(design.ends(), axis=1).tolist():
        before = max((stage for stage in design.stages if stage < n), default=0)
        yield n, c, DrawPath(before, n - before, design.enough)


@st.composite
def designs(draw: st.DrawFn, most: int = 9) -> StagedDesign:
    stages = draw(st.sets(st.integers(1, most), min_size=1, max_size=4))
    return StagedDesign(stages=sorted(stages), enough=draw(st.integers(1, 4)))
