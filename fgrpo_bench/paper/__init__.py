"""F-GRPO (arXiv 2602.06717): its theory, its simulation and its published figures.

Three rooms that do not need one another: `theory` has formulas and the command `fgrpo-bench
theory`, `simulation` makes and reports the simulation's runs, `published` holds the figures that
the paper printed, which the analysis sets beside a sweep's.
"""
