"""Sweeps on a SLURM cluster: submitted as job arrays, left alone, brought up to date by `tick`."""
