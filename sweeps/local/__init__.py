"""Running a sweep on this machine: a bounded pool of workers, its driver, and what is shown."""
