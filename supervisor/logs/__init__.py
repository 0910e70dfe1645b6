"""Logs: every log line and all output of a system, in one place (docs/concepts/logs.md).

From rings and pipes (`collector`, `watch`, `pipes`) into numbered files (`file`, `folder`), and back to readers (`reader`,
`filter`, `text`). `output` is the terminal.
"""
