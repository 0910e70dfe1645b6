"""`python -m appbackplane.supervisor`: the command line of this very interpreter."""

from .commands import main

main()
