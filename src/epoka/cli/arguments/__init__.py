"""What each command takes: one light module a first word. See `commands.py` for what may be imported here."""
