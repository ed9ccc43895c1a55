"""The report of a sweep: tables, words and figures from its analysis (fgrpo_bench.analysis).

    fgrpo-bench report groupsize

Nothing here computes a statistic. `build` puts together and writes what `words`, `tables/` and
`figures/` make of the analysis; `footnotes` stand below each table; `provenance` records what a
report was made from, and `verify` computes it again and compares; `exports/` has the formats of
others. Whatever has no sweep in it is in fgrpo_bench.documents. MLflow is not read, and the YAML
only to guess which of several runs of a sweep is meant.
"""
