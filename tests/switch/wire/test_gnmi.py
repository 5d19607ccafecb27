"""Port state over gNMI with finsy's client: paths, modes, errors."""

import asyncio

import grpc.aio
import pytest
from finsy import GNMIClient, GNMIPath
from finsy.gnmiclient import GNMIClientError
from finsy.proto import gnmi

from sglb.switch.gnmi import PortStates, add_to_server, matches

IFACE = [("interfaces", {}), ("interface", {"name": "veth1"}), ("state", {}), ("ifindex", {})]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ([], True),
        ([("interfaces", {})], True),
        ([("interfaces", {}), ("interface", {})], True),
        ([("interfaces", {}), ("interface", {"name": "*"}), ("state", {})], True),
        ([("interfaces", {}), ("interface", {"name": "veth2"})], False),
        ([("interfaces", {}), ("interface", {"index": "*"})], False),
        ([("interfaces", {}), ("*", {}), ("*", {}), ("ifindex", {})], True),
        ([("...", {}), ("ifindex", {})], True),
        ([("...", {}), ("oper-status", {})], False),
        ([*IFACE, ("deeper", {})], False),
        ([("components", {})], False),
    ],
)
def test_paths(pattern, found):
    assert matches(pattern, IFACE) is found


def served(test):
    async def serve():
        up = {1: True, 2: False}
        states = PortStates({1: "veth1", 2: "veth2"}, up.__getitem__)
        server = grpc.aio.server()
        add_to_server(states, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with GNMIClient(f"127.0.0.1:{port}") as client:
                await asyncio.wait_for(test(client, states, up), 30)
        finally:
            await server.stop(0)

    asyncio.run(serve())


STATUS = GNMIPath("interfaces/interface/state/oper-status")


def test_get():
    async def test(client, states, up):
        found = await client.get(GNMIPath("interfaces/interface[name=veth2]/state"))
        assert [(u.path.last, u.value) for u in found] == [
            ("name", "veth2"),
            ("ifindex", 2),
            ("oper-status", "DOWN"),
        ]
        prefix = GNMIPath("interfaces/interface[name=veth1]")
        (only,) = await client.get(GNMIPath("state/oper-status"), prefix=prefix)
        assert only.value == "UP"
        with pytest.raises(GNMIClientError, match=r"nothing at /interfaces/interface\[name=x\]"):
            await client.get(GNMIPath("interfaces/interface[name=x]"))
        with pytest.raises(GNMIClientError, match="only be read"):
            await client.set(update=[(STATUS, "UP")])
        assert (await client.capabilities()).supported_models[0].name == "openconfig-interfaces"

    served(test)


def test_once_and_on_change():
    async def test(client, states, up):
        once = client.subscribe()
        once.once(STATUS)
        assert [u.value async for u in once.synchronize()] == ["UP", "DOWN"]
        stream = client.subscribe()
        stream.on_change(STATUS)
        assert len([u async for u in stream.synchronize()]) == 2
        up[2] = True
        states.changed(2)
        states.changed(9)  # no port of ours
        update = await anext(stream.updates())
        assert (update.path["interface", "name"], update.value) == ("veth2", "UP")

    served(test)


def test_samples_and_polls():
    async def test(client, states, up):
        stream = client.subscribe()
        stream.sample(STATUS, sample_interval=100_000_000)
        assert len([u async for u in stream.synchronize()]) == 2
        up[1] = False
        updates = stream.updates()
        assert [(await anext(updates)).value for _ in range(2)] == ["DOWN", "DOWN"]
        poll = gnmi.SubscriptionList(
            mode=gnmi.SubscriptionList.POLL,
            subscription=[gnmi.Subscription(path=STATUS.path)],
        )
        call = client._stub.Subscribe()
        for message in ({"subscribe": poll}, {"poll": gnmi.Poll()}):
            await call.write(gnmi.SubscribeRequest(**message))
            assert len((await call.read()).update.update) == 2
            assert (await call.read()).sync_response
        await call.write(gnmi.SubscribeRequest(subscribe=poll))
        with pytest.raises(grpc.aio.AioRpcError, match="only polls"):
            await call.read()

    served(test)


def test_a_subscription_has_to_begin_with_one():
    async def test(client, states, up):
        call = client._stub.Subscribe()
        await call.write(gnmi.SubscribeRequest(poll=gnmi.Poll()))
        with pytest.raises(grpc.aio.AioRpcError, match="must be a SubscriptionList"):
            await call.read()

    served(test)
