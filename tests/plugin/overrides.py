"""Overrides of the sweep `smoke` that take task, grader and benchmark of the plug-in here."""

MODULE = "tests.plugin.fgrpo_parity"
PARITY = [
    "~experiment.train.task",
    "+experiment.train.task={name: parity, seed: 1, n_bits: 6}",
    "~experiment.evaluation.benchmarks.countdown",
    "+benchmark@experiment.evaluation.benchmarks.parity=parity",
]
