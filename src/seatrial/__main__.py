"""The command `seatrial`, also as `python -m seatrial`.

It imports nothing before it can answer Ctrl-C: the imports of the command line take 0.3 s, and would end with a traceback.
"""

import sys


def main() -> None:
    """Runs the command line."""
    try:
        from seatrial.cli.main import main as command

        command()
    except KeyboardInterrupt:
        _say_interrupted()
        sys.exit(130)
    except SystemExit as end:
        if isinstance(getattr(end.__context__, "__cause__", None), KeyboardInterrupt):  # typer's 130, without a word
            _say_interrupted()
        raise


def _say_interrupted() -> None:
    print("seatrial: interrupted", file=sys.stderr)


if __name__ == "__main__":
    main()
