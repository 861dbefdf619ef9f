"""Entry point of `fleetlake` and `python -m fleetlake`. Ctrl-C never prints a traceback."""

import sys


def main() -> None:
    """Import the command line, which takes a moment, and run it."""
    try:
        from fleetlake.startup import (  # noqa: PLC0415 - as below
            end_at_once,
            plain_help,
            prepare_start,
        )

        prepare_start()
        with plain_help():
            from fleetlake.cli import main as run  # noqa: PLC0415 - Ctrl-C may arrive during it
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        sys.exit(130)
    end_at_once(code := run())
    sys.exit(code)


if __name__ == "__main__":
    main()
