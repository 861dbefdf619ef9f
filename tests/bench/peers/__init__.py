"""Other ways to take the same pages, each a program of its own that shares nothing with fleetlake.

    python -m tests.bench.peers.<name> URL RESOURCE FOLDER

Each walks the list page by page, as one does without windows, and prints what it took as JSON:
its rows, or the bytes of the bodies where it decodes none. One that keeps rows in FOLDER asks on
its next run only for what is newer.
"""
