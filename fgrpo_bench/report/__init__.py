"""The report of a sweep: tables, words and figures from its analysis (fgrpo_bench.analysis).

    python -m fgrpo_bench.report groupsize

Nothing here computes a statistic: narrative, tables, main_tables and further select and format,
content orders them, a figure is a module each (figures lists them), build renders and writes.
Whatever has no sweep in it is in fgrpo_bench.documents. MLflow is not read, and the YAML only to
guess which of several runs of a sweep is meant.
"""
