"""Tables, words and figures in every format: what all views write with, and nothing of a sweep.

A view makes blocks once (`table`, which formats numbers too). `terminal`, `markdown` and `html`
render them, `latex` renders tables; `style` is how figures look. Names and other texts are escaped
by the renderers, so that blocks hold them as they are.
"""
