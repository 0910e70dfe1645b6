"""Intake: how a message from outside becomes a queued action, or a refusal with a reason."""
