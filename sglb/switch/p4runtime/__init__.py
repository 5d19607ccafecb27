"""P4Runtime 1.5 for the embedded switch: one service class, in process or over gRPC."""
