"""`python -m tilewright`: the command `tilewright`."""

from tilewright.cli.app import main

main()
