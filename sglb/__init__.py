"""Keeps AI training fast on a faulty, congested Ethernet fabric."""
