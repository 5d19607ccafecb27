"""`sglb switch` on veth between namespaces, with real packets."""

import asyncio
import random
import signal
import socket
import struct
import subprocess
import threading
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import finsy as fy
import pytest
from finsy import GNMIClient, GNMIPath
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw
from wire_kit import SGLB, frames, lab, run, silent, why_not

from sglb.p4.compiler import compile as compile_p4
from sglb.switch.clock import PS_PER_MS
from sglb.switch.config import SwitchConfig
from sglb.switch.live import LiveSwitch, ServeOptions
from sglb.switch.p4runtime.client import Atomicity, InProcessClient
from sglb.switch.p4runtime.status import P4RuntimeError
from sglb.switch.pcap import read_pcap
from sglb.switch.pktgen import TimerApp
from sglb.switch.ports import DropReason
from sglb.switch.wire.port import InterfacePort

pytestmark = [pytest.mark.live, pytest.mark.skipif(bool(why_not()), reason=why_not())]

PROGRAM = Path(__file__).with_name("wire.p4")


def start(net, *extra):
    ports = [f"--port={n}:{net.port(n)}" for n in net.hosts]
    return net.switch(str(PROGRAM), *ports, "--grpc=127.0.0.1:0", *extra)


def to(port, payload=b"", **fields):
    """A frame that the program sends to a port: its destination address names it."""
    return bytes(
        Ether(
            dst=f"04:00:00:00:{port >> 8:02x}:{port & 255:02x}", src="02:00:00:00:00:aa", **fields
        )
        / payload
    )


def plain(port, size=60, mark=0):
    return to(port, Raw(bytes([mark]) * (size - 14)), type=0x9000)


@pytest.fixture(scope="module")
def pair():
    with lab(2) as net:
        start(net)
        yield net


def test_frames_of_all_lengths_come_out_as_they_went_in(pair):
    one, two = pair.wire(1), pair.wire(2)
    sent = [plain(2, size, size % 251) for size in (14, 15, 60, 61, 1500, 1513, 1514)]
    for frame in sent:
        one.send(frame)
    assert frames(two, len(sent)) == sent
    assert silent(one)  # none comes back to its sender
    two.send(plain(1))
    assert frames(one, 1) == [plain(1)]


def test_long_frames_find_room_beside_their_row():
    with lab(2) as net:
        for number in (1, 2):
            run("ip", "-n", net.hosts[number], "link", "set", "eth0", "mtu", "9000")
            run("ip", "link", "set", net.port(number), "mtu", "9000")
        start(net)
        one, two = net.wire(1), net.wire(2)
        sent = [plain(2, size, 7) for size in (1599, 1600, 1601, 1602, 1700, 4000, 9014)]
        for frame in sent * 3:
            one.send(frame)
        assert frames(two, len(sent) * 3) == sent * 3


def test_a_tag_stays_where_it_was(pair):
    one, two = pair.wire(1), pair.wire(2)
    tagged = bytes(Ether(dst="04:00:00:00:00:02", src="02:00:00:00:00:aa") / Dot1Q(vlan=42, prio=5))
    tagged += b"inside a tagged frame"
    one.send(tagged)
    # The far end's kernel takes the tag out again; it is told beside the frame.
    two.setsockopt(263, 8, 1)
    frame, ancillary, *_ = two.recvmsg(2000, 200)
    (_, _, data), *_ = ancillary
    status, _, _, _, _, tci, tpid = struct.unpack("IIIHHHH", data)
    assert status & 0x10
    assert (tci, tpid) == (5 << 13 | 42, 0x8100)
    assert frame == tagged[:12] + tagged[16:]


def test_random_frames_with_random_orders_leave_it_standing(pair):
    """Also such virtio_net_hdrs as a kernel takes from a host, which are not always right."""
    one, two = pair.wire(1), pair.wire(2)
    one.setsockopt(263, 15, 1)  # PACKET_VNET_HDR
    rng = random.Random(7)
    taken = 0
    for _ in range(4_000):
        start = rng.choice((0, 34, 54, rng.randrange(1500)))
        offload = rng.choice((b"\0\0", b"\1\0", b"\1\1", b"\1\4", b"\1\5"))
        numbers = (rng.randrange(200), rng.randrange(1500), start, rng.choice((0, 6, 16)))
        kind = rng.choice((0x0800, 0x86DD, 0x8100, 0x88B5, 0x88B6, 0x8808, rng.randrange(1 << 16)))
        head = bytes.fromhex("040000000000") + rng.randbytes(6) + kind.to_bytes(2, "big")
        data = head + rng.choice((b"\x45\0", b"\x60\0")) + rng.randbytes(rng.randrange(1450))
        with suppress(OSError):  # the kernel takes only some of them
            one.send(offload + struct.pack("HHHH", *numbers) + data)
            taken += 1
    assert taken > 1_000
    one.send(bytes(10) + plain(2))
    assert frames(two, 1) == [plain(2)]


