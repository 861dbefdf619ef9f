"""Shell completion of values, beyond the commands and options that Typer completes."""

from fleetlake.endpoints import ENDPOINTS


def endpoint_names(incomplete: str) -> list[str]:
    """Return the endpoints whose names start with what is typed.

    >>> endpoint_names("alert_r")
    ['alert_rules']
    """
    return [name for name in ENDPOINTS if name.startswith(incomplete)]
