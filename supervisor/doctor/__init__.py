"""Doctor: the abilities of this machine (`machine` probes), and a remedy for each lack (`checkup` judges)."""
