"""MLflow as a view of the stored files: rebuilt from them at any time, never read back.

`python -m fgrpo_bench.tracking sync` brings MLflow up to date. `desired` says what MLflow should
hold, in the words of `describe`; `store` opens it; `sync` makes the two agree.
"""
