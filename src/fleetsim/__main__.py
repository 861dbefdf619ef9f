"""`python -m fleetsim`: the command `fleetlake simulate` on its own."""

import typer

from fleetsim.command import simulate

if __name__ == "__main__":
    typer.run(simulate)
