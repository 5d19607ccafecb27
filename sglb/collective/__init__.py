"""Collectives that survive the network, and what that saves."""
