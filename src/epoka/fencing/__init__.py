"""Every rule that compares generations, epochs or lives, and nothing else.

One rule, one function, one name. A rule is a pure function from what was given and what is known to a
`Verdict`; who asks it, and what follows from it, is the business of the cores. `RULES` lists them all.
"""

from epoka.fencing import control, fetch, heartbeat, isr, leader, registration, registry, reply, shutdown
from epoka.fencing.verdict import ALL_RULES, RULES, Rule, Rules, Verdict

__all__ = [
    "ALL_RULES",
    "RULES",
    "Rule",
    "Rules",
    "Verdict",
    "control",
    "fetch",
    "heartbeat",
    "isr",
    "leader",
    "registration",
    "registry",
    "reply",
    "shutdown",
]
