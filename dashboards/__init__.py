"""Dashboards: views over the stored results. `python -m dashboards --help`."""
