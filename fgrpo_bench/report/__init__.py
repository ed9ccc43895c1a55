"""The report of a sweep: tables, words and figures from the stored files alone.

    python -m fgrpo_bench.report groupsize

summary reads the files, comparisons and verdict say what they show, tables and documents render,
figures draws, build writes. Nothing here reads MLflow or the YAML that made the sweep.
"""
