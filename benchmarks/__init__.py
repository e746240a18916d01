"""Benchmarks: heedful and its peers on the same texts in the same run. `make bench` runs them all.

measure   rows of the table, and CPU seconds with all sides taking turns       material  texts and models
attattr_  lime_  shapley_  removal  paths  theory_  overhead                   one job each: a list of rows, and curves
growth    time and peak memory against length and samples, in fresh processes  pictures  the figures of docs/speed.md
"""
