"""File names that more than one package knows, each a property of one class, and finding runs by
their files."""

from fgrpo_bench.stages.paths.run import RESERVED as RESERVED
from fgrpo_bench.stages.paths.run import RunPaths as RunPaths
from fgrpo_bench.stages.paths.run import default_root as default_root
from fgrpo_bench.stages.paths.run import find_runs as find_runs
from fgrpo_bench.stages.paths.run import shared_data as shared_data
from fgrpo_bench.stages.paths.stage import BenchmarkPaths as BenchmarkPaths
from fgrpo_bench.stages.paths.stage import DataPaths as DataPaths
from fgrpo_bench.stages.paths.stage import StagePaths as StagePaths
