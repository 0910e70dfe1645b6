"""Kernels: from columns of numpy to small sums that can be added up. No Spark, no files, no clock.

A job (../jobs/) cuts what is recorded into pieces, lets a kernel work on each where Spark put it, and adds up what comes
back. A kernel therefore never needs all records, and never keeps one. Read `histogram.py` first.
"""
