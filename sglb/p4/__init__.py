"""P4_16 for the v1model architecture: source -> typed IR -> P4Info, and the reference interpreter."""
