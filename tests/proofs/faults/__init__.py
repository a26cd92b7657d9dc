"""`make faults`: causes each fault that an operator meets, under load, and records what it did and what was said of it.

clients        write and read all the time, and know what was acknowledged
stage          the replicas, and the servers and balancers around them
faults         each fault: how it is caused, and what everybody is expected to say
diagnosis      what the probes, the alerts, `doctor` and the log said, and what differs from the expectation
table          runs the faults, and writes the table in docs/reliability.md
"""
