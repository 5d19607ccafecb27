"""A process that moves a switch's counters as its watermarks have it, from `python traffic.py SOCKET`.

A queue stands at Kmin. Below 200 KB links run half empty; above 700 KB peers are paused for a third of
the time.
"""

from __future__ import annotations

import sys
import time

import redis
from sonic_kit import PORT_OIDS, PORTS, QUEUE_OIDS

BYTES_PER_S = 100e9 / 8
STEP_S = 0.005


def main(path: str) -> None:
    config = redis.Redis(unix_socket_path=path, db=4, decode_responses=True)
    counters = redis.Redis(unix_socket_path=path, db=2)
    last = time.monotonic()
    while True:
        time.sleep(STEP_S)
        now = time.monotonic()
        span_s, last = now - last, now
        kmin = int(config.hget("WRED_PROFILE|AZURE_LOSSLESS", "green_min_threshold") or 0)
        sent = round(BYTES_PER_S * span_s * (0.5 if kmin < 200_000 else 1.0))
        pipe = counters.pipeline()
        for port in PORTS[:2]:
            queue = f"COUNTERS:{QUEUE_OIDS[port + ':3']}"
            pipe.hincrby(queue, "SAI_QUEUE_STAT_BYTES", sent)
            pipe.hset(queue, "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES", kmin)
            counted = f"COUNTERS:{PORT_OIDS[port]}"
            pipe.hincrby(counted, "SAI_PORT_STAT_IF_OUT_OCTETS", sent)
            pipe.hincrby(counted, "SAI_PORT_STAT_IF_OUT_UCAST_PKTS", sent // 1_024)
            paused_us = round(span_s * 1e6 / 3) if kmin > 700_000 else 0
            pipe.hincrby(counted, "SAI_PORT_STAT_PFC_3_RX_PAUSE_DURATION_US", paused_us)
        pipe.execute()


if __name__ == "__main__":
    main(sys.argv[1])
