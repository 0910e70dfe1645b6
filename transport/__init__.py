"""Carry one envelope from here to there, or say why not."""
