"""The native fabric's hosts and drivers: compiled functions over one block of memory."""
