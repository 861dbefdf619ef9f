"""Programs for developers: rendering, recording, measuring. `make help` lists them."""
