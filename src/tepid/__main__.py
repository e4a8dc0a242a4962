"""`python -m tepid`."""

from tepid.cli.main import main

main()
