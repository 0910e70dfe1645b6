"""Turn a TOML file into running, healthy, visible processes."""
