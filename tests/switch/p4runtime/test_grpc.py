"""A switch in real time on a loopback port, with finsy as the client, and raw gRPC for statuses."""

import asyncio
import contextlib

import finsy as fy
import grpc
import pytest
from finsy.proto import U128, p4r, p4r_grpc, rpc_status
from p4runtime_kit import (
    KITCHEN,
    action,
    arbitration,
    exact,
    frame,
    kitchen,
    lpm,
    table_entry,
)

from sglb.switch.live import LiveSwitch, ServeOptions
from sglb.switch.p4runtime.grpc_server import GrpcServer
from sglb.switch.p4runtime.service import ServiceOptions
from sglb.switch.p4runtime.status import Code, details_of

(LPM,) = (t.preamble.id for t in kitchen().p4info.tables if t.preamble.alias == "lpm_t")
(FORWARD,) = (a.preamble.id for a in kitchen().p4info.actions if a.preamble.alias == "forward")
OPTIONS = ServeOptions(grpc="127.0.0.1:0", ports=(1, 2, 3), device_id=5)


def run(test):
    """Runs a coroutine to its end; a hang is a failure."""
    asyncio.run(asyncio.wait_for(test, 60))


@contextlib.asynccontextmanager
async def serving(program="kitchen", options=OPTIONS):
    program = kitchen() if program == "kitchen" else program
    async with LiveSwitch(program, options) as live:
        yield live


def finsy_switch(live, tmp_path, **kw):
    info = tmp_path / "p4info.txtpb"
    info.write_text(str(kitchen().p4info))
    options = {"p4info": info, "p4blob": KITCHEN, "device_id": 5, **kw}
    return fy.Switch("s1", live.address, fy.SwitchOptions(**options))


def entry(key, port):
    return fy.P4TableEntry(
        "exact_t", match=fy.Match(dst=key), action=fy.Action("forward", port=port)
    )


# --- finsy ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", [None, "kitchen"])
def test_finsy_pushes_its_program_writes_reads_and_talks(tmp_path, program):
    async def test():
        async with serving(program) as live:
            sent = []
            live.switch.on_transmit = lambda port, data, *_: sent.append((port, data))
            async with finsy_switch(live, tmp_path) as switch:
                assert switch.is_primary
                await switch.write([+entry(1, 2), +entry(2, 3)])
                found = [e async for e in switch.read(fy.P4TableEntry("exact_t"))]
                assert found == [entry(1, 2), entry(2, 3)]
                with pytest.raises(fy.P4ClientError) as info:
                    await switch.write([+entry(1, 2), -entry(1, 2), -entry(9, 2)])
                assert {i: e.canonical_code for i, e in info.value.details.items()} == {0: 6, 2: 5}
                packets = switch.read_packets()
                first = asyncio.ensure_future(anext(packets))
                await asyncio.sleep(0)
                live.switch.receive(3, frame(dst=9))
                packet = await first
                assert (packet.payload, packet["ingress_port"]) == (frame(dst=9), 3)
                await switch.write([fy.P4PacketOut(frame(), egress_port=2, pad=0)])
                while not sent:
                    await asyncio.sleep(0.01)
                assert sent == [(2, frame())]
                await packets.aclose()
                await switch.delete_many([fy.P4TableEntry("exact_t")])
                assert [e async for e in switch.read(fy.P4TableEntry("exact_t"))] == []

    run(test())


def test_two_finsy_clients_and_a_change_of_primary(tmp_path):
    async def test():
        async with serving() as live:
            first = finsy_switch(live, tmp_path, initial_election_id=10)
            second = finsy_switch(live, tmp_path, initial_election_id=20)
            async with first, contextlib.AsyncExitStack() as stack:
                assert first.is_primary
                await stack.enter_async_context(second)
                assert second.is_primary
                while first.is_primary:
                    await asyncio.sleep(0.01)
                await stack.aclose()
                # Nobody is promoted; finsy asks again with the highest id and gets it.
                while not first.is_primary:
                    await asyncio.sleep(0.01)
                assert first.election_id == 20
                await first.write([+entry(1, 2)])

    run(test())


# --- statuses on the wire -------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def raw(live):
    options = [("grpc.max_metadata_size", 1 << 20)]
    async with grpc.aio.insecure_channel(live.address, options=options) as channel:
        yield p4r_grpc.P4RuntimeStub(channel)


async def primary(stub):
    stream = stub.StreamChannel()
    await stream.write(arbitration(1))
    assert (await stream.read()).arbitration.status.code == 0
    return stream


