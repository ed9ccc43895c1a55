"""pass@k and its statistics: pure functions of counts, nothing here reads a file.

A file for each estimator, test and interval, hence so many.
"""
