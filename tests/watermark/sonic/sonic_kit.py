"""A real Redis with what a SONiC switch of four 100G ports keeps, and a way to it that can break."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import redis

from sglb.watermark.sonic.database import Address, Db

SERVER = shutil.which("redis-server")
PORTS = ("Ethernet0", "Ethernet4", "Ethernet8", "Ethernet12")
PG_PROFILE = "pg_lossless_100000_5m_profile"

CONFIG = {
    "DEVICE_METADATA|localhost": {"hwsku": "ACS-MSN2700", "type": "ToRRouter", "hostname": "leaf0"},
    "CABLE_LENGTH|AZURE": dict.fromkeys(PORTS, "5m"),
    "BUFFER_POOL|ingress_lossless_pool": {"mode": "dynamic", "size": "4580864", "type": "ingress"},
    "BUFFER_POOL|egress_lossless_pool": {"mode": "dynamic", "size": "13945824", "type": "egress"},
    "BUFFER_PROFILE|ingress_lossless_profile": {
        "pool": "ingress_lossless_pool",
        "size": "0",
        "dynamic_th": "7",
    },
    "BUFFER_PROFILE|egress_lossless_profile": {
        "pool": "egress_lossless_pool",
        "size": "0",
        "static_th": "13945824",
    },
    f"BUFFER_PROFILE|{PG_PROFILE}": {
        "pool": "ingress_lossless_pool",
        "size": "91136",
        "xoff": "72704",
        "xon": "18432",
        "dynamic_th": "0",
    },
    "WRED_PROFILE|AZURE_LOSSLESS": {
        "wred_green_enable": "true",
        "wred_yellow_enable": "true",
        "wred_red_enable": "true",
        "ecn": "ecn_all",
        "green_min_threshold": "1048576",
        "green_max_threshold": "2097152",
        "green_drop_probability": "5",
        "yellow_min_threshold": "1048576",
        "yellow_max_threshold": "2097152",
        "yellow_drop_probability": "5",
        "red_min_threshold": "1048576",
        "red_max_threshold": "2097152",
        "red_drop_probability": "5",
    },
    **{
        f"PORT|{name}": {"speed": "100000", "mtu": "9100", "admin_status": "up", "lanes": str(i)}
        for i, name in enumerate(PORTS)
    },
    **{
        f"QUEUE|{name}|{queue}": {"scheduler": "scheduler.1", "wred_profile": "AZURE_LOSSLESS"}
        for name in PORTS
        for queue in (3, 4)
    },
    **{f"QUEUE|{name}|0": {"scheduler": "scheduler.0"} for name in PORTS},
    **{f"BUFFER_PG|{name}|3-4": {"profile": PG_PROFILE} for name in PORTS},
    # As releases before 202111 wrote it.
    **{
        f"BUFFER_QUEUE|{name}|3-4": {"profile": "[BUFFER_PROFILE|egress_lossless_profile]"}
        for name in PORTS
    },
}


def _oid(kind: int, index: int) -> str:
    return f"oid:0x{kind << 48 | index:x}"


PORT_OIDS = {name: _oid(0x1, i + 2) for i, name in enumerate(PORTS)}
QUEUE_OIDS = {f"{n}:{q}": _oid(0x15, 16 * i + q) for i, n in enumerate(PORTS) for q in range(8)}
PG_OIDS = {f"{n}:{q}": _oid(0x1A, 16 * i + q) for i, n in enumerate(PORTS) for q in range(8)}
COUNTERS = {
    "COUNTERS_PORT_NAME_MAP": PORT_OIDS,
    "COUNTERS_QUEUE_NAME_MAP": QUEUE_OIDS,
    "COUNTERS_PG_NAME_MAP": PG_OIDS,
    **{
        f"COUNTERS:{oid}": {
            "SAI_PORT_STAT_IF_IN_OCTETS": "1000",
            "SAI_PORT_STAT_IF_OUT_OCTETS": "2000",
            "SAI_PORT_STAT_PFC_3_RX_PKTS": "7",
            "SAI_PORT_STAT_PFC_4_RX_PKTS": "0",
            "SAI_PORT_STAT_PFC_3_RX_PAUSE_DURATION_US": "N/A",
        }
        for oid in PORT_OIDS.values()
    },
    **{
        f"COUNTERS:{oid}": {
            "SAI_QUEUE_STAT_PACKETS": "10",
            "SAI_QUEUE_STAT_BYTES": "15000",
            "SAI_QUEUE_STAT_DROPPED_PACKETS": "0",
            "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS": "4",
            "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES": "4096",
        }
        for oid in QUEUE_OIDS.values()
    },
    **{
        f"COUNTERS:{oid}": {
            "SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES": "2048",
            "SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_BYTES": "0",
            "SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS": "0",
        }
        for oid in PG_OIDS.values()
    },
}


class Redis:
    """One server on a Unix socket, filled as a switch's."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "redis.sock"
        assert SERVER is not None
        self._process = subprocess.Popen(
            [
                *(SERVER, "--port", "0", "--unixsocket", str(self.socket), "--dir", str(folder)),
                *("--save", "", "--appendonly", "no", "--databases", "16"),
            ],
            stdout=subprocess.DEVNULL,
        )
        self.address = Address(unix=str(self.socket))
        self.config = self.client(Db.CONFIG)
        self.counters = self.client(Db.COUNTERS)
        self.state = self.client(Db.STATE)
        self._wait()
        self.fill()

    def client(self, db: Db) -> redis.Redis:
        return redis.Redis(unix_socket_path=str(self.socket), db=int(db), decode_responses=True)

    def _wait(self) -> None:
        for _ in range(200):
            with suppress(redis.ConnectionError):
                self.config.ping()
                return
            time.sleep(0.02)
        raise AssertionError("redis-server did not start")

    def fill(self) -> None:
        self.config.flushall()
        for client, content in ((self.config, CONFIG), (self.counters, COUNTERS)):
            pipe = client.pipeline()
            for key, fields in content.items():
                pipe.hset(key, mapping=fields)
            pipe.execute()

    def snapshot(self) -> dict[str, dict[str, str]]:
        """All of CONFIG_DB."""
        return {key: self.config.hgetall(key) for key in sorted(self.config.keys("*"))}

    def stop(self) -> None:
        for client in (self.config, self.counters, self.state):
            client.close()
        self._process.terminate()
        self._process.wait(timeout=10)


@contextmanager
def proxy(target: Path, on_request: Callable[[bytes], str]) -> Iterator[Address]:
    """A TCP way to a Unix socket. `on_request` says of each chunk: pass, drop (it, and the connection)
    or mute (pass it on, and lose the answer with the connection)."""
    listener = socket.create_server(("127.0.0.1", 0))
    stopping = threading.Event()
    threads: list[threading.Thread] = []

    def serve(client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(str(target))
            client.settimeout(0.05)
            while not stopping.is_set():
                try:
                    data = client.recv(1 << 16)
                except TimeoutError:
                    continue
                except OSError:
                    return
                verdict = on_request(data) if data else "drop"
                if verdict == "drop":
                    return
                server.sendall(data)
                answer = server.recv(1 << 20)
                if verdict == "mute":
                    return
                with suppress(OSError):
                    client.sendall(answer)

    def accept() -> None:
        while not stopping.is_set():
            try:
                client, _ = listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            thread = threading.Thread(target=serve, args=(client,))
            thread.start()
            threads.append(thread)

    listener.settimeout(0.05)
    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield Address(host="127.0.0.1", port=listener.getsockname()[1])
    finally:
        stopping.set()
        acceptor.join()
        for thread in threads:
            thread.join()
        listener.close()