async def status_of(call):
    """(code, message, details) of a call that fails."""
    with pytest.raises(grpc.aio.AioRpcError) as info:
        await call
    error = info.value
    packed = dict(error.trailing_metadata()).get("grpc-status-details-bin")
    details = None
    if packed is not None:
        status = rpc_status.Status.FromString(packed)
        assert (status.code, status.message) == (error.code().value[0], error.details())
        details = details_of(status)
    return error.code().name, error.details(), details


def write_request(*updates):
    return p4r.WriteRequest(device_id=5, election_id=U128.encode(1), updates=updates)


def test_error_details_travel_in_the_trailing_metadata():
    async def test():
        async with serving() as live, raw(live) as stub:
            code, text, details = await status_of(stub.Write(write_request()))
            assert (code, details) == ("PERMISSION_DENIED", None)
            assert "no primary" in text
            stream = await primary(stub)
            good = p4r.Update(
                type=p4r.Update.MODIFY,
                entity=table_entry(_id("exact_t"), is_default_action=True),
            )
            missing = p4r.Update(
                type=p4r.Update.DELETE, entity=table_entry(_id("exact_t"), exact(1, b"\x01"))
            )
            code, text, details = await status_of(stub.Write(write_request(good, missing)))
            assert code == "UNKNOWN"
            assert [d.canonical_code for d in details] == [0, Code.NOT_FOUND]
            many = [missing] * 600
            code, text, details = await status_of(stub.Write(write_request(*many)))
            assert (code, len(details)) == ("UNKNOWN", 600)
            stream.cancel()

    run(test())


def _id(alias):
    info = kitchen().p4info
    return next(t.preamble.id for t in info.tables if t.preamble.alias == alias)


def test_bytes_that_are_no_message_get_a_status_and_leave_no_trace(caplog):
    async def test():
        async with serving() as live, grpc.aio.insecure_channel(live.address) as channel:
            for method in ("Write", "SetForwardingPipelineConfig", "Capabilities"):
                call = channel.unary_unary(f"/p4.v1.P4Runtime/{method}")(b"\xff")
                code, text, _ = await status_of(call)
                assert (code, "\n" in text) == ("INVALID_ARGUMENT", False)
            read = channel.unary_stream("/p4.v1.P4Runtime/Read")(b"\xff")
            assert (await status_of(read.read()))[0] == "INVALID_ARGUMENT"
            stream = channel.stream_stream("/p4.v1.P4Runtime/StreamChannel")()
            await stream.write(arbitration(1).SerializeToString())
            await stream.read()
            await stream.write(b"\xff")
            assert (await status_of(stream.read()))[0] == "INVALID_ARGUMENT"
        assert caplog.records == []

    run(test())


def test_a_new_primary_hears_of_it_after_the_old_ones_writes_are_done():
    """P4Runtime 1.5, section 5.3: writes under way end first, and come whole or are denied."""

    async def test():
        async with serving() as live, raw(live) as old, raw(live) as new:
            await primary(old)
            entries = [
                {
                    "type": p4r.Update.INSERT,
                    "entity": table_entry(
                        LPM, lpm(1, n.to_bytes(4, "big"), 32), act=action(FORWARD, b"\2")
                    ),
                }
                for n in range(64)
            ]
            writes = [
                old.Write(
                    p4r.WriteRequest(
                        device_id=5, election_id=U128.encode(1), updates=entries[n : n + 8]
                    )
                )
                for n in range(0, 64, 8)
            ]
            stream = new.StreamChannel()
            await stream.write(arbitration(2))
            assert (await stream.read()).arbitration.status.code == 0
            ask = p4r.ReadRequest(device_id=5, entities=[table_entry(LPM)])
            at_once = [e async for r in new.Read(ask) for e in r.entities]
            codes = []
            for write in writes:
                try:
                    await write
                    codes.append("OK")
                except grpc.aio.AioRpcError as error:
                    codes.append(error.code().name)
            later = [e async for r in new.Read(ask) for e in r.entities]
            assert set(codes) <= {"OK", "PERMISSION_DENIED"}
            assert len(at_once) == len(later) == 8 * codes.count("OK")

    run(test())


def test_reads_stream_and_fail_with_details():
    async def test():
        async with serving() as live, raw(live) as stub:
            request = p4r.ReadRequest(device_id=5, entities=[table_entry(0), p4r.Entity()])
            call = stub.Read(request)
            response = await call.read()
            assert len(response.entities) == 4
            code, _, details = await status_of(call.read())
            assert (code, [d.canonical_code for d in details]) == ("UNKNOWN", [0, 3])
            call = stub.Read(p4r.ReadRequest(device_id=8))
            assert await status_of(call.read()) == (
                "NOT_FOUND",
                "device_id 8 is unknown (this server has device 5)",
                None,
            )

    run(test())


