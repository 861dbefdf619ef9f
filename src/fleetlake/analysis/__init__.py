"""Reading a lake from Python: tables and queries as Polars, Arrow or pandas."""
