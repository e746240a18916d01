"""Benchmarks: heedful and its peers on the same texts in the same run. `make bench` runs them all.

measure     rows of the table, and CPU seconds with all sides taking turns
material    texts and models
growth      time and peak memory against length and samples, in fresh processes
figures     the figures of docs/speed.md

Each other module is one job: a `run` that returns a Report of rows and curves.
"""
