"""Mutated and random requests at a switch over gRPC, without end:

    .venv/bin/python tests/switch/p4runtime/p4runtime_soak.py [--requests 100000] [--seed 1]

`sglb switch` serves kitchen.p4 in a process of its own. Four of ten requests are a mutated update, of
which the whole of the tables is read before and after: an INSERT that was taken adds one entry and
changes no other, a DELETE takes one away, and what was refused changes nothing. The others are batches,
reads, stream messages, pipeline configs and plain random bytes. None may end with INTERNAL, hang or
break the connection, and the process may not grow.
"""

import argparse
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import grpc
from finsy.proto import U128, p4r, p4r_grpc, rpc_status
from mutations import ids_of, mutate
from p4runtime_kit import DEVICE, KITCHEN, Bench, arbitration, table_entry
from test_p4runtime_service import every_kind, prepare

from sglb.switch.p4runtime.status import Code, details_of

TIMEOUT_S = 20
_METHODS = ("Write", "Read", "SetForwardingPipelineConfig", "GetForwardingPipelineConfig")
_OPTIONS = [("grpc.max_metadata_size", 1 << 20)]


class Soak:
    """One client with its samples. `codes` counts how requests ended."""

    def __init__(self, channel, samples, ids, rng):
        self.channel, self.stub = channel, p4r_grpc.P4RuntimeStub(channel)
        self.samples, self.ids, self.rng = samples, ids, rng
        self.codes = Counter()
        self.taken = Counter()

    def update(self):
        update = p4r.Update.FromString(self.rng.choice(self.samples))
        for match in update.entity.table_entry.match:
            if match.HasField("exact") and self.rng.random() < 0.7:  # another entry
                match.exact.value = bytes([self.rng.randrange(16)])
        for _ in range(self.rng.choice((0, 0, 1, 1, 2))):
            mutate(update, self.rng, self.ids)
        return update

    def write(self, *updates):
        """The code of each update."""
        request = p4r.WriteRequest(
            device_id=DEVICE,
            election_id=U128.encode(1),
            updates=updates,
            atomicity=self.rng.choice((0, 1, 2)),
        )
        try:
            self.stub.Write(request, timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            packed = dict(error.trailing_metadata()).get("grpc-status-details-bin")
            if packed is None:
                raise AssertionError(error) from error
            details = details_of(rpc_status.Status.FromString(packed))
            found = [Code(d.canonical_code).name for d in details]
        else:
            found = ["OK"] * len(updates)
        assert len(found) == len(updates)
        assert "INTERNAL" not in found, (found, updates)
        self.codes.update(found)
        return found

    def tables(self):
        """All entries but the default ones, by their keys."""
        request = p4r.ReadRequest(device_id=DEVICE, entities=[table_entry(0)])
        found = {}
        for response in self.stub.Read(request, timeout=TIMEOUT_S):
            for entity in response.entities:
                key = p4r.TableEntry(
                    table_id=entity.table_entry.table_id,
                    match=entity.table_entry.match,
                    priority=entity.table_entry.priority,
                )
                found[key.SerializeToString()] = entity.SerializeToString()
        return found

    def checked_update(self):
        before, update = self.tables(), self.update()
        (code,) = self.write(update)
        after = self.tables()
        gone = before.keys() - after.keys()
        new = after.keys() - before.keys()
        changed = {k for k in before.keys() & after.keys() if before[k] != after[k]}
        is_entry = update.entity.WhichOneof("entity") == "table_entry"
        expected = (0, 0)
        if code == "OK" and is_entry and not update.entity.table_entry.is_default_action:
            expected = {1: (0, 1), 2: (0, 0), 3: (1, 0)}[update.type]
            self.taken[p4r.Update.Type.Name(update.type)] += 1
        assert (len(gone), len(new)) == expected, (code, update)
        allowed = code == "OK" and update.type == p4r.Update.MODIFY and is_entry
        assert len(changed) <= int(allowed), (code, update)

    def batch(self):
        self.write(*(self.update() for _ in range(self.rng.randrange(1, 8))))

    def read(self):
        request = p4r.ReadRequest(
            device_id=DEVICE, entities=[self.update().entity for _ in range(3)]
        )
        self.call(lambda: list(self.stub.Read(request, timeout=TIMEOUT_S)))

    def pipeline(self):
        """A config that is not that of the program, or no config at all: it must not be taken."""
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=DEVICE, election_id=U128.encode(1), action=self.rng.choice((0, 1, 4))
        )
        mutate(request, self.rng, self.ids)
        request.action = self.rng.choice((0, 1, 4))  # to check is enough
        self.call(lambda: self.stub.SetForwardingPipelineConfig(request, timeout=TIMEOUT_S))

    def stream(self):
        messages = [arbitration(0)]
        for _ in range(self.rng.randrange(1, 4)):
            packet = p4r.PacketOut(payload=self.rng.randbytes(self.rng.randrange(80)))
            packet.metadata.add(metadata_id=1, value=b"\x03")
            message = p4r.StreamMessageRequest(packet=packet)
            mutate(message, self.rng, self.ids)
            if not message.HasField("arbitration"):
                messages.append(message)
        self.call(lambda: list(self.stub.StreamChannel(iter(messages), timeout=TIMEOUT_S)))

    def noise(self):
        """Random bytes, or a request of ours with some of its bytes changed."""
        method = self.rng.choice(_METHODS[:2] + _METHODS[3:])
        data = bytearray(self.rng.randbytes(self.rng.randrange(200)))
        if self.rng.random() < 0.7:
            request = p4r.ReadRequest(device_id=DEVICE, entities=[self.update().entity])
            data = bytearray(request.SerializeToString())
            for _ in range(self.rng.randrange(1, 6)):
                data[self.rng.randrange(len(data))] = self.rng.randrange(256)
        kind = self.channel.unary_stream if method == "Read" else self.channel.unary_unary
        rpc = kind(f"/p4.v1.P4Runtime/{method}")
        self.call(lambda: (list if method == "Read" else id)(rpc(bytes(data), timeout=TIMEOUT_S)))

    def call(self, rpc):
        try:
            rpc()
        except grpc.RpcError as error:
            code = error.code()
            if code.name in ("INTERNAL", "UNAVAILABLE", "DEADLINE_EXCEEDED"):
                raise AssertionError(error) from error
            self.codes[code.name] += 1
        else:
            self.codes["OK"] += 1

    def step(self):
        kinds = (self.checked_update, self.batch, self.read, self.stream, self.pipeline, self.noise)
        self.rng.choices(kinds, (40, 20, 15, 10, 5, 10))[0]()


