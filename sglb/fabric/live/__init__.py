"""Scenarios on real packets: switches, agents and controllers as processes in network namespaces."""
