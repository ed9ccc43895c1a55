"""Dashboards: views over the stored results. `fgrpo-bench dashboard --help`."""
