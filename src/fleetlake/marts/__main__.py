"""Render the dbt project's source file anew from the endpoint table."""

from fleetlake.marts.catalogue import sources_file, sources_yaml

sources_file().write_text(sources_yaml(), encoding="utf-8")
