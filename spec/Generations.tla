----------------------------- MODULE Generations -----------------------------
(***************************************************************************)
(* One partition, its replicas, the registry and the controller: what      *)
(* generations, ISR changes and bounces may do to each other.              *)
(*                                                                         *)
(* It follows `src/epoka/fencing`, `controller` and `broker` at the top    *)
(* level. A rule is named as in `fencing/`; the constant `Off` switches    *)
(* rules off, and TLC then finds the harm that the rule prevents.          *)
(*                                                                         *)
(* Time is left out: whatever a timeout could bring about may happen at    *)
(* any moment. So are disks that tear: a crash keeps a prefix of the log.  *)
(* Messages may be late, lost and overtaken. Nothing a broker hears in one *)
(* life is known to its next one, except its log.                          *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
    Brokers,        \* who holds a replica, all of them in the ISR at first
    None,           \* no leader
    MinIsr,         \* records are acknowledged only while the ISR has this many members
    Shared,         \* TRUE: orders carry the maximum generation; FALSE: the receiver's own (KIP-380)
    MaxRecords, MaxFaults,   \* where exploring ends
    Off             \* the rules that are switched off

VARIABLES
    \* The registry (ZooKeeper's role): who is registered with which generation, 0 for nobody.
    registry, lastGeneration,
    \* Brokers. generation 0: the process is down, or up and not registered. view: the order it obeys,
    \* Nothing before the first.
    generation, log, view, lead,
    \* The controller's state, all of it durable: generations it knows, who is fenced or stopping, the
    \* partition, and the greatest generation in its last picture of the registry.
    known, fenced, stopping, partition, greatest,
    sweep,          \* a picture half taken; used only when "registry.snapshot" is off
    \* Messages under way. What the controller thinks now may reach anybody at any time; one order and one
    \* fetch of any moment may be held up and arrive much later.
    lateOrder, lateFetch, proposals, shutdowns,
    \* What really happened, for the invariants alone. No rule looks at these.
    acked,          \* <<offset, epoch>> of every record that was acknowledged
    lossy,          \* brokers that lost records in a crash and were not added to the ISR since
    excused,        \* the last replica standing was one of them: KIP-903's stated exception
    granted,        \* generations whose controlled shutdown was granted
    memberOf,       \* the generation in which a broker became a member of the ISR
    faults,         \* how many things have gone wrong
    obeyedStale     \* somebody obeyed an order or a request of a life that is over

registryVars   == <<registry, lastGeneration>>
brokerVars     == <<generation, log, view, lead>>
controllerVars == <<known, fenced, stopping, partition, greatest, sweep>>
messageVars    == <<lateOrder, lateFetch, proposals, shutdowns>>
heldUp         == <<lateOrder, lateFetch, shutdowns>>
historyVars    == <<acked, lossy, excused, granted, memberOf, obeyedStale>>
vars == <<registryVars, brokerVars, controllerVars, messageVars, historyVars, faults>>

On(rule) == rule \notin Off
Max(S) == CHOOSE x \in S : \A y \in S : y <= x
Min(S) == CHOOSE x \in S : \A y \in S : x <= y
Prefix(s, n) == SubSeq(s, 1, n)
Common(s, t) == Max({n \in 0..Min({Len(s), Len(t)}) : Prefix(s, n) = Prefix(t, n)})

Active == {b \in Brokers : known[b] # 0 /\ b \notin fenced \union stopping}

(***************************************************************************)
(* What the controller says: the partition and what it knows of everybody, *)
(* one order for all.                                                      *)
(***************************************************************************)
Nothing == [about |-> "nothing"]
Order == [partition |-> partition, generations |-> known, active |-> Active, greatest |-> greatest]
Kept(order) == [partition |-> order.partition, generations |-> order.generations, active |-> order.active]

\* A proposal for another state of the partition than the present one can only be refused: it is dropped.
Decide(p, newKnown, newFenced, newStopping, newGreatest) ==
    /\ partition' = p
    /\ known' = newKnown
    /\ fenced' = newFenced
    /\ stopping' = newStopping
    /\ greatest' = newGreatest
    /\ proposals' = {m \in proposals : m.epoch = p.epoch \/ ~On("isr.partition-epoch")}

HoldUpOrder ==
    /\ lateOrder = Nothing
    /\ lateOrder' = Order
    /\ UNCHANGED <<registryVars, brokerVars, controllerVars, lateFetch, proposals, shutdowns, historyVars>>

\* The last replica standing keeps its place whatever became of its disk. That is excused, not hidden.
Excuse(isr, lost) == excused' = (excused \/ isr \subseteq lost)

\* What may become of the partition when `gone` leave it: the last member stays, without leadership.
Without(gone, mayLead) ==
    LET p == partition
        isrs == IF p.isr \subseteq gone THEN {{b} : b \in p.isr} ELSE {p.isr \ gone}
        leaders(isr) ==
            LET candidates == isr \intersect mayLead
            IN IF p.leader \in candidates THEN {p.leader}
               ELSE IF candidates = {} THEN {None} ELSE candidates
        next(isr, leader) ==
            [leader |-> leader, isr |-> isr,
             leaderEpoch |-> IF leader # p.leader /\ On("leader.epoch") THEN p.leaderEpoch + 1
                             ELSE p.leaderEpoch,
             epoch |-> IF leader # p.leader \/ isr # p.isr THEN p.epoch + 1 ELSE p.epoch]
    IN UNION {{next(isr, leader) : leader \in leaders(isr)} : isr \in isrs}

(***************************************************************************)
(* The registry. A generation is never given twice and always grows.       *)
(***************************************************************************)
Register(b) ==
    /\ generation[b] = 0
    /\ lastGeneration' = lastGeneration + 1
    /\ registry' = [registry EXCEPT ![b] = lastGeneration + 1]
    /\ generation' = [generation EXCEPT ![b] = lastGeneration + 1]
    /\ UNCHANGED <<log, view, lead, controllerVars, messageVars, historyVars>>

SessionEnds(b) ==
    /\ generation[b] = 0 /\ registry[b] # 0
    /\ registry' = [registry EXCEPT ![b] = 0]
    /\ UNCHANGED <<lastGeneration, brokerVars, controllerVars, messageVars, historyVars>>

(***************************************************************************)
(* Brokers: crashes, orders, replication.                                  *)
(***************************************************************************)
NotLeading == [start |-> 0, highWatermark |-> 0, pending |-> {},
               fetched |-> [b \in Brokers |-> [generation |-> 0, offset |-> 0]]]
Obeys(b) == view[b].partition
Leads(b) == view[b] # Nothing /\ Obeys(b).leader = b

\* The budget: at most MinIsr - 1 replicas have lost records at a time.
Crash(b) == \E kept \in 0..Len(log[b]) :
    LET lost == IF kept < Len(log[b]) THEN lossy \union {b} ELSE lossy IN
    /\ generation[b] # 0
    /\ kept < Len(log[b]) => Cardinality(lost) <= MinIsr - 1
    /\ generation' = [generation EXCEPT ![b] = 0]
    /\ view' = [view EXCEPT ![b] = Nothing]
    /\ lead' = [lead EXCEPT ![b] = NotLeading]
    /\ log' = [log EXCEPT ![b] = Prefix(log[b], kept)]
    /\ lossy' = lost
    /\ Excuse(partition.isr, lost)
    /\ UNCHANGED <<registryVars, controllerVars, messageVars, acked, granted, memberOf, obeyedStale>>

\* The high watermark is the least offset in the ISR and whoever is about to join it or to leave it.
Advanced(b, state, theLog, p) ==
    LET counted == IF On("ack.maximal-isr") THEN p.isr \union state.pending ELSE p.isr
        end(r) == IF r = b THEN Len(theLog) ELSE state.fetched[r].offset
        least == Min({end(r) : r \in counted})
    IN IF Cardinality(p.isr) < MinIsr THEN state.highWatermark ELSE Max({state.highWatermark, least})
Acknowledge(b, theLog, to) == acked' = acked \union {<<n, theLog[n]>> : n \in 1..to}

\* LeaderAndIsr and UpdateMetadata in one. Whatever is older than what is known is not taken back.
Obey(b, order) ==
    LET carried == IF Shared THEN order.greatest ELSE order.generations[b]
        rule == IF Shared THEN "control.max-generation" ELSE "control.generation"
        goesOn == Leads(b) /\ Obeys(b).leaderEpoch = order.partition.leaderEpoch
        state == IF order.partition.leader # b THEN NotLeading
                 ELSE IF ~goesOn THEN [NotLeading EXCEPT !.start = Len(log[b])]
                 ELSE IF order.partition.epoch > Obeys(b).epoch THEN [lead[b] EXCEPT !.pending = {}]
                 ELSE lead[b]
        to == IF order.partition.leader = b THEN Advanced(b, state, log[b], order.partition) ELSE 0
    IN
    \* A life that is not registered yet has nothing to compare with: it waits ("control.early").
    /\ generation[b] # 0 \/ ~On("control.early")
    /\ view[b] # Nothing /\ order # Order => order.partition.epoch > Obeys(b).epoch
    /\ order.generations[b] # 0         \* nothing is sent to whom the controller does not know
    /\ On(rule) => carried >= generation[b]
    /\ view' = [view EXCEPT ![b] = Kept(order)]
    /\ lead' = [lead EXCEPT ![b] = [state EXCEPT !.highWatermark = to]]
    /\ Acknowledge(b, log[b], to)
    /\ obeyedStale' = (obeyedStale \/ order.generations[b] < generation[b])
    /\ UNCHANGED <<registryVars, generation, log, controllerVars, messageVars, lossy, excused, granted, memberOf>>

Produce(b) ==
    /\ Leads(b) /\ Len(log[b]) < MaxRecords
    /\ log' = [log EXCEPT ![b] = Append(@, Obeys(b).leaderEpoch)]
    /\ UNCHANGED <<registryVars, generation, view, lead, controllerVars, messageVars, historyVars>>

\* A follower asks for what comes after its log. The answer arrives at once, or nowhere if it has moved on.
FetchOf(b) == [from |-> b, generation |-> generation[b], to |-> Obeys(b).leader,
               leaderEpoch |-> Obeys(b).leaderEpoch, offset |-> Len(log[b]),
               last |-> IF log[b] = <<>> THEN 0 ELSE log[b][Len(log[b])]]
Follows(b) == view[b] # Nothing /\ Obeys(b).leader \notin {b, None}

HoldUpFetch(b) ==
    /\ Follows(b) /\ lateFetch = Nothing
    /\ lateFetch' = FetchOf(b)
    /\ UNCHANGED <<registryVars, brokerVars, controllerVars, lateOrder, proposals, shutdowns, historyVars>>

HandleFetch(fetch) ==
    LET b == fetch.to
        f == fetch.from
        stale == On("fetch.generation") /\ f \in view[b].active
                 /\ fetch.generation < view[b].generations[f]
        agrees == fetch.offset = 0 \/ (fetch.offset <= Len(log[b]) /\ log[b][fetch.offset] = fetch.last)
        waits == Follows(f) /\ fetch = FetchOf(f)
        state == [lead[b] EXCEPT !.fetched[f] = [generation |-> fetch.generation, offset |-> fetch.offset]]
        to == Advanced(b, state, log[b], Obeys(b))
    IN
    /\ Leads(b) /\ Obeys(b).leaderEpoch = fetch.leaderEpoch
    /\ ~stale
    /\ IF ~agrees
       THEN /\ log' = IF waits THEN [log EXCEPT ![f] = Prefix(log[f], Common(log[f], log[b]))] ELSE log
            /\ UNCHANGED <<lead, acked>>
       ELSE /\ log' = IF waits THEN [log EXCEPT ![f] = log[b]] ELSE log
            /\ lead' = [lead EXCEPT ![b] = [state EXCEPT !.highWatermark = to]]
            /\ Acknowledge(b, log[b], to)
    /\ UNCHANGED <<registryVars, generation, view, controllerVars, messageVars,
                   lossy, excused, granted, memberOf, obeyedStale>>

(***************************************************************************)
(* The leader proposes an ISR and counts whoever it concerns until it has  *)
(* heard what became of it.                                                *)
(***************************************************************************)
Propose(b, isr) ==
    LET told(m) == IF m = b THEN generation[b]
                   ELSE IF On("isr.fetched-generation") THEN lead[b].fetched[m].generation
                   ELSE view[b].generations[m]
    IN
    /\ proposals' = proposals \union
           {[from |-> b, generation |-> generation[b], leaderEpoch |-> Obeys(b).leaderEpoch,
             epoch |-> Obeys(b).epoch, isr |-> isr, generations |-> [m \in isr |-> told(m)]]}
    /\ lead' = [lead EXCEPT ![b].pending = isr]
    /\ UNCHANGED <<registryVars, generation, log, view, controllerVars, lateOrder, lateFetch, shutdowns, historyVars>>

ProposeToAdd(b, f) ==
    /\ Leads(b) /\ lead[b].pending = {} /\ f \notin Obeys(b).isr
    /\ lead[b].fetched[f].generation # 0
    /\ lead[b].fetched[f].offset >= Max({lead[b].highWatermark, lead[b].start})
    /\ On("isr.eligible") => f \in view[b].active
    /\ On("isr.fetched-generation") =>
           lead[b].fetched[f].generation = view[b].generations[f]
    /\ Propose(b, Obeys(b).isr \union {f})

ProposeToRemove(b, f) ==
    /\ Leads(b) /\ lead[b].pending = {} /\ f \in Obeys(b).isr \ {b}
    /\ Propose(b, Obeys(b).isr \ {f})

Accepting(isr) ==
    Decide([partition EXCEPT !.isr = isr, !.epoch = @ + 1], known, fenced, stopping, greatest)

HandleProposal(m) ==
    LET refused ==
            \/ On("requester.generation") /\ m.generation # known[m.from]
            \/ On("isr.leader-epoch") /\ (m.leaderEpoch # partition.leaderEpoch \/ m.from # partition.leader)
            \/ On("isr.partition-epoch") /\ m.epoch # partition.epoch
            \/ On("isr.eligible") /\ ~(m.isr \subseteq Active)
            \/ On("isr.generation") /\ \E r \in m.isr :
                  ~(m.generations[r] = known[r] \/ (m.generations[r] = 0 /\ r \in partition.isr))
        reverts == generation[m.from] = m.generation /\ Leads(m.from) /\ Obeys(m.from).epoch = m.epoch
                   /\ Obeys(m.from).leaderEpoch = m.leaderEpoch
        added == m.isr \ partition.isr
    IN
    /\ IF refused
       THEN /\ proposals' = proposals \ {m}
            /\ lead' = IF reverts THEN [lead EXCEPT ![m.from].pending = {}] ELSE lead
            /\ UNCHANGED <<known, fenced, stopping, partition, greatest, lossy, excused, memberOf>>
       ELSE /\ Accepting(m.isr)
            /\ lossy' = lossy \ added
            /\ Excuse(m.isr, lossy \ added)
            /\ memberOf' = [r \in Brokers |-> IF r \in added THEN m.generations[r] ELSE memberOf[r]]
            /\ UNCHANGED lead
    /\ UNCHANGED <<registryVars, generation, log, view, sweep, lateOrder, lateFetch, shutdowns,
                   acked, granted, obeyedStale>>

(***************************************************************************)
(* The controller: the registry, heartbeats, shutdowns, failover.          *)
(***************************************************************************)
\* Same id, higher generation: the end of one life, then the beginning of another (registry.bounce).
Seeing(picture) ==
    LET changed == {b \in Brokers : picture[b] # known[b]}
        over == {b \in changed : known[b] # 0 /\ (On("registry.bounce") \/ picture[b] = 0)}
        begun == {b \in changed : picture[b] # 0 /\ (known[b] = 0 \/ b \in over)}
    IN \E p \in Without(over, Active \ over) :
        Decide(p, picture, (fenced \ changed) \union begun, stopping \ (over \union begun),
               Max({picture[b] : b \in Brokers}))

ReadRegistry ==
    /\ On("registry.snapshot")
    /\ registry # known \/ greatest # Max({registry[b] : b \in Brokers})
    /\ Seeing(registry)
    /\ Excuse(partition'.isr, lossy)
    /\ UNCHANGED <<registryVars, brokerVars, sweep, heldUp, acked, lossy, granted, memberOf,
                   obeyedStale>>

\* Without a picture of one moment: one broker after the other is read.
ReadOne(b) ==
    /\ ~On("registry.snapshot") /\ sweep[b] = -1
    /\ sweep' = [sweep EXCEPT ![b] = registry[b]]
    /\ UNCHANGED <<registryVars, brokerVars, known, fenced, stopping, partition, greatest,
                   messageVars, historyVars>>
EndSweep ==
    /\ ~On("registry.snapshot") /\ \A b \in Brokers : sweep[b] # -1
    /\ Seeing(sweep)
    /\ Excuse(partition'.isr, lossy)
    /\ sweep' = [b \in Brokers |-> -1]
    /\ UNCHANGED <<registryVars, brokerVars, heldUp, acked, lossy, granted, memberOf,
                   obeyedStale>>

\* A heartbeat brings a higher generation before the registry does: a bounce like any other (KIP-343).
Adopt(b) ==
    LET bounces == On("heartbeat.bounce")
        gone == IF bounces THEN {b} ELSE {}
    IN
    /\ known[b] # 0 /\ generation[b] > known[b]
    /\ \E p \in Without(gone, Active \ gone) :
        /\ Decide(p, [known EXCEPT ![b] = generation[b]],
                  IF bounces THEN fenced \union {b} ELSE fenced, stopping \ gone,
                  IF On("greatest.picture") THEN greatest ELSE Max({greatest, generation[b]}))
        /\ Excuse(p.isr, lossy)
    /\ UNCHANGED <<registryVars, brokerVars, sweep, heldUp, acked, lossy, granted, memberOf,
                   obeyedStale>>

\* A heartbeat of the life that is known. The last replica standing leads again.
Unfencing(b) ==
    LET p == IF partition.leader = None /\ b \in partition.isr
             THEN [partition EXCEPT !.leader = b, !.leaderEpoch = @ + 1, !.epoch = @ + 1]
             ELSE partition
    IN
    /\ b \in fenced /\ b \notin stopping
    /\ Decide(p, known, fenced \ {b}, stopping, greatest)
Unfence(b) ==
    /\ generation[b] # 0 /\ generation[b] = known[b]
    /\ Unfencing(b)
    /\ memberOf' = IF partition'.leader # partition.leader THEN [memberOf EXCEPT ![b] = known[b]] ELSE memberOf
    /\ UNCHANGED <<registryVars, brokerVars, sweep, heldUp, acked, lossy, excused, granted,
                   obeyedStale>>

\* Silence, or what looked like it.
Fencing(b) ==
    \E p \in Without({b}, Active \ {b}) : Decide(p, known, fenced \union {b}, stopping, greatest)
Fence(b) ==
    /\ b \in Active
    /\ Fencing(b)
    /\ Excuse(partition'.isr, lossy)
    /\ UNCHANGED <<registryVars, brokerVars, sweep, heldUp, acked, lossy, granted, memberOf,
                   obeyedStale>>

AskToStop(b) ==
    /\ generation[b] # 0
    /\ shutdowns' = shutdowns \union {[from |-> b, generation |-> generation[b]]}
    /\ UNCHANGED <<registryVars, brokerVars, controllerVars, lateOrder, lateFetch, proposals, historyVars>>

Stopping(b) ==
    \E p \in Without({b}, Active \ {b}) : Decide(p, known, fenced, stopping \union {b}, greatest)

\* A request to stop is repeated until it is answered, so it may arrive again at any time.
HandleStop(m) ==
    /\ known[m.from] # 0 /\ m.from \notin stopping
    /\ On("shutdown.generation") => m.generation = known[m.from]
    /\ Stopping(m.from)
    /\ Excuse(partition'.isr, lossy)
    /\ granted' = granted \union {known[m.from]}
    /\ obeyedStale' = (obeyedStale \/ m.generation # known[m.from])
    /\ UNCHANGED <<registryVars, brokerVars, sweep, heldUp, acked, lossy, memberOf>>

\* The next controller finds what is durable and begins with a picture of the registry.
Failover ==
    LET remembered == IF On("shutdown.persisted") THEN stopping ELSE {} IN
    /\ IF On("generation.persisted") THEN Decide(partition, known, fenced, remembered, greatest)
       ELSE Decide(partition, registry, {}, remembered, Max({registry[b] : b \in Brokers}))
    /\ UNCHANGED <<registryVars, brokerVars, sweep, heldUp, historyVars>>

(***************************************************************************)
(* All of it.                                                              *)
(***************************************************************************)
Init == \E numbers \in [Brokers -> 1..Cardinality(Brokers)], leader \in Brokers :
    LET first == [leader |-> leader, isr |-> Brokers, leaderEpoch |-> 1, epoch |-> 1] IN
    /\ \A a, b \in Brokers : a # b => numbers[a] # numbers[b]
    /\ registry = numbers /\ lastGeneration = Cardinality(Brokers)
    /\ generation = numbers /\ known = numbers /\ memberOf = numbers
    /\ greatest = lastGeneration
    /\ log = [b \in Brokers |-> <<>>]
    /\ lead = [b \in Brokers |-> NotLeading]
    /\ fenced = {} /\ stopping = {} /\ partition = first
    /\ view = [b \in Brokers |-> [partition |-> first, generations |-> numbers, active |-> Brokers]]
    /\ sweep = [b \in Brokers |-> -1] /\ faults = 0
    /\ lateOrder = Nothing /\ lateFetch = Nothing /\ proposals = {} /\ shutdowns = {}
    /\ acked = {} /\ lossy = {} /\ excused = FALSE /\ granted = {} /\ obeyedStale = FALSE

\* What goes wrong is counted, what goes on is not.
Fault ==
    \/ \E b \in Brokers : Crash(b) \/ SessionEnds(b) \/ Fence(b) \/ AskToStop(b) \/ HoldUpFetch(b)
    \/ \E b, f \in Brokers : ProposeToRemove(b, f)
    \/ HoldUpOrder \/ Failover
GoOn ==
    \/ \E b \in Brokers : \/ Register(b) \/ Adopt(b) \/ Unfence(b) \/ ReadOne(b) \/ Produce(b)
                          \/ Obey(b, Order) \/ (lateOrder # Nothing /\ Obey(b, lateOrder))
                          \/ (Follows(b) /\ HandleFetch(FetchOf(b)))
    \/ \E b, f \in Brokers : ProposeToAdd(b, f)
    \/ lateFetch # Nothing /\ HandleFetch(lateFetch)
    \/ \E m \in proposals : HandleProposal(m)
    \/ \E m \in shutdowns : HandleStop(m)
    \/ ReadRegistry \/ EndSweep

Next == \/ Fault /\ faults < MaxFaults /\ faults' = faults + 1
        \/ GoOn /\ UNCHANGED faults

Spec == Init /\ [][Next]_vars

\* After an excused loss nothing more can be said.
Within == ~excused
Symmetry == Permutations(Brokers)

(***************************************************************************)
(* What must hold.                                                         *)
(***************************************************************************)
\* Every member of the ISR that lives the life the controller knows has every acknowledged record.
NoAckedRecordLost ==
    excused \/ \A b \in partition.isr :
        generation[b] # 0 /\ generation[b] = known[b] =>
            \A record \in acked : record[1] <= Len(log[b]) /\ log[b][record[1]] = record[2]

\* No fenced or stopping member, except the last one, which has no leadership then.
NoIneligibleMember ==
    \A b \in partition.isr : Cardinality(partition.isr) > 1 \/ partition.leader = b =>
        known[b] # 0 /\ b \notin fenced /\ known[b] \notin granted

\* No member that was let in, or kept, for a life that is over, except the last one.
NoStaleMember ==
    \A b \in partition.isr : Cardinality(partition.isr) > 1 => memberOf[b] = known[b]

OneLeaderAnEpoch ==
    \A a, b \in Brokers : Leads(a) /\ Leads(b) /\ Obeys(a).leaderEpoch = Obeys(b).leaderEpoch => a = b

NoStaleOrderObeyed == ~obeyedStale

LeaderIsMember == partition.leader = None \/ partition.leader \in partition.isr
=============================================================================
