"""The embedded switch: a P4 program with ports, queues and control-plane state, in virtual or real time.

`Switch` is the whole; `SwitchConfig` what it is built like. A control plane works on `Switch.state`
(tables, profiles, registers …), `Switch.replication` and `Switch.digests`; every refusal is a
`SwitchError` that carries the status code P4Runtime has for it.
"""

from sglb.switch.config import SwitchConfig
from sglb.switch.errors import SwitchError
from sglb.switch.ports import Drop, DropReason
from sglb.switch.switch import Switch

__all__ = ["Drop", "DropReason", "Switch", "SwitchConfig", "SwitchError"]
