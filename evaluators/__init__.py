"""Evaluators: a checkpoint in; draws, grades and pass@k out. `python -m evaluators --help`."""
