"""A fabric in virtual time: topology, workloads, faults, hosts, metrics."""
