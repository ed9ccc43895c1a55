"""The stand-ins for CUDA, where they can be tested without a run."""

import os
import threading
import time
from types import SimpleNamespace

import pytest
import torch
from deepspeed.ops.adam import FusedAdam
from torch.utils.file_baton import FileBaton

from fgrpo_bench.engines.openrlhf import rehearsal

pytestmark = pytest.mark.openrlhf


@pytest.fixture
def lock(tmp_path):
    path = tmp_path / "lock"
    path.touch()
    return path


def waiting(lock):
    thread = threading.Thread(target=FileBaton(str(lock), 0.01).wait, daemon=True)
    thread.start()
    return thread


def test_a_compilers_lock_that_a_killed_run_left_is_removed(lock, capfd):
    then = time.time() - rehearsal.STALE_SECONDS - 1
    os.utime(lock, (then, then))
    waiting(lock).join(60)
    assert not lock.exists()
    assert f"removed {lock}, which a killed run had left" in capfd.readouterr().out


def test_a_fresh_lock_is_waited_for_and_named(lock, capfd):
    thread = waiting(lock)
    thread.join(0.2)
    assert thread.is_alive() and lock.exists()
    lock.unlink()
    thread.join(60)
    assert not thread.is_alive()
    assert capfd.readouterr().out.count(f"if none runs, delete {lock}") == 1


class Work:
    """A collective that is under way."""

    arrived = False

    def wait(self):
        self.arrived = True


def test_gathered_parameters_have_arrived_before_anything_uses_them():
    class TorchBackend:
        def all_gather_into_tensor(self, output, given, async_op=False):
            return Work() if async_op else None

    rehearsal.deepspeed._patch_gathers(SimpleNamespace(TorchBackend=TorchBackend))
    assert TorchBackend().all_gather_into_tensor("out", "in", async_op=True).arrived
    assert TorchBackend().all_gather_into_tensor("out", "in") is None


def adam(steps, *, resumed_at=None):
    """A parameter after so many steps; a process that resumes finds the shared state elsewhere."""
    parameter = torch.nn.Parameter(torch.linspace(-1, 1, 64))
    optimizer = FusedAdam([parameter], lr=1e-2, betas=(0.9, 0.999))
    for step in range(steps):
        if step == resumed_at:
            other = torch.nn.Parameter(torch.zeros(2))
            other.grad = torch.ones(2)
            FusedAdam([other], lr=1e-2, betas=(0.8, 0.9)).step()
        parameter.grad = torch.sin(torch.arange(64.0) * (step + 1))
        optimizer.step()
    return parameter.detach().clone()


def test_adam_takes_the_same_steps_in_a_process_that_resumes():
    through = adam(40)
    assert all(torch.equal(adam(40, resumed_at=at), through) for at in range(1, 40))
    reference = torch.nn.Parameter(torch.linspace(-1, 1, 64))
    theirs = torch.optim.AdamW([reference], lr=1e-2, betas=(0.9, 0.999), weight_decay=0.0)
    for step in range(40):
        reference.grad = torch.sin(torch.arange(64.0) * (step + 1))
        theirs.step()
    assert torch.allclose(through, reference, rtol=0, atol=2e-6)
