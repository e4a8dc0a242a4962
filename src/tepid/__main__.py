"""`python -m tepid`."""

from tepid.cli.app import main

main()
