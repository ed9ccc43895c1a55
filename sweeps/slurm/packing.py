"""submitit, which writes a batch's sbatch file and packs what its jobs run: all that touches it.

It is asked for its own files' names and for the text that it would send, which it keeps to itself;
how jobs are, SLURM itself is asked (sweeps.slurm.scheduler).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

from submitit import SlurmExecutor
from submitit.core.utils import DelayedSubmission, JobPaths
from submitit.helpers import Checkpointable

from sweeps.slurm.scheduler import Call


class PackedJob(Checkpointable):
    """What an element of a batch runs: pickled, and called on the node. A signal that comes before
    it is called has it packed again as it is."""


class Packing:
    """A batch that is to be packed and sent.

    folder: the batch's own. python: that runs the jobs. parameters: submitit's; those that are None
    are left out.
    """

    def __init__(self, folder: Path, python: str, **parameters: object) -> None:
        self._executor = _Executor(
            folder=str(folder), max_num_timeout=0, python=shlex.quote(python)
        )
        given = {key: value for key, value in parameters.items() if value is not None}
        # submitit's own, `submitit`, is refused where a site enforces them
        self._executor.update_parameters(wckey=None, **given)

    def text(self, size: int) -> str:
        """The sbatch file for so many elements, to the letter."""
        executor = self._executor
        if size > 1:
            executor.parameters["map_count"] = size
        return str(executor._make_submission_file_text(executor._submitit_command_str, ""))

    def send(self, jobs: Sequence[Callable[[], str]], call: Call) -> str:
        """Pack the jobs and have sbatch take them; the id under which SLURM has them.

        submitit packs and sends in one go, with an sbatch that may hang for ever. Raises OSError
        where nothing can be written, else as `call` does.
        """
        executor, packed = self._executor, list[Path]()
        executor.folder.mkdir(parents=True, exist_ok=True)
        for job in jobs:
            delayed = DelayedSubmission(job)
            delayed.set_timeout(executor.parameters["time"], executor.max_num_timeout)
            packed.append(executor.folder / f"{uuid4().hex}.pkl")
            delayed.dump(packed[-1])
        # its folder tells whose job it is, whatever a site calls it (scheduler.squeue_of_user)
        script = executor.folder.absolute() / f"{uuid4().hex}.sh"
        script.write_text(self.text(len(jobs)), encoding="utf-8")
        output = call(["sbatch", str(script)])
        # the last, as a site's wrapper may print what it likes ahead of it
        ids = re.findall(r"^Submitted batch job (\d+)", output, re.MULTILINE)
        if not ids:
            raise ValueError(f"`sbatch` printed what makes no sense: {output!r}")
        job_id: str = ids[-1]
        script.rename(sent_file(executor.folder, job_id))
        for index, path in enumerate(packed):
            element = job_id if len(packed) == 1 else f"{job_id}_{index}"
            path.rename(JobPaths(executor.folder, job_id=element).submitted_pickle)
        return job_id


class _Executor(SlurmExecutor):
    @classmethod
    def affinity(cls) -> int:
        """Usable where there is no SLURM: whether it is there shows when something is sent."""
        return 2


def sent_file(folder: Path, job_id: str | None) -> Path:
    """The sbatch file of a batch as it was sent. folder: the batch's own."""
    return JobPaths(folder, job_id=job_id).submission_file


def output_file(folder: Path, job_id: str) -> Path:
    """A job's own output, of its first task."""
    return JobPaths(folder, job_id=job_id, task_id=0).stdout


def is_packed(folder: Path, job_id: str) -> bool:
    """Whether what a job runs stands where the job looks for it, which is so some time after sbatch
    took it."""
    return JobPaths(folder, job_id=job_id).submitted_pickle.exists()
