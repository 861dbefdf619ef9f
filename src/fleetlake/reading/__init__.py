"""What to ask the service next: cursors, windows, pages, and several walks at a time."""
