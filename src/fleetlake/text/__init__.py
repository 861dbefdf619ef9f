"""Texts: for people, for SQL, for spreadsheets, and without the secrets they may hold. Pure."""
