"""Sweeps: plan a grid, dispatch its stages, follow them. `python -m sweeps --help`."""
