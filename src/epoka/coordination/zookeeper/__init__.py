"""ZooKeeper mode: where generations come from and where cluster state lives when it is not the metadata log.

    paths, znodes   Kafka's layout: where a thing is, and how it is written
    session         one connection to an ensemble; no decisions
    registry        brokers and their generations; one consistent picture of all of them
    election        who is the controller, and the mandate on which each of its writes depends
    writing         records to operations, loading: znodes to records
    state           the port that the controller core appends to
    isr             ISR changes that leaders write themselves, below level `heartbeats`
    identity        the cluster's id
    server, keeper  a real ensemble on this machine, from the jars that PySpark installs

Everything but `server` and `keeper` needs kazoo; nothing here is imported unless the mode is asked for.
"""
