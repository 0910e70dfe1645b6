"""Turn a TOML file into running, healthy, visible processes.

Decides: `config` (the TOML, checked whole), `plan` (whether it can come up), `lifecycle` (who may move), `movement` (where
all are to be, and hooks that fail) with `orders`, `restart` (again, when, and with whom) with `group_restart`, `director`
(events in, effects out), `status` (what is told of it all), `log_watch`, `log_filter`, `log_text` (what of the log is
fetched, wanted, shown). Does: `run` (the loop), `spawn`, `control_socket`, `run_dir`, `board_file`, `logs` (all that is
said), `log_file`, `log_reader`, `output`; `commands/` is the command line, one verb a file.
Never on the path of a call: callers and backplanes talk to each other directly. Read first: `director.py`.
"""
