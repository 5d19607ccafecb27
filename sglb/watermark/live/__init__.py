"""Watermarks of live switches: set while packets run, tuned by what the switches report."""
