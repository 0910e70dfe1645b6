"""Metrics: the figures for Prometheus. `exposition` selects them, `port` serves them."""
