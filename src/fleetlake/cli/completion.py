"""Shell completion of values, beyond the commands and options that Typer completes."""

from fleetlake.endpoints import requested_endpoints


def endpoint_names(incomplete: str) -> list[str]:
    """Return the endpoints whose names start with what is typed.

    >>> endpoint_names("alert_r")
    ['alert_rules']
    """
    return [e.name for e in requested_endpoints() if e.name.startswith(incomplete)]
