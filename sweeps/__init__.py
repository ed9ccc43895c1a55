"""Sweeps: plan a grid, dispatch its stages, follow them. `fgrpo-bench sweep --help`.

Planning: plan, preview, freeze. Dispatching: commands, schedule, local/, slurm/. Following: status,
reporting, check/. They stand in one folder as both dispatchers take them all.
"""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
"""Where stage commands run, whatever folder the driver was started in."""
