"""Evaluators: a checkpoint in; draws, grades and pass@k out. `fgrpo-bench evaluate --help`.

A file a story. `evaluate` is the stage and the place to begin; `standalone` makes one of a
checkpoint without a sweep. It draws (`sample`, `shared`) with an engine (`backends`, `engines`,
`transformers`, `vllm`, `endpoint`), grades (`grading`) and scores. `rare` measures
likelihoods. What is stored is found and graded again (`stored`), audited (`audit`) and compared
(`compare`); `data` gets benchmarks.

What other programs drew is imported by `interchange`: `folders` finds the files of a place, `dumps`
reads them by the table in `formats`, `problems` says of what they are, and `verdicts` keeps what
the programs say of them. `groups` tells the groups of a training's rollouts. `lm_eval_tasks` gives
lm-eval our prompts.
"""
