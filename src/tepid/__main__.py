"""`python -m tepid`."""

from tepid.cli.start import main

main()
