"""MLflow as a view of the stored files: rebuilt from them at any time, never read back.

`python -m fgrpo_bench.tracking sync` brings MLflow up to date. `desired` says what MLflow should
hold (`points`, `cells`, in the words of `describe`), as the plain values of `state`; `source` reads
the files and gives each run its digest; `store` opens MLflow and `sync` makes the two agree.
"""
