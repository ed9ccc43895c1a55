"""MLflow as a view of the stored files: rebuilt from them at any time, never read back.

`python -m fgrpo_bench.tracking sync` brings MLflow up to date. `desired` says what MLflow should
hold, in the words of `describe` and with the pages of `views`; `store` opens it; `sync` makes the
two agree.

What should be there (source, cells, points, models, state, describe, views, desired), what is there
(store, read) and what changes it (sync, write, write_models, rebuild) stand apart, hence so many
files.
"""
