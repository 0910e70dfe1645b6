"""Metrics: what Prometheus is told. `exposition` decides what, `port` says it."""
