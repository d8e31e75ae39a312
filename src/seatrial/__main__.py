"""`python -m seatrial` is `seatrial`."""

from seatrial.cli.main import main

main()
