"""`fleetlake`, or `python -m fleetlake`: Ctrl-C ends it without a traceback from its start on."""

import sys


def main() -> None:
    """Load the command line, which takes a moment, and run it."""
    try:
        from fleetlake.cli import main as run  # noqa: PLC0415 - Ctrl-C may come meanwhile
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
