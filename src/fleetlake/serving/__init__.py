"""Parts of a web server: its socket, its end, limits of connections, the names it answers to."""
