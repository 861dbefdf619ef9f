"""Text for people, SQL and spreadsheets, and text with its secrets removed. Pure."""
