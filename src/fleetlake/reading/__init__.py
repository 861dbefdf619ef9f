"""What to ask the service next: cursors, windows, pages, and concurrent walks."""
