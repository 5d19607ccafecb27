"""From the start of a process to the first packet that native code has forwarded, for the GLB program.

Run by `bench/pipeline.py` in fresh processes; prints the CPU seconds of each stage as JSON.
"""

from __future__ import annotations

import time

STARTED_S = time.process_time()

import json  # noqa: E402 - the imports are what is measured
import sys  # noqa: E402
from itertools import pairwise  # noqa: E402

from sglb import programs  # noqa: E402
from sglb.p4.compiler import compile as compile_p4  # noqa: E402
from sglb.p4.native.program import compile_native  # noqa: E402
from sglb.p4.random_stream import RandomStream  # noqa: E402
from sglb.switch.clock import VirtualClock  # noqa: E402
from sglb.switch.config import SwitchConfig  # noqa: E402
from sglb.switch.switch import Switch  # noqa: E402


def main() -> None:
    """One first packet, and when what was done."""
    at = [0.0, STARTED_S, time.process_time()]
    program = compile_p4(programs.glb())
    at.append(time.process_time())
    native = compile_native(program.ir)
    at.append(time.process_time())
    clock = VirtualClock()
    switch = Switch(program, SwitchConfig(), clock, rng=RandomStream(0), engine="native")
    switch.add_port(1, None)
    switch.receive(1, bytes(64))
    clock.run()
    at.append(time.process_time())
    if sum(switch.drops.values()) != 1:  # an empty table forwards nothing
        raise RuntimeError("the packet was not processed")
    names = ("python", "imports", "front_end", "native_code", "switch_and_packet")
    stages = dict(zip(names, (b - a for a, b in pairwise(at)), strict=True))
    json.dump({"total": at[-1], "from_cache": native.from_cache, **stages}, sys.stdout)


if __name__ == "__main__":
    main()