def _rss_kib(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


def soak(requests, seed, tell):
    """Runs it; the codes seen, and how much the server has grown since its first tenth."""
    bench = Bench()
    prepare(bench)
    samples = [update.SerializeToString() for update in every_kind(bench)]
    command = [sys.executable, "-c", "from sglb.cli import main; main()", "switch", str(KITCHEN)]
    command += ["--device-id", str(DEVICE), "--ports", "9", "--grpc", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = server.stdout.readline().split()[2].rstrip(",")
            with grpc.insecure_channel(address, options=_OPTIONS) as channel:
                one = Soak(channel, samples, ids_of(bench.program.p4info), random.Random(seed))
                over = []
                primary = one.stub.StreamChannel(_until(over))
                next(iter(primary))
                early = 0
                for number in range(requests):
                    one.step()
                    if number == requests // 10:
                        early = _rss_kib(server.pid)
                    if number % 10_000 == 9_999:
                        tell(f"{number + 1:,} requests, {_rss_kib(server.pid) / 1024:.0f} MiB")
                grown = _rss_kib(server.pid) / early
                over.append(True)
            server.terminate()
            assert server.wait(30) == 0
        finally:
            server.kill()
    return one.codes, one.taken, grown


def _until(over):
    yield arbitration(1)
    while not over:
        time.sleep(0.1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    def tell(text):
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    codes, taken, grown = soak(options.requests, options.seed, tell)
    tell(f"{dict(codes)} {dict(taken)}, memory x{grown:.3f}")