def know_each_other(net):
    """Neighbour entries, by the addresses that the program takes ports from."""
    for number in (1, 2):
        other = 3 - number
        run(
            *f"ip -n {net.hosts[number]} neigh replace 10.0.0.{other} "
            f"lladdr 04:00:00:00:00:0{other} dev eth0".split()
        )


def udp_socket(net, number):
    return net.in_namespace(
        net.hosts[number], lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    )


def checksums_are_right(data):
    """Whether scapy, asked to do them anew, gets the same bytes."""
    frame = Ether(data)
    for layer in (IP, UDP, TCP):
        if layer in frame:
            del frame[layer].chksum
    return bytes(frame) == data


def test_checksums_that_a_host_leaves_to_its_card_are_done(pair):
    two = pair.wire(2)
    know_each_other(pair)
    with udp_socket(pair, 1) as out:
        out.sendto(b"an odd number of bytes.", ("10.0.0.2", 2000))
        out.sendto(b"an even number of bytes.", ("10.0.0.2", 2000))
    found = frames(two, 2)
    assert [Ether(frame)[UDP].len for frame in found] == [31, 32]
    assert all(checksums_are_right(frame) for frame in found)


def test_datagrams_that_a_host_joined_come_apart(pair):
    two = pair.wire(2)
    know_each_other(pair)
    data = bytes(range(256)) * 14
    with udp_socket(pair, 1) as out:
        out.setsockopt(17, 103, 1400)  # UDP_SEGMENT
        out.sendto(data, ("10.0.0.2", 2000))
    found = frames(two, 3)
    assert all(checksums_are_right(frame) for frame in found)
    parts = [bytes(Ether(frame)[UDP].payload) for frame in found]
    assert [len(part) for part in parts] == [1400, 1400, 784]
    assert b"".join(parts) == data
    first = Ether(found[0])[IP].id
    assert [Ether(frame)[IP].id for frame in found] == [first, first + 1, first + 2]


def test_a_joined_tcp_frame_comes_apart(pair):
    """IPv6, flags on the first and last only, a part that lies beyond the row."""
    one, two = pair.wire(1), pair.wire(2)
    one.setsockopt(263, 15, 1)  # PACKET_VNET_HDR
    payload = bytes(i * 7 % 256 for i in range(6_500))
    frame = (
        Ether(dst="04:00:00:00:00:02", src="04:00:00:00:00:01")
        / IPv6(src="fd00::1", dst="fd00::2")
        / TCP(sport=1, dport=2, seq=0xFFFFF000, flags="PAC", chksum=0)
        / Raw(payload)
    )
    # needs a checksum; TCPv6; headers, segment, start and place of the checksum
    one.send(struct.pack("BBHHHH", 1, 4, 74, 1440, 54, 16) + bytes(frame))
    found = [Ether(data) for data in frames(two, 5)]
    assert all(checksums_are_right(bytes(one)) for one in found)
    assert b"".join(bytes(one[TCP].payload) for one in found) == payload
    assert [one[IPv6].plen for one in found] == [1460] * 4 + [760]
    assert [one[TCP].seq for one in found] == [0xFFFFF000, 0xFFFFF5A0, 0xFFFFFB40, 0xE0, 0x680]
    assert [str(one[TCP].flags) for one in found] == ["AC", "A", "A", "A", "PA"]


def test_hosts_talk_tcp_with_their_offloads_on(pair):
    know_each_other(pair)
    data = random.Random(1).randbytes(3_000_000)
    received = bytearray()

    def serve(listener):
        connection, _ = listener.accept()
        with connection:
            while part := connection.recv(1 << 16):
                received.extend(part)

    listener = pair.in_namespace(
        pair.hosts[2], lambda: socket.create_server(("10.0.0.2", 5000), family=socket.AF_INET)
    )
    with listener:
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        client = pair.in_namespace(
            pair.hosts[1], lambda: socket.create_connection(("10.0.0.2", 5000), timeout=20)
        )
        with client:
            client.sendall(data)
        server.join()
    assert bytes(received) == data


def within(net, ports, test, rates=None, **options):
    """Runs `test(live)` beside a switch of this process."""
    program = compile_p4(PROGRAM)

    async def serve():
        interfaces = tuple(InterfacePort(n, net.port(n), (rates or {}).get(n)) for n in ports)
        config = SwitchConfig(
            ingress_latency_ps=0, egress_latency_ps=0, port_down_detection_ps=0,
            port_up_detection_ps=0, **options,
        )  # fmt: skip
        chosen = ServeOptions(grpc="127.0.0.1:0", interfaces=interfaces, switch=config)
        async with LiveSwitch(program, chosen) as live:
            await asyncio.wait_for(test(live), 60)

    asyncio.run(serve())


