"""Operating: what a person sees of a kernel, and tells it: status, commands, schedules, modes."""
