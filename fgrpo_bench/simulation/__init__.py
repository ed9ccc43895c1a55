"""The paper's categorical simulation (F-GRPO, arXiv 2602.06717, figure 2 and appendix J).

    python -m fgrpo_bench.simulation

A policy over 128,000 actions is trained with groups of N draws; for every N the mass of all right
actions rises, but how much of their first mass is retained falls for groups of middle size. policy
and run compute, runs says which there are, workers makes them, report, figure and views show them.
"""
