"""ZooKeeper mode: where generations come from and where cluster state lives when it is not the metadata log.

    connect, session       an ensemble and one session with it; no decisions
    operations, bulk_read  what can be asked of ZooKeeper in one step
    paths, znodes          Kafka's layout: where a thing is, and how it is written
    registry               brokers and their generations; one consistent picture of all of them
    election               who is the controller, and the mandate on which each of its writes depends
    writing, loading       records to operations, and nodes to records
    state                  the port that the controller core appends to
    isr, settings          what leaders write and what brokers read themselves
    identity               the cluster's id
    probe                  what one server says of itself
    server, keeper         a real ensemble on this machine, from the jars that PySpark installs

What talks to an ensemble needs kazoo; nothing here is imported unless the mode is asked for.
"""
