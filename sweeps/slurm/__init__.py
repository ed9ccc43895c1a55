"""Sweeps on a SLURM cluster: submitted as job arrays, left alone, brought up to date by `tick`.

Commands (drive), a look before anything is sent (preflight), one look and what follows (tick), its
rules (decide: pure), what was and is sent (submissions, submit, packing), what a job does (payload,
code), what jobs left behind (attempts), and every call of SLURM's programs (scheduler).
"""
