"""MLflow as a view of the stored files: rebuilt from them at any time, never read back.

`fgrpo-bench tracking sync` brings MLflow up to date. `source` reads the files and gives
each run its digest, `desired` says what MLflow should hold (with the runs of `points` and `cells`,
plain values of `states`), and `sync` opens MLflow and makes the two agree.
"""
