"""Messages about findings, to the places that a project names: each finding once."""
