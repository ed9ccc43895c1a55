"""Controller cost on a private SLURM cluster: plan, submit, tick and status, in a process that runs
already, and the whole `run` command beside Hydra's with hydra-submitit-launcher.

A sweep of n points is about 2 n jobs (training and evaluation apart, with what each waits for) in
several arrays; the launcher sends n jobs in one array, unfrozen and unconnected, and then blocks
until the last has ended: only the time until they are queued is measured. Nothing runs, because
one job has every node.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from fgrpo_bench.specs import config
from sweeps.freeze import run_paths
from sweeps.plan import make_plan
from sweeps.slurm import drive, scheduler, tick
from tests.slurm.cluster import Cluster
from tests.slurm.config import NODES

GRIDS = {36: (3, 4, 3), 500: (5, 20, 5), 1000: (5, 20, 10)}
"""Points: group sizes, gammas, seeds."""
REPEATS = 5
"""Of our part; Hydra's takes minutes and is measured once."""
PAUSE_SECONDS = 2.0
"""After jobs were cancelled, for the controller to finish with them."""

Seconds = dict[str, list[float]]
calls: Counter[str] = Counter()


def overrides(n_points: int, root: Path) -> list[str]:
    sizes, gammas, seeds = GRIDS[n_points]
    return [
        *("profile=slurm", "profile.partition=gpu", "profile.mem_gb=1", "profile.time_minutes=5"),
        f"run_root='{root}'",
        f"sweep.grid.group_size={[2**power for power in range(1, sizes + 1)]}",
        f"sweep.grid.focal_gamma={[step / 10 for step in range(gammas)]}",
        f"sweep.grid.seed={list(range(1, seeds + 1))}",
    ]


def call(command: list[str]) -> str:
    calls[command[0]] += 1
    return scheduler.call(command)


def cpu_seconds() -> float:
    """Of this process and the ended programs that it called."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def ours(n_points: int, root: Path, seconds: Seconds) -> dict[str, int]:
    """Submit a sweep; adds to `seconds` and gives the scheduler calls of each step."""
    counts: dict[str, int] = {}

    def timed(step: str, work: Callable[[], object]) -> None:
        calls.clear()
        begun, cpu = time.perf_counter(), cpu_seconds()
        work()
        seconds.setdefault(step, []).append(time.perf_counter() - begun)
        seconds.setdefault(f"{step} CPU", []).append(cpu_seconds() - cpu)
        counts[f"{step} calls"] = calls.total()

    chosen = overrides(n_points, root)
    declaration = config.load("smoke", chosen)
    paths = run_paths(declaration)
    timed("plan", lambda: make_plan(config.load("smoke", chosen)))
    timed("submit", lambda: drive.run(declaration, say=silent, call=call))
    timed("tick", lambda: tick.tick(paths, say=silent, call=call))
    timed("status", lambda: drive.render(drive.report(paths, warn=silent, call=call)))
    return counts


def silent(_: str) -> None:
    """Say nothing."""


def command(arguments: list[str], seconds: Seconds, name: str) -> str:
    """Run a whole command; adds its wall time and gives its output."""
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", *arguments], check=True, stdout=subprocess.PIPE, text=True
    )
    seconds.setdefault(name, []).append(time.perf_counter() - begun)
    return done.stdout


def launcher(n_points: int, root: Path, seconds: Seconds) -> None:
    """The same number of points through Hydra."""
    chosen = [
        *("hydra/launcher=submitit_slurm", "hydra.launcher.partition=gpu"),
        *("hydra.launcher.timeout_min=5", "hydra.launcher.mem_gb=1"),
        f"hydra.sweep.dir={root}",
        f"+point=range({n_points})",
    ]
    said = command(["tests.bench.launcher", "--multirun", *chosen], seconds, "launcher command")
    facts = json.loads(said.splitlines()[-1])
    assert facts["jobs"] == n_points
    seconds["launcher submit"] = [facts["seconds"]]
    seconds["launcher submit, of it in submitit"] = [facts["in submitit"]]


def emptied(cluster: Cluster) -> int:
    """Cancel what waits; gives how many jobs that were."""
    jobs = len(cluster.squeue("--array", "--partition=gpu").splitlines())
    cluster.run("scancel", "--partition=gpu")
    time.sleep(PAUSE_SECONDS)
    return jobs


def main() -> None:
    with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
        os.environ |= cluster.environment
        blocker = cluster.sbatch("sleep 3600", "-p", "high", f"-N{len(NODES)}", "--exclusive")
        cluster.wait_for_state(blocker, "RUNNING")
        for n_points in GRIDS:
            seconds: Seconds = {}
            jobs, counts = 0, {}
            for repeat in range(REPEATS):  # in folders of their own: names just deleted slow ext4
                root = Path(folder) / f"{n_points}-{repeat}"
                counts = ours(n_points, root / "ours", seconds)
                jobs = emptied(cluster)
                chosen = overrides(n_points, root / "command")
                command(["sweeps", "run", "smoke", *chosen], seconds, "command")
                emptied(cluster)
            launcher(n_points, Path(folder) / f"{n_points}-launcher", seconds)
            emptied(cluster)
            print(json.dumps({"points": n_points, "jobs": jobs} | counts))
            for name, values in seconds.items():
                facts = {"step": name, "best s": min(values), "median s": statistics.median(values)}
                print(json.dumps({"points": n_points} | facts), flush=True)


if __name__ == "__main__":
    main()
