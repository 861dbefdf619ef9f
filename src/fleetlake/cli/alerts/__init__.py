"""`fleetlake alerts`: setting up pushes, their destinations and rules, and what has arrived."""

import typer

from fleetlake.cli.alerts.destinations import destinations
from fleetlake.cli.alerts.drain import drain
from fleetlake.cli.alerts.push_setup import set_up_pushes
from fleetlake.cli.alerts.rules import rules
from fleetlake.cli.alerts.watch import watch
from fleetlake.cli.command_group import PlainGroup, joined_paragraphs
from fleetlake.endpoints import ALERTS


class AlertsGroup(PlainGroup):
    """The commands of `fleetlake alerts`, in the order of work."""

    order = ("setup", "watch", "drain", "destinations", "rules")


alerts = typer.Typer(
    cls=AlertsGroup,
    name=ALERTS.name,  # the command is called like what it is about
    help="Have alerts pushed within seconds, manage alert rules and push destinations at the "
    "service, and watch alerts arrive.",
    no_args_is_help=True,
)
alerts.command("setup", help=joined_paragraphs(set_up_pushes.__doc__ or ""))(set_up_pushes)
alerts.command("watch", help=joined_paragraphs(watch.__doc__ or ""))(watch)
alerts.command("drain", help=joined_paragraphs(drain.__doc__ or ""))(drain)
alerts.add_typer(destinations)
alerts.add_typer(rules)
