"""Watermarks of a SONiC switch: read, compared, written and taken back, through its Redis databases."""
