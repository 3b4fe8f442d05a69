-------------------------------- MODULE Trace --------------------------------
(***************************************************************************)
(* Does what a controller really did follow the specification? Each of     *)
(* `Runs` is what the simulator saw a controller make durable for one      *)
(* partition, state after state; tests/spec/test_traces.py writes them.    *)
(* Each state must follow from the one before by one decision of           *)
(* `Generations`. If one does not, TLC stands still before the end of that *)
(* run and calls it a deadlock.                                            *)
(***************************************************************************)
EXTENDS Generations, Seen   \* `Seen` has `Runs`, and `Everybody` who appears in them

VARIABLES run, at

Observed == Runs[run]

Here(seen) ==
    /\ partition = seen.partition /\ known = seen.known
    /\ fenced = seen.fenced /\ stopping = seen.stopping

TraceInit ==
    /\ run \in 1..Len(Runs) /\ at = 1
    /\ Here(Observed[1])
    /\ greatest = 0 /\ proposals = {}
    /\ registry = known /\ lastGeneration = 0
    /\ generation = known /\ log = [b \in Brokers |-> <<>>]
    /\ view = [b \in Brokers |-> Nothing] /\ lead = [b \in Brokers |-> NotLeading]
    /\ sweep = [b \in Brokers |-> -1] /\ faults = 0
    /\ lateOrder = Nothing /\ lateFetch = Nothing /\ shutdowns = {}
    /\ acked = {} /\ lossy = {} /\ excused = FALSE /\ granted = {} /\ memberOf = known /\ obeyedStale = FALSE

\* Let go: fenced and stopping at once, when it leads nothing.
Releasing(b) ==
    \E p \in Without({b}, Active \ {b}) : Decide(p, known, fenced \union {b}, stopping \union {b}, greatest)

\* One decision. A proposal may come from anywhere, but it must be one that the rules let through.
Decision ==
    \/ \E b \in Brokers : Unfencing(b) \/ Fencing(b) \/ Stopping(b) \/ Releasing(b)
    \/ Seeing(Observed[at + 1].known)
    \/ \E isr \in SUBSET Active : partition.leader \in isr /\ Accepting(isr)

TraceNext ==
    \/ /\ at < Len(Observed)
       /\ at' = at + 1 /\ UNCHANGED run
       /\ Decision
       /\ partition' = Observed[at'].partition /\ known' = Observed[at'].known
       /\ fenced' = Observed[at'].fenced /\ stopping' = Observed[at'].stopping
       /\ UNCHANGED <<registryVars, brokerVars, sweep, heldUp, historyVars, faults>>
    \/ at = Len(Observed) /\ UNCHANGED <<vars, run, at>>

TraceSpec == TraceInit /\ [][TraceNext]_<<vars, run, at>>
=============================================================================
