"""The `epoka` command: noun, then verb. `main.py` knows the words; every module beside it does one job.

Exit codes: 0 good, 1 unhealthy or failed, 2 wrong use.
"""
