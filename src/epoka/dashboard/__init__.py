"""The web page of a cluster: what it is, what it was, what it refused and why.

Reads the controller's metadata and the ledger as an onlooker, and decides nothing. Needs the extra `dashboard`;
only `app.py` and `serving.py` import it, so everything else here works and is tested without.
"""
