"""The report of a sweep: tables, words and figures from its analysis (fgrpo_bench.analysis).

    fgrpo-bench report groupsize

Nothing here computes a statistic: answer and narrative say it in words; tables, main_tables,
comparisons, further and notes select and format; `figures/` draws; content orders them; build
renders and writes; verify computes a report again and compares; `exports/` has the formats of
others. A file for each, hence so many. Whatever has no sweep in it is in fgrpo_bench.documents.
MLflow is not read, and the YAML only to guess which of several runs of a sweep is meant.
"""