@asynccontextmanager
async def controller(live, tmp_path):
    info = tmp_path / "p4info.txtpb"
    info.write_text(str(live.switch.program.p4info))
    options = fy.SwitchOptions(p4info=info, device_id=1)
    async with fy.Switch("s1", live.address, options) as switch:
        yield switch


@pytest.fixture(scope="module")
def bare():
    with lab(2) as net:
        yield net


def test_packet_in_and_out(bare, tmp_path):
    one = bare.wire(1)

    async def test(live):
        async with controller(live, tmp_path) as switch:
            packets = switch.read_packets()
            arrival = asyncio.ensure_future(anext(packets))
            await asyncio.sleep(0)
            await switch.write([fy.P4PacketOut(b"from the controller", egress_port=1, pad=0)])
            assert await asyncio.to_thread(frames, one, 1) == [b"from the controller"]
            for_controller = to(0x1FE, Raw(b"hello"), type=0x9001)
            one.send(for_controller)
            packet = await arrival
            assert (packet["ingress_port"], packet.payload) == (1, for_controller)
            await packets.aclose()

    within(bare, (1, 2), test)


def test_digests(bare, tmp_path):
    one = bare.wire(1)

    async def test(live):
        async with controller(live, tmp_path) as switch:
            await switch.write([+fy.P4DigestEntry("seen_t", max_list_size=1)])
            digests = switch.read_digests("seen_t")
            arrival = asyncio.ensure_future(anext(digests))
            await asyncio.sleep(0)
            one.send(to(2, Raw(b"seen"), type=0x9002))
            assert (await arrival).data == [{"src": 0x0200000000AA}]
            await digests.aclose()

    within(bare, (1, 2), test)


def test_programs_are_pushed_again_and_again(bare):
    one, two = bare.wire(1), bare.wire(2)
    text = PROGRAM.read_text()
    too_large = text.replace("struct headers_t {", "struct headers_t { wide_t[200] wide;").replace(
        "header ethernet_t", "header wide_t { bit<128> a; }\n\nheader ethernet_t"
    )

    async def test(live):
        client = InProcessClient(live.service, 1)
        for number in range(1, 6):
            client.set_pipeline(live.switch.program.p4info, f"{text}\n// {number}\n")
            one.send(plain(2, mark=number))
            assert await asyncio.to_thread(frames, two, 1) == [plain(2, mark=number)]
        with pytest.raises(P4RuntimeError, match=r"INVALID_ARGUMENT.*memory was laid out for"):
            client.set_pipeline(live.switch.program.p4info, too_large)
        one.send(plain(2, mark=9))
        assert await asyncio.to_thread(frames, two, 1) == [plain(2, mark=9)]

    within(bare, (1, 2), test)


def test_a_packet_sees_all_of_an_atomic_write_or_none(bare, tmp_path):
    one, two = bare.wire(1), bare.wire(2)

    def entries(value):
        return [
            fy.P4TableEntry(
                "first", match=fy.Match(type=0x9000), action=fy.Action("set", src=value)
            ),
            fy.P4TableEntry(
                "second", match=fy.Match(type=0x9000), action=fy.Action("mark", dst=value)
            ),
        ]

    def flood(stop):
        while not stop.is_set():
            for _ in range(50):
                one.send(plain(2))

    async def test(live):
        async with controller(live, tmp_path) as switch:
            await switch.write([+entry for entry in entries(0)])
            stop = threading.Event()
            sender = asyncio.create_task(asyncio.to_thread(flood, stop))
            client = InProcessClient(live.service, switch.election_id + 1)  # finsy asks for no more
            for value in range(1, 101):
                client.write(
                    [~entry for entry in entries(value)], atomicity=Atomicity.DATAPLANE_ATOMIC
                )
                await asyncio.sleep(0.002)
            stop.set()
            await sender

    seen = []

    def listen():
        two.settimeout(1)
        with suppress(TimeoutError):
            while True:
                seen.append(two.recv(2000))

    two.setsockopt(1, 33, 32 << 20)  # SO_RCVBUFFORCE
    listener = threading.Thread(target=listen)
    listener.start()
    within(bare, (1, 2), test)
    listener.join()
    assert all(frame[:6] == frame[6:12] for frame in seen)
    assert len({frame[:6] for frame in seen}) > 10  # the writes did come between packets


