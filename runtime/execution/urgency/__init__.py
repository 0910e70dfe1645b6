"""Urgency: the priority of this backplane as others see it: on the board, and by OS nice and cgroup weight."""
