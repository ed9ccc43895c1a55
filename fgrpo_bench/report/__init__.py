"""The report of a sweep: tables, words and figures from the stored files alone.

    python -m fgrpo_bench.report groupsize

summary reads the files, comparisons and verdict say what they show, tables and documents render,
figures draws, build writes: a file for each table and kind of figure, hence so many. MLflow is not
read, and the YAML only to guess which of several runs of a sweep is meant.
"""
