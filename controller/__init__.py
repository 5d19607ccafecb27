"""The fabric controller: groups and capacities from the topology, installed through P4Runtime."""
