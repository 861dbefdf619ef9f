"""Final states that fleetlake adds to Prefect's own.

Prefect names its events after a state's name, not its type. An automation that waits for the
end of a run must therefore list these states too, as those in flows/automations do.
"""

SKIPPED = "Skipped"
"""Completed without doing any work, because another run does it."""

ALARM = "Alarm"
"""Failed on purpose, so that the run stays red until a person looks at it."""
