"""What warm-up and reinforcement learning share: an optimizer, saves and stops."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import torch
from torch import Tensor
from torch.optim.adamw import adamw

from fgrpo_bench.engines.diverged import diverged
from fgrpo_bench.engines.embedded.checkpoint import Counters, restore_state, save_state
from fgrpo_bench.engines.embedded.kernels import kernel_names
from fgrpo_bench.engines.embedded.model import Policy
from fgrpo_bench.objectives.across_steps import State
from fgrpo_bench.stages.stage import StageRun, Stopped
from fgrpo_bench.stages.tables import METRICS, ROLLOUTS, read_table, write_table


class Session:
    """A policy in training, with its optimizer, its place in the run and its metrics."""

    def __init__(
        self,
        policy: Policy,
        *,
        run: StageRun,
        fingerprint: str,
        betas: tuple[float, float],
        weight_decay: float,
        grad_clip: float,
        has_metrics: bool,
        carried: State | None = None,
    ) -> None:
        """carried: the state of the advantages before the first step; None: they have none."""
        self.policy, self._run, self._mark = policy, run, fingerprint
        self._grad_clip = grad_clip
        weights, self._gradient = _flatten(policy)
        self._state = {
            "weights": weights,
            "exp_avg": torch.zeros_like(weights),
            "exp_avg_sq": torch.zeros_like(weights),
            "step": torch.zeros((), device=weights.device),
        }
        """The weights, and of AdamW the moments and the number of steps."""
        self.carried: State = carried or {}
        """The state of the advantages as the next step begins with it; saved too."""
        self._betas, self._weight_decay = betas, weight_decay
        self.metrics: list[dict[str, Any]] = []
        self._rollouts = ROLLOUTS.to_frame()
        self.counters = self._restore(has_metrics)
        self.resumed_at = self.counters.step
        self._saved_at, self._saved_step = time.monotonic(), self.counters.step

    def _restore(self, has_metrics: bool) -> Counters:
        paths = self._run.paths
        rows = METRICS.to_frame()
        if has_metrics and paths.metrics.exists():
            rows = read_table(paths.metrics, METRICS)
        counters = restore_state(
            paths,
            self._whole_state(),
            mark=self._mark,
            last_step=len(rows) if has_metrics else None,
        )
        if counters is None:
            paths.rollouts.unlink(missing_ok=True)  # of a run that begins anew
            return Counters(step=0, optimizer_steps=0, rollouts=0, tokens=0, cursor=0)
        is_kept = pl.col("step") <= counters.step
        self.metrics = rows.filter(is_kept).to_dicts()
        if has_metrics and paths.rollouts.exists():
            self._rollouts = read_table(paths.rollouts, ROLLOUTS).filter(is_kept)
        print(f"resuming after step {counters.step}", flush=True)
        return counters

    def steps(self, last: int) -> Iterator[int]:
        """The steps still to do, saving on the way; raises Stopped after a save when asked to."""
        while self.counters.step < last:
            yield self.counters.step + 1
            self.counters = replace(self.counters, step=self.counters.step + 1)
            due = time.monotonic() - self._saved_at >= self._run.save_seconds
            if self._run.stopping or due:
                self.save()
            if self._run.stopping and self.counters.step < last:
                raise Stopped(f"state of step {self.counters.step} is saved")

    def save(self) -> None:
        """Write metrics, then the state that refers to them, into the older slot."""
        if self._saved_step == self.counters.step:
            return
        if self.metrics:
            self.write_metrics()
        slot = self._run.paths.state(self._next_slot())
        save_state(slot, self._whole_state(), self.counters, self._mark)
        self._saved_at, self._saved_step = time.monotonic(), self.counters.step

    def _whole_state(self) -> dict[str, Tensor]:
        """All that a save holds, in the memory that the session works in."""
        carried = {f"carried.{name}": torch.from_numpy(a) for name, a in self.carried.items()}
        return self._state | carried

    def _next_slot(self) -> int:
        ages = [
            path.stat().st_mtime_ns if path.exists() else 0
            for path in (self._run.paths.state(0), self._run.paths.state(1))
        ]
        return ages.index(min(ages))

    def write_metrics(self) -> None:
        """Write metrics.parquet whole."""
        frame = pl.DataFrame(self.metrics, schema=METRICS)
        write_table(self._run.paths.metrics, frame, METRICS)

    def store_rollouts(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rollouts.parquet whole, with further rows (tables.ROLLOUTS) at its end. Called
        within their step: a state that counts it is saved later, so that none lacks them."""
        self._rollouts = pl.concat([self._rollouts, pl.DataFrame(rows, schema=ROLLOUTS)])
        write_table(self._run.paths.rollouts, self._rollouts, ROLLOUTS)

    def discard_state(self) -> None:
        """Remove the states of a finished run; its checkpoints stay."""
        for slot in (0, 1):
            self._run.paths.state(slot).unlink(missing_ok=True)

    def update(self, losses: Iterable[Tensor], learning_rate: float) -> float:
        """One optimizer step on the sum of the losses; returns the gradient norm before clipping.

        losses: each is let go before the next is asked for, so that only one part of a batch is in
        memory. FloatingPointError where a loss, that norm (the weights are then as they were) or
        the weights after the step are not finite.
        """
        self._gradient.zero_()
        for loss in losses:
            self._check("the loss", loss.detach())
            loss.backward()
        norm = torch.linalg.vector_norm(self._gradient)
        self._check("the gradient norm", norm)
        self._gradient.mul_((self._grad_clip / (norm + 1e-6)).clamp(max=1.0))
        weights, first, second, step = ([item] for item in self._state.values())
        # What torch.optim.AdamW calls; that class imports torch's compilers, which takes a second.
        adamw(
            weights,
            [self._gradient],
            first,
            second,
            [],
            step,
            fused=True,
            amsgrad=False,
            beta1=self._betas[0],
            beta2=self._betas[1],
            lr=learning_rate,
            weight_decay=self._weight_decay,
            eps=1e-8,
            maximize=False,
        )
        weight_norm = torch.linalg.vector_norm(self._state["weights"])
        self._check("the norm of the weights", weight_norm)
        self.counters = replace(self.counters, optimizer_steps=self.counters.optimizer_steps + 1)
        return float(norm)

    def _check(self, quantity: str, value: Tensor) -> None:
        if not bool(value.isfinite()):
            raise self.diverged(f"{quantity} ({value.item()})")

    def diverged(self, quantity: str) -> FloatingPointError:
        """The error that ends a run with numbers that are not finite; nothing of the running step
        is saved."""
        saved = f"the state after step {self._saved_step}" if self._saved_step else "nothing"
        return diverged(self.counters.step + 1, quantity, saved=f"{saved} is saved")


def _flatten(policy: Policy) -> tuple[Tensor, Tensor]:
    """All parameters of a policy in one piece of memory, and their gradients in another, of which
    they are views from now on: what an update does is then one operation, not one a parameter."""
    parameters = list(policy.parameters())
    weights = torch.cat([parameter.detach().flatten() for parameter in parameters])
    gradient = torch.zeros_like(weights)
    sizes = [parameter.numel() for parameter in parameters]
    parts = zip(parameters, weights.split(sizes), gradient.split(sizes), strict=True)
    for parameter, values, values_gradient in parts:
        parameter.data = values.view_as(parameter)
        parameter.grad = values_gradient.view_as(parameter)
    return weights, gradient


def engine_facts(device: str) -> dict[str, Any]:
    """The engine fingerprint: recorded with every result, compared when results are compared."""
    return {
        "engine": "embedded",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "kernels": kernel_names(device),
        "threads": torch.get_num_threads(),
    }
