"""`python -m tests.openrlhf.vllm_likelihoods <checkpoint> <out.json>`: nats a token of three
answers by the embedded engine and by the real vLLM on the processor, in a process of its own."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from evaluators.rare import StoredResponse, make_scorer
from fgrpo_bench.stages.digests import weights_sha256
from tests.openrlhf.vllm_draws import EVALUATION, asked
from tests.support.openrlhf import heldout_problems

RESPONSES = (("1+2*3-4", True), ("9*9", True), ("5", False))


def main(checkpoint: Path, out: Path) -> None:
    answers = [
        StoredResponse(problem=problem, response=response, ended=ended, end_token=None)
        for problem, (response, ended) in zip(heldout_problems(3), RESPONSES, strict=True)
    ]
    found = {}
    for sampler in ("embedded", "vllm"):
        evaluation = replace(EVALUATION, sampler=sampler, dtype="float32")
        whole = asked(checkpoint, weights_sha256(checkpoint))
        score = make_scorer(replace(whole, evaluation=evaluation))
        found[sampler] = [nll for _, nll in sorted(p for batch in score(answers) for p in batch)]
    out.write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
