"""Serves a switch with kitchen.p4 on the address given, and does what each line of its input says."""

import asyncio
import sys

from p4runtime_kit import DEVICE, kitchen

from sglb.switch.live import LiveSwitch, ServeOptions


async def serve(address):
    loop = asyncio.get_running_loop()
    async with LiveSwitch(
        kitchen(), ServeOptions(grpc=address, ports=(1, 2, 3), device_id=DEVICE)
    ) as live:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while words := (await loop.run_in_executor(None, sys.stdin.readline)).split():
            match words:
                case ["receive", port, data]:
                    live.switch.receive(int(port), bytes.fromhex(data))
                case ["down", port]:
                    live.switch.set_port_state(int(port), False)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
