"""The one-process engine of this package, as the rest sees it: its training spec and its Engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic.dataclasses import dataclass

from fgrpo_bench.engines.embedded import kernels
from fgrpo_bench.engines.embedded.pretrained import (
    digests,
    folder_tokenizer,
    n_parameters,
    read_folder,
)
from fgrpo_bench.engines.engine import BASE, Engine, Inputs, default_inputs
from fgrpo_bench.specs import (
    ModelSpec,
    PretrainedSpec,
    Profile,
    PromptSpec,
    SlurmProfile,
    SweepPoint,
    TaskSpec,
    TrainSpec,
    WarmupSpec,
)
from fgrpo_bench.specs.base import STRICT, NonNegative, Positive
from fgrpo_bench.specs.fingerprint import LOOP, defining, model_fields
from fgrpo_bench.tasks import make_task

PLAIN = PromptSpec(chat_template=False, system=None)
BOUNDS = ("prompt_tokens", "response_tokens")


@dataclass(config=STRICT, frozen=True, kw_only=True)
class EmbeddedTrain(TrainSpec):
    """A training run of the one-process engine of this package."""

    engine: Literal["embedded"]
    """Training engine."""
    task: TaskSpec
    """Where the training problems come from."""
    model: ModelSpec | None
    """Architecture of the policy; null, as the next one, with a model of one's own."""
    warmup: WarmupSpec | None
    """How the base model is made."""
    pretrained: PretrainedSpec | None = None
    """A model of one's own, in place of model and warmup: a folder with a Qwen2 as Hugging Face has
    it, whose tokenizer reads prompts as they are and writes responses."""
    prompt_tokens: Positive | None = None
    """Most tokens of a prompt under pretrained, as the next one; else the task says."""
    response_tokens: Positive | None = None
    """Most tokens of a response, the end token included."""
    max_batch_tokens: Positive | None = None
    """Most tokens that go through the model at once, a prompt counted once a group: a batch of more
    is sampled and learned from in parts, of whole groups, which changes nothing but rounding. Null
    takes every batch at once."""
    stored_groups: NonNegative = 4
    """Groups of a batch, the first ones, that are stored with each checkpoint to be looked at
    (tables.ROLLOUTS); 0 stores none. It changes no draw and no weight."""

    def __post_init__(self) -> None:
        super().__post_init__()
        warmed = {"model": self.model, "warmup": self.warmup}
        names = ("pretrained", "prompt_tokens", "response_tokens")
        folder = {name: getattr(self, name) for name in names}
        for given, other in ((warmed, folder), (folder, warmed)):
            if None not in given.values() and not any(other.values()):
                return
        named = ", ".join(name for name, value in (warmed | folder).items() if value is not None)
        raise ValueError(
            f"experiment.train has {named or 'no model'}: a base model is either warmed up (model, "
            "warmup) or a folder of yours (pretrained, prompt_tokens, response_tokens); give all "
            "of one and none of the other"
        )


def embedded_train(point: SweepPoint) -> EmbeddedTrain:
    """The training spec of a point of this engine; ValueError for one of another."""
    if not isinstance(point.train, EmbeddedTrain):
        raise ValueError(f"{point.point_id} has engine={point.train.engine}, not embedded")
    return point.train


def longest(train: EmbeddedTrain) -> tuple[int, int]:
    """Most tokens of a prompt, and of a response with the end token."""
    if train.prompt_tokens is not None and train.response_tokens is not None:
        return train.prompt_tokens, train.response_tokens
    task = make_task(train.task)
    return task.prompt_length, task.response_length + 1


def _inputs(train: EmbeddedTrain) -> Inputs:
    needs = default_inputs(train)
    return needs if train.pretrained is None else replace(needs, prompt=PLAIN)


def _identity(train: EmbeddedTrain) -> dict[str, Any]:
    fields = defining(train, LOOP) | {"model": model_fields(train.model), "kernels": kernels.NAME}
    if train.pretrained is None:
        return fields
    return fields | defining(train, BOUNDS) | {"pretrained": digests(Path(train.pretrained.path))}


def _check(point: SweepPoint, _: Profile) -> list[str]:
    """ValueError for a folder that is not trained here, and where a bound is less than one group,
    which is never split."""
    train = embedded_train(point)
    prompt, response = longest(train)
    if train.pretrained is not None:
        _check_folder(train.pretrained, prompt + response)
    if train.max_batch_tokens is not None:
        group = prompt + point.group_size * response
        if train.max_batch_tokens < group:
            raise ValueError(
                f"max_batch_tokens={train.max_batch_tokens}, but a group of {point.point_id} "
                f"(group_size={point.group_size}) has up to {group} tokens and is never split: "
                "raise it, lower the group size, or bound the task's responses"
            )
    return []


def _check_folder(model: PretrainedSpec, tokens: int) -> None:
    folder = Path(model.path)
    read, parameters = read_folder(folder), n_parameters(folder)
    folder_tokenizer(folder)  # what it refuses, no stage is to find out
    if model.parameters != parameters:
        raise ValueError(
            f"pretrained.parameters={model.parameters}, but the weights in {folder} have "
            f"{parameters:,}: set experiment.train.pretrained.parameters={parameters}"
        )
    if tokens > read.n_positions:
        raise ValueError(
            f"prompt_tokens and response_tokens are {tokens} together, but {folder} has "
            f"{read.n_positions} positions here: lower one of them"
        )


def _check_evaluation(point: SweepPoint, _: Profile) -> list[str]:
    is_ours = point.train.engine == "embedded" or getattr(point.train, "model", None) is not None
    if point.evaluation.sampler == "embedded" and not is_ours:
        raise ValueError(
            "evaluation.sampler=embedded with a published model: the embedded engine samples from "
            "its own checkpoints only; set experiment.evaluation.sampler=vllm"
        )
    return []


def _digits(profile: Profile) -> list[str]:
    """A line for this machine where its digits may be others; of a cluster's nodes nobody knows."""
    if profile.device != "cpu" or isinstance(profile, SlurmProfile):
        return []
    why = kernels.digits_warning()
    return [] if why is None else [why]


ENGINE = Engine(
    name="embedded",
    train=EmbeddedTrain,
    program=("fgrpo_bench.engines.embedded",),
    environment=BASE,
    samplers=("embedded", "transformers"),
    gives_log_probs=True,
    carries_state=True,
    aggregations=("token_mean", "sequence_mean", "constant_length"),
    controls=("entropy_coef", "kl_coef", "random_rewards"),
    inputs=_inputs,
    identity=_identity,
    pretrained_identity=lambda train: digests(Path(train.pretrained.path)),
    check=_check,
    version=2,
    check_evaluation=_check_evaluation,
    digits=_digits,
)
