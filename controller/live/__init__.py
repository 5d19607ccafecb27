"""Agents and controllers as processes over switches that are processes."""
