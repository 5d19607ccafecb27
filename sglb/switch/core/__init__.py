"""The native switch: rows, events, wires, traffic manager and replication over one block of memory."""
