"""Does an estimator of advantages give what its paper says? Exact vectors, and a check of others.

vectors.py reads what vectors/ has, make.py writes it, check.py compares a function with it, and
trainers/ holds how to call the estimators of verl, TRL and OpenRLHF. Next: __main__.py, the command
`fgrpo-bench conform`.
"""
