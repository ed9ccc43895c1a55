"""The baseline of slurm.py: a sweep sent by Hydra with hydra-submitit-launcher, one job a point.

Once its jobs are in the queue it prints the seconds that took and exits; the launcher itself would
go on and wait for the last job.
"""

import json
import os
import time
from typing import Any

import hydra
import submitit
from omegaconf import DictConfig

BEGUN = time.perf_counter()
send = submitit.AutoExecutor.map_array


def sent(*arguments: Any, **named: Any) -> None:
    """In place of AutoExecutor.map_array."""
    begun = time.perf_counter()
    jobs = send(*arguments, **named)
    now = time.perf_counter()
    facts = {"jobs": len(jobs), "seconds": now - BEGUN, "in submitit": now - begun}
    print(json.dumps(facts), flush=True)
    os._exit(0)


@hydra.main(version_base="1.3", config_path=None)
def point(config: DictConfig) -> None:
    """What a job would run; none is started."""


if __name__ == "__main__":
    submitit.AutoExecutor.map_array = sent
    point()
