"""The embedded switch: tables, registers, traffic manager, ports, P4Runtime service."""