def test_the_packet_generator_keeps_real_time(bare):
    two = bare.wire(2)

    async def test(live):
        began = time.monotonic()
        app = TimerApp(3, 20 * PS_PER_MS, payload=b"tick", start_ps=20 * PS_PER_MS, batches=5)
        live.switch.start_generator(app)
        found = await asyncio.to_thread(frames, two, 5)
        assert time.monotonic() - began >= 0.1
        assert [frame[14:] for frame in found] == [
            bytes((3, 0x10, 0, batch, 0, 0)) + b"tick" for batch in range(5)
        ]

    within(bare, (1, 2), test)


def test_a_port_keeps_its_rate_and_its_queue_drops_the_rest(bare):
    one, two = bare.wire(1), bare.wire(2)

    async def test(live):
        # 40 frames of 1250 bytes at 1 Mbit/s: 10 ms each; the queue holds 10 beside the one under way.
        began = time.monotonic()
        for _ in range(40):
            one.send(plain(2, 1250))
        counters, drops = live.switch.ports[2].counters, live.switch.drops
        while counters.tx_packets + drops.total() < 40:
            await asyncio.sleep(0.01)
            live.switch.core.collect()
        took_s = time.monotonic() - began
        sent = counters.tx_packets
        assert 11 <= sent < 40
        assert drops == {DropReason.QUEUE_FULL: 40 - sent}
        assert took_s >= sent * 0.01
        await asyncio.to_thread(frames, two, sent)
        assert silent(two)

    within(bare, (1, 2), test, rates={2: 10**6}, queue_limit_bytes=12_500)


def test_carrier_loss_reaches_program_controller_and_gnmi():
    with lab(3) as net:
        one = net.wire(1)

        async def test(live):
            states = []
            live.service.on_port_state(lambda port, up: states.append((port, up)))
            async with GNMIClient(live.address) as client:
                path = GNMIPath(f"interfaces/interface[name={net.port(3)}]/state/oper-status")
                (now,) = await client.get(path)
                assert now.value == "UP"
                subscription = client.subscribe()
                subscription.on_change(path)
                assert [u.value async for u in subscription.synchronize()] == ["UP"]
                updates = subscription.updates()
                for state, name in (("down", "DOWN"), ("up", "UP")):
                    await asyncio.to_thread(net.set_host_end, 3, state)
                    update = await anext(updates)
                    assert (update.value, update.path["interface", "name"]) == (name, net.port(3))
            events = await asyncio.to_thread(frames, one, 2)
            assert [event[12:] for event in events] == [
                bytes.fromhex("88b6 00 00 0003 0000"),
                bytes.fromhex("88b6 00 01 0003 0001"),
            ]
            assert states == [(3, False), (3, True)]

        within(net, (1, 2, 3), test, port_events=True)


def test_an_interface_that_goes_and_comes_back_is_the_port_again():
    with lab(2) as net:
        one = net.wire(1)

        async def test(live):
            run("ip", "link", "del", net.port(2))
            while live.switch.port_live(2):
                await asyncio.sleep(0.01)
            one.send(plain(2))
            await asyncio.to_thread(net.plug, 2)
            while not live.switch.port_live(2):
                await asyncio.sleep(0.01)
            two = net.wire(2)
            one.send(plain(2, mark=1))
            assert await asyncio.to_thread(frames, two, 1) == [plain(2, mark=1)]
            two.send(plain(1, mark=2))
            assert await asyncio.to_thread(frames, one, 1) == [plain(1, mark=2)]

        within(net, (1, 2), test)


def test_captures_and_a_clean_end(tmp_path):
    with lab(2) as net:
        process = start(net, f"--pcap={tmp_path}", "--log-level=info")
        one, two = net.wire(1), net.wire(2)
        began_ns = time.time_ns()
        one.send(plain(2, 70))
        assert frames(two, 1) == [plain(2, 70)]
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        errors = process.stderr.read()
        assert f"port 1 is interface {net.port(1)}" in errors
        assert "Traceback" not in errors
    for name in ("1_in", "2_out"):
        (packet,) = read_pcap(tmp_path / f"{name}.pcap")
        assert packet.data == plain(2, 70)
        assert abs(packet.time_ns - began_ns) < 5e9
    assert read_pcap(tmp_path / "1_out.pcap") == read_pcap(tmp_path / "2_in.pcap") == []


def failure(*arguments, before=()):
    command = [*before, str(SGLB), "switch", str(PROGRAM), "--grpc=127.0.0.1:0", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    return line


def test_mistakes_are_told_in_one_line(bare):
    assert failure("--port=1:nowhere") == (
        "error: interface nowhere: there is none of that name here"
    )
    plain_user = ("setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw")
    assert "need the right CAP_NET_RAW" in failure(f"--port=1:{bare.port(1)}", before=plain_user)
