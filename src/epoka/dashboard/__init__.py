"""The web page of a cluster: what it is, what it was, what it refused and why.

Reads the controller's metadata and the ledger as an onlooker, and decides nothing. Only `app.py` and
`serving.py` need the extra `dashboard`; everything else here works and is tested without.
"""
