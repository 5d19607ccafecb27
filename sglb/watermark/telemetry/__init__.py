"""What switches report of their queues: on change, with a deadband, one message a switch and time."""
