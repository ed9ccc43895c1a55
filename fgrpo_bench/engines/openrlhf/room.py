"""Whether the memory of a GPU is enough for a run and its evaluations: refusals, warnings and the
sum that `plan` prints, of what `memory` counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fgrpo_bench.engines.openrlhf.extra import lora_rank
from fgrpo_bench.engines.openrlhf.memory import (
    Phases,
    Sampler,
    logits_bytes,
    longest,
    pass_tokens,
    phases,
    published,
    samplers,
    shape_of,
)
from fgrpo_bench.specs import Placement, PretrainedSpec, SweepPoint

TIGHT = 0.9
"""Share of a GPU's memory above which little is left for what is not counted."""
CROWDED = 0.75
"""Share of an engine's memory above which its weights leave little for its key-value cache."""
HELD = 0.25
"""Of the longest sequence, what one in flight is taken to hold on average: it is half drawn, and a
response ends at half of its limit."""
SHIPPED = {"slurm-8gpu": 8, "slurm-multinode": 16}
"""Profiles of conf/ with the GPUs over which they lay a run out at zero_stage 3."""


def check(point: SweepPoint, placement: Placement, *, nodes: int) -> Iterator[str]:
    """Warnings of a training run, none where its parameters or the GPU's memory are not known;
    ValueError with formula and remedy where it cannot fit."""
    held, pretrained = phases(point, placement, nodes=nodes), published(point)
    if held is None or pretrained is None:
        return
    have, processes = placement.gpu_memory_gb or 0, nodes * placement.actor_gpus_per_node
    phase, need = max(held.peaks.items(), key=lambda peak: peak[1])
    words = (
        f"{pretrained.name} with {pretrained.parameters / 1e9:.2f} billion parameters needs "
        f"{need:.1f} GiB a GPU of {have:g} GiB in {phase}: "
        f"{_parts(point, placement, held, phase)}, at zero_stage={placement.zero_stage} over "
        f"{processes} processes, adam_offload={str(placement.adam_offload).lower()}"
    )
    remedy = _remedy(point, placement, phase)
    if need > have:
        raise ValueError(f"{words}: it cannot fit; {remedy}")
    if need > TIGHT * have:
        yield f"{words}: it leaves little for buffers, which are not counted; {remedy}"
    training, _ = samplers(point, placement, pretrained)
    yield from _check_sampler(point, placement, pretrained, training, "in vLLM")


def check_evaluation(point: SweepPoint, placement: Placement) -> Iterator[str]:
    """The same of an evaluation by vLLM."""
    pretrained = published(point)
    if placement.gpu_memory_gb is None or pretrained is None:
        return
    _, sampler = samplers(point, placement, pretrained)
    yield from _check_sampler(point, placement, pretrained, sampler, "in an evaluation")


def summary(points: Sequence[SweepPoint], placement: Placement, *, nodes: int) -> list[str]:
    """The memory of a GPU in two lines, for the point that needs most; none where it is not
    known."""
    held = [(point, phases(point, placement, nodes=nodes)) for point in points]
    known = [(point, each) for point, each in held if each is not None]
    if not known:
        return []
    point, most = max(known, key=lambda pair: max(pair[1].peaks.values()))
    peaks, pretrained = most.peaks, published(point)
    assert pretrained is not None
    shape = shape_of(pretrained)
    lines = [
        f"GiB of a GPU's {placement.gpu_memory_gb:g} by {point.algorithm.name}: "
        f"{peaks['an update']:.1f} in an update (states {most.states:.1f} + logits "
        f"{most.logits:.1f} + activations {most.activations:.1f}), "
        f"{peaks['an optimizer step']:.1f} in an optimizer step, "
        f"{peaks['sync and save']:.1f} in sync and save, {peaks['rollouts']:.1f} in rollouts "
        f"(vLLM {most.share:.1f} + policy {most.kept:.1f})"
    ]
    if shape is None:
        return [
            f"{lines[0]}; without logits, activations and cache: set "
            f"experiment.train.pretrained.shape, since {pretrained.path} is no folder with a "
            "config.json that says it"
        ]
    each = (
        f"{sampler.cache_tokens(shape) // placement.vllm_max_num_seqs:,}"
        for sampler in samplers(point, placement, pretrained)
    )
    return [
        *lines,
        f"vLLM's key-value cache holds {' tokens a sequence in training, '.join(each)} in an "
        f"evaluation, at vllm_max_num_seqs={placement.vllm_max_num_seqs} sequences of up to "
        f"{longest(point):,}",
    ]