def test_a_refused_arbitration_ends_the_stream_with_its_code():
    async def test():
        async with serving() as live, raw(live) as stub:
            stream = await primary(stub)
            other = stub.StreamChannel()
            await other.write(arbitration(1))
            code, text, details = await status_of(other.read())
            assert (code, details) == ("INVALID_ARGUMENT", None)
            assert "election id 1 is already used" in text
            stream.cancel()

    run(test())


def test_disconnecting_takes_the_primary_away():
    async def test():
        async with serving() as live, raw(live) as stub:
            stream = await primary(stub)
            backup = stub.StreamChannel()
            await backup.write(arbitration(0))
            assert (await backup.read()).arbitration.status.code == Code.ALREADY_EXISTS
            stream.cancel()
            update = (await backup.read()).arbitration
            assert (update.status.code, update.election_id.low) == (Code.NOT_FOUND, 1)
            # A client that closes its side in good order ends the stream, too.
            await backup.done_writing()
            assert await backup.read() is grpc.aio.EOF
            assert await backup.code() is grpc.StatusCode.OK
            assert live.service.arbitration.role("").sessions == []

    run(test())


def test_other_rpcs():
    async def test():
        async with serving() as live, raw(live) as stub:
            answer = await stub.Capabilities(p4r.CapabilitiesRequest())
            assert answer.p4runtime_api_version == "1.5.0"
            answer = await stub.GetForwardingPipelineConfig(
                p4r.GetForwardingPipelineConfigRequest(device_id=5)
            )
            assert answer.config.p4info == kitchen().p4info

    run(test())


def test_a_bug_of_the_server_is_an_internal_error(caplog):
    async def test():
        async with serving() as live, raw(live) as stub:
            live.service.capabilities = lambda request: 1 // 0
            code, text, _ = await status_of(stub.Capabilities(p4r.CapabilitiesRequest()))
            assert (code, text) == (
                "INTERNAL",
                "internal error: ZeroDivisionError: integer division or modulo by zero",
            )

    run(test())
    assert "an RPC failed" in caplog.text


def test_a_slow_client_loses_packets_not_arbitration():
    async def test():
        options = ServeOptions(grpc=None, ports=(1,), device_id=5)
        async with serving(options=options) as live:
            server = GrpcServer(live.service, "127.0.0.1:0", outbox_limit=3)
            await server.start()
            live.address = f"127.0.0.1:{server.port}"
            async with raw(live) as stub:
                stream = await primary(stub)
                session = live.service.arbitration.role("").primary
                for i in range(6):  # without giving the loop a chance to send
                    session.send(p4r.StreamMessageResponse(packet={"payload": bytes([i])}))
                live.service.open_stream(lambda _: None).receive(arbitration(2))
                heard = [await stream.read() for _ in range(4)]
                assert [m.packet.payload for m in heard[:3]] == [b"\0", b"\1", b"\2"]
                assert heard[3].arbitration.status.code == Code.ALREADY_EXISTS
                stream.cancel()
            await server.stop()

    run(test())


def test_an_address_in_use_is_one_clear_error():
    async def test():
        async with serving() as live:
            taken = ServeOptions(grpc=live.address, service=ServiceOptions())
            with pytest.raises(OSError, match=f"cannot serve P4Runtime on {live.address}"):
                async with LiveSwitch(kitchen(), taken):
                    pass

    run(test())


def test_stopping_ends_open_streams():
    async def test():
        async with serving() as live, raw(live) as stub:
            stream = await primary(stub)
            await live.close()
            with pytest.raises(grpc.aio.AioRpcError):
                await stream.read()

    run(test())


def test_a_switch_that_ends_ends_its_streams(caplog):
    async def test():
        async with contextlib.AsyncExitStack() as after:
            async with serving() as live:
                channel = grpc.aio.insecure_channel(live.address)
                stub = p4r_grpc.P4RuntimeStub(await after.enter_async_context(channel))
                streams = [stub.StreamChannel() for _ in range(3)]
                for number, stream in enumerate(streams, start=1):
                    await stream.write(arbitration(number, 5))
                    await stream.read()
            for stream in streams:
                with pytest.raises(grpc.aio.AioRpcError, match="the switch ends") as ended:
                    await _read_all(stream)
                assert ended.value.code() is grpc.StatusCode.UNAVAILABLE

    run(test())
    assert caplog.records == []


async def _read_all(stream):
    while await stream.read() is not grpc.aio.EOF:
        pass
