"""`python -m tilewright.cli`."""

from tilewright.cli.app import main

main()
