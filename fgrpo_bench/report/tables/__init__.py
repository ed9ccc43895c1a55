"""The report's tables, a file for each question that they answer.

`main` has pass@k, `comparisons` how cells differ, `training` what it took, `likelihood` what became
of rare correct answers, `paper` what was published.
"""
