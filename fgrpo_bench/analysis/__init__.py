"""Every number of a sweep or of other checkpoints, computed once: between stored results and views.

    from fgrpo_bench.analysis import load

    load("groupsize").comparisons

`analyse` computes the frames (their columns: rows.py), `load` reads those that are stored beside
the sweep and computes them anew where its results changed. Report, MLflow, dashboard and theory
select and render; none of them computes a statistic.

Read frames.py first; power.py says before a run what its seeds can show.
"""

from fgrpo_bench.analysis.comparisons import INCONCLUSIVE as INCONCLUSIVE
from fgrpo_bench.analysis.comparisons import SIGNIFICANT as SIGNIFICANT
from fgrpo_bench.analysis.comparisons import SUGGESTIVE as SUGGESTIVE
from fgrpo_bench.analysis.frames import Analysis as Analysis
from fgrpo_bench.analysis.frames import analyse as analyse
from fgrpo_bench.analysis.frames import cells_of as cells_of
from fgrpo_bench.analysis.stored import analysed as analysed
from fgrpo_bench.analysis.stored import load as load
from fgrpo_bench.stats.bands import GRID as GRID
from fgrpo_bench.stats.intervals import LEVEL as LEVEL
from fgrpo_bench.stats.intervals import REPLICATES as REPLICATES
