"""Sweeps on a SLURM cluster: submitted as job arrays, left alone, brought up to date by `tick`.

By layers, hence so many files: what SLURM says (scheduler, answers), what was said to it
(submissions, recover, packing, submit), what a job does (payload, attempts, code), what is to be
done (arrays, decide: pure), and the commands (preflight, observe, tick, status, drive).
"""
