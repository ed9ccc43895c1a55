"""A PEFT adapter over a model: checked before anything is loaded, and applied by a back end.

In: a folder as `peft` saves it (adapter_config.json, adapter_model.safetensors). Out: its digest,
which is part of what draws follow from; a model of transformers with the adapter over it; and what
vLLM must know of its rank.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fgrpo_bench.files.whole import read_json
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.stages.digests import sha256_file

ADAPTER = "adapter"
"""Name of the link to an adapter's folder, beside the checkpoints that it is over."""
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM takes as the largest rank of an adapter."""


def adapter_sha256(folder: Path) -> str:
    """Digest of an adapter's weights and config; FileNotFoundError where one is not there."""
    return fingerprint({name: sha256_file(folder / name) for name in (CONFIG, WEIGHTS)})


def check_adapter(folder: Path, *, sampler: str) -> None:
    """ValueError or FileNotFoundError where a folder is no adapter that the sampler can draw with.

    Weights other than safetensors are pickles, which run code where they are read: none is.
    """
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise FileNotFoundError(
                f"--peft {folder} has no {name}: give the folder that PeftModel.save_pretrained "
                "wrote, with weights as safetensors"
            )
    config = read_json(folder / CONFIG)
    if sampler == "vllm":
        if config.get("peft_type") != "LORA":
            raise ValueError(
                f"--peft {folder} is of type {config.get('peft_type')}: vLLM draws with LoRA "
                "alone; set --sampler transformers"
            )
        vllm_rank(folder)
    elif sampler != "transformers":
        raise ValueError(
            f"--peft {folder} with sampler={sampler}: an adapter is drawn with by transformers or "
            "vLLM; leave it out, or name one of these with --sampler"
        )
    elif find_spec("peft") is None:
        raise ValueError(f"--peft {folder} needs the package peft here: run `pip install peft`")


def adapted(model: Any, folder: Path) -> None:
    """Put an adapter over a model of transformers.

    transformers draws at random what an adapter lacks and passes over what the model does not have;
    here both are a ValueError, since the draws would be of another model.
    """
    try:
        loading_info = model.load_adapter(str(folder.resolve()))
    except (ValueError, RuntimeError, KeyError, TypeError) as error:
        raise ValueError(
            f"the adapter in {folder} cannot be put over this model "
            f"({str(error).splitlines()[0]}): name the model that it was trained on"
        ) from error
    kinds = (loading_info.missing_keys, loading_info.unexpected_keys, loading_info.mismatched_keys)
    if unfit := sorted(str(name) for names in kinds for name in names):
        raise ValueError(
            f"the adapter in {folder} does not fit this model: {len(unfit)} of its weights have no "
            f"counterpart, e.g. {unfit[0]}; name the model that it was trained on"
        )


def vllm_rank(folder: Path) -> int:
    """The least of vLLM's ranks that an adapter fits into; ValueError where it fits into none."""
    config = read_json(folder / CONFIG)
    ranks = [config.get("r"), *(config.get("rank_pattern") or {}).values()]
    largest = max((rank for rank in ranks if isinstance(rank, int)), default=0)
    for rank in RANKS:
        if 0 < largest <= rank:
            return rank
    raise ValueError(
        f"--peft {folder} has rank {largest or 'none'}: vLLM draws with ranks from 1 to "
        f"{RANKS[-1]}; set --sampler transformers"
    )
