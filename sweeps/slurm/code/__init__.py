"""The code that jobs run: frozen when a sweep is sent, and compared with its digests."""
