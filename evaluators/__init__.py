"""Evaluators: a checkpoint in; draws, grades and pass@k out. `python -m evaluators --help`.

A file for each command (run, fetch, import, export, audit, regrade), for each back end that draws
(backends, transformers, vllm) and for each step between (prompts, sample, grading, likelihood),
hence so many.
"""
