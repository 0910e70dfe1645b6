"""`python -m appbackplane.supervisor.commands`: the command line of this very interpreter."""

from . import main

main()
