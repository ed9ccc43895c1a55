"""Evaluators: a checkpoint in; draws, grades and pass@k out. `fgrpo-bench evaluate --help`.

A file a story. `evaluate` is the stage and the place to begin; `standalone` makes one of a
checkpoint without a sweep. It draws (`sample`, `shared`) with an engine (`backends`, `engines`,
`transformers`, `vllm`, `endpoint`), grades (`grading`) and scores. `rare` measures
likelihoods. What is stored is found and graded again (`stored`), audited (`audit`) and exchanged
with other programs (`interchange`); `fetch` gets benchmarks.
"""
