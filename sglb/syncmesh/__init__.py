"""SyncMesh: the protocol that carries congestion and link state between switches."""
