"""How the columns of the raw tables change: drift, promotion, releases, the lake's format."""
