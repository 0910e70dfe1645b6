"""Kernels: reduce numpy columns to small sums that can be added up. No Spark, no files, no clock.

A job (../jobs/) cuts the records into pieces, runs a kernel on each piece in a Spark task, and adds up the results. So a
kernel never needs all records, and never keeps one. Read `histogram.py` first.
"""
