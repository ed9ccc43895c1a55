"""What can be declared: frozen, strictly validated types, from a grid down to one point.

YAML becomes these types in `fgrpo_bench.specs.config`; the plan makes `SweepPoint`s of them;
nothing downstream sees a raw dictionary.
"""

from fgrpo_bench.specs.base import check_name as check_name
from fgrpo_bench.specs.base import from_dict as from_dict
from fgrpo_bench.specs.base import to_dict as to_dict
from fgrpo_bench.specs.cell import Cell as Cell
from fgrpo_bench.specs.cell import method_name as method_name
from fgrpo_bench.specs.dataset import DatasetSpec as DatasetSpec
from fgrpo_bench.specs.dataset import ModelShape as ModelShape
from fgrpo_bench.specs.dataset import PretrainedSpec as PretrainedSpec
from fgrpo_bench.specs.dataset import withheld as withheld
from fgrpo_bench.specs.evaluation import BenchmarkPrompt as BenchmarkPrompt
from fgrpo_bench.specs.evaluation import BenchmarkSpec as BenchmarkSpec
from fgrpo_bench.specs.evaluation import DesignSpec as DesignSpec
from fgrpo_bench.specs.evaluation import EvalSpec as EvalSpec
from fgrpo_bench.specs.evaluation import PromptSpec as PromptSpec
from fgrpo_bench.specs.evaluation import RareSpec as RareSpec
from fgrpo_bench.specs.evaluation import SolvedExample as SolvedExample
from fgrpo_bench.specs.profile import LocalProfile as LocalProfile
from fgrpo_bench.specs.profile import Placement as Placement
from fgrpo_bench.specs.profile import Profile as Profile
from fgrpo_bench.specs.profile import SlurmProfile as SlurmProfile
from fgrpo_bench.specs.sweep import Declaration as Declaration
from fgrpo_bench.specs.sweep import ExtraCell as ExtraCell
from fgrpo_bench.specs.sweep import Grid as Grid
from fgrpo_bench.specs.sweep import SweepPoint as SweepPoint
from fgrpo_bench.specs.sweep import SweepSpec as SweepSpec
from fgrpo_bench.specs.training import AlgorithmSpec as AlgorithmSpec
from fgrpo_bench.specs.training import ModelSpec as ModelSpec
from fgrpo_bench.specs.training import TaskSpec as TaskSpec
from fgrpo_bench.specs.training import TrainSpec as TrainSpec
from fgrpo_bench.specs.training import WarmupSpec as WarmupSpec
