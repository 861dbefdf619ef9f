"""`python -m fleetlake` is the `fleetlake` command."""

from fleetlake.cli import main

if __name__ == "__main__":
    main()
