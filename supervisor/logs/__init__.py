"""Logs: all that is said in a system, in one place (docs/concepts/logs.md).

From rings and pipes (`collector`, `pipes`) into numbered files (`file`, `folder`), and back to whoever looks (`reader`,
`watch`, `filter`, `text`). `output` is the terminal.
"""
