"""Permissions: the users and groups that may use each thing, and the audit log. Everything that is not permitted is refused.

Admission asks (execution/intake/intake.py), so every caller is subject to them: HTTP, mashups, the command line, other nodes.
Read table.py first: it decides. permission_file.py keeps the permissions on disk, and audit.py what was done.
"""
