"""Watermarks of RoCEv2 switches: a fluid model of DCQCN with ECN and PFC, and the space to search."""
