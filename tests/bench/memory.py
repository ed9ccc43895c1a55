"""Peak memory of the workers of the shipped experiment, as their own process reports it."""

import json
import resource
import subprocess
import sys
from dataclasses import replace

from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.kinds import Planned, evaluate, train, warmup
from fgrpo_bench.specs import config
from tests.bench.model import warmed_up


def peak_mb(arguments: list[str]) -> float:
    """Largest resident set of any child so far, in MB; the order of calls matters."""
    subprocess.run([sys.executable, "-m", *arguments], check=True, stdout=subprocess.DEVNULL)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def main() -> None:
    paths, point = warmed_up()
    point = replace(point, train=replace(point.train, steps=40))
    declared = config.load("groupsize", ["sweep.grid.group_size=[8]", "sweep.grid.seed=[1]"])
    planned = Planned(declaration=declared, points=(point,))
    for kind in (warmup, train, evaluate):
        planned.stages.update((stage.name, stage) for stage in kind.stages(planned))
    trained = planned.training(point)
    (judged,) = (stage for stage in planned.stages.values() if stage.source == trained.name)
    for stage in (trained, judged):
        write_json(StagePaths(paths.folder / stage.name).spec, stage.spec.as_json())
    training = peak_mb(["fgrpo_bench.engines.embedded", str(paths.folder / trained.name)])
    both = peak_mb(["evaluators", "run", str(paths.folder / judged.name)])
    print(json.dumps({"training worker MB": training, "larger of both workers MB": both}))


if __name__ == "__main__":
    main()
