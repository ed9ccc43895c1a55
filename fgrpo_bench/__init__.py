"""fgrpo-bench: what group size, focal exponent and base algorithm do to pass@k.

The top of the package is light (NumPy only): `import fgrpo_bench` in a notebook loads no torch,
no MLflow and no Hydra.
"""

from fgrpo_bench.objectives.focal import focal_weight
from fgrpo_bench.stats.passk import pass_at_k
from fgrpo_bench.stats.staged import StagedDesign

__version__ = "0.1.0"
__all__ = ["StagedDesign", "__version__", "focal_weight", "pass_at_k"]
