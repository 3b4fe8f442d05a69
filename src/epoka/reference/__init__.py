"""The pages of `docs/` that are written from the code, and how the site is built.

`python -m epoka.reference` writes the pages of rules, APIs, settings and commands; `--check` says which of
them is not what would be written. A page says what the tables of the code say and nothing else. `site.py` is
the part that the site generator calls. Nothing in Epoka imports this package.
"""