def _parts(point: SweepPoint, placement: Placement, held: Phases, phase: str) -> str:
    """What a phase holds, each part with its formula."""
    adapted = lora_rank(point) > 0
    owned = "weights (2" if adapted else "weights, gradients and optimizer (2 + 2 + 12"
    reference = ", 2 for the reference model" if point.algorithm.kl_coef > 0 else ""
    states = f"{held.states:.1f} for {owned} bytes a parameter{reference})"
    kept = f"{held.kept:.1f} for what the policy keeps"
    return {
        "an update": f"{states}, {held.logits:.1f} for logits ({logits_bytes(point)} bytes x "
        f"{pass_tokens(point, placement):,} tokens x vocabulary), {held.activations:.1f} for "
        "activations",
        "an optimizer step": f"{states}, {held.step:.1f} for gradients in one piece and in fp32 "
        "(2 + 4 bytes a parameter)",
        "sync and save": f"{kept}, {held.engine:.1f} for vLLM's weights, {held.copies:.1f} for "
        "copies",
        "rollouts": f"{kept}, {held.share:.1f} for vLLM (vllm_gpu_memory="
        f"{placement.vllm_gpu_memory:g})",
    }[phase]


def _remedy(point: SweepPoint, placement: Placement, phase: str) -> str:
    if phase == "rollouts":
        return "lower profile.placement.vllm_gpu_memory"
    ways = []
    if phase == "an update" and pass_tokens(point, placement) > longest(point):
        packed = placement.max_tokens_per_gpu is not None
        ways.append(f"a lower {'max_tokens_per_gpu' if packed else 'train_micro_batch'}")
    if placement.zero_stage < 3:
        ways.append("zero_stage 3")
    ways.append("more GPUs (profile.nodes, actor_gpus_per_node)")
    if phase == "sync and save":
        ways.append("a larger vllm_tensor_parallel")
    elif not placement.adam_offload:
        ways.append("adam_offload=true")
    return f"take {', or '.join(ways)} in profile.placement{_shipped(point, placement)}"


def _shipped(point: SweepPoint, placement: Placement) -> str:
    """The first shipped profile over whose GPUs a run would fit, were they such as these."""
    for name, gpus in SHIPPED.items():
        laid = replace(placement, zero_stage=3, actor_gpus_per_node=gpus)
        held, have = phases(point, laid, nodes=1), placement.gpu_memory_gb or 0
        if held is not None and max(held.peaks.values()) <= TIGHT * have:
            return f"; it fits the {gpus} GPUs of profile={name}"
    return ""


def _check_sampler(
    point: SweepPoint,
    placement: Placement,
    pretrained: PretrainedSpec,
    sampler: Sampler,
    where: str,
) -> Iterator[str]:
    """Whether an engine holds the weights on each of its GPUs, and enough of its sequences."""
    share, parallel = f"{sampler.settings}_gpu_memory", f"{sampler.settings}_tensor_parallel"
    setting = f"{share}={getattr(placement, share):g}"
    sized = (
        f"{pretrained.name} needs {sampler.weights:.1f} GiB a GPU {where} ({sampler.each} bytes a "
        f"parameter over {parallel}={sampler.parallel})"
    )
    more = (
        f"raise profile.placement.{share}, or {parallel} and lower {sampler.settings}_engines alike"
    )
    if sampler.weights > sampler.gib:
        raise ValueError(f"{sized}, more than {setting} of {placement.gpu_memory_gb:g} GiB: {more}")
    if sampler.weights > CROWDED * sampler.gib:
        yield (
            f"{sized} of the {sampler.gib:.1f} GiB that {setting} leaves it: little is left for "
            f"its key-value cache; {more}"
        )
        return
    shape, at_once, length = shape_of(pretrained), placement.vllm_max_num_seqs, longest(point)
    if shape is None:
        return
    tokens, taken = sampler.cache_tokens(shape), HELD * length
    if tokens < taken * at_once:
        yield (
            f"{pretrained.name} {where} has a key-value cache of {tokens:,} tokens ({setting}), "
            f"{tokens // at_once:,} for each of vllm_max_num_seqs={at_once} sequences, less than a "
            f"quarter of the longest ({length:,}): where responses run long vLLM interrupts some "
            "and computes them again; lower profile.placement.vllm_max_num_seqs to "
            f"{max(1, int(tokens / taken))}, or {more}"
        )
