"""The native switch on Linux interfaces: packet sockets, real time, netlink (see `loop`)."""
