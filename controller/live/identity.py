"""What a switch's data plane says of itself."""

from __future__ import annotations

from finsy import P4TableAction, P4TableEntry

from controller.plan import T_SWITCH_INFO
from sglb.switch.p4runtime.client import InProcessClient


def incarnation_of(client: InProcessClient) -> int:
    """The incarnation that a controller gave a switch; 0 when none has. Raises `P4RuntimeError`."""
    for found in client.read(P4TableEntry(T_SWITCH_INFO, is_default_action=True)):
        if isinstance(found, P4TableEntry) and isinstance(found.action, P4TableAction):
            return int(found.action.args.get("incarnation", 0))
    return 0
