"""Names of final states that are ours.

Prefect names its events after a state's name, not its type: whoever waits for the end of a run
must list these too, as the files of flows/automations do.
"""

SKIPPED = "Skipped"
"""Completed without work: another run does it."""

ALARM = "Alarm"
"""Failed on purpose: stays red until a person has looked."""
