"""Entry point of `fleetlake` and `python -m fleetlake`. Ctrl-C never prints a traceback."""

import gc
import sys


def main() -> None:
    """Import the command line, which takes a moment, and run it."""
    try:
        from fleetlake.startup import plain_help, prepare_start  # noqa: PLC0415 - as below

        prepare_start()
        with plain_help():
            from fleetlake.cli import main as run  # noqa: PLC0415 - Ctrl-C may arrive during it
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        sys.exit(130)
    code = run()
    # Python's last collection would take an eighth of the CPU time of an ingest with nothing new.
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    main()
