"""Doctor: what this machine grants (`machine` looks) and what to do about what it does not (`checkup` judges)."""
