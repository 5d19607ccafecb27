"""A switch that goes down takes no requests, and comes back with nobody's session."""

import finsy as fy
import pytest
from finsy.proto import p4r
from p4runtime_kit import Bench

from sglb.switch.p4runtime.client import InProcessClient
from sglb.switch.p4runtime.service import P4RuntimeService
from sglb.switch.p4runtime.status import Code, P4RuntimeError

ENTRY = fy.P4TableEntry("exact_t", match=fy.Match(dst=1), action=fy.Action("forward", port=2))


@pytest.fixture
def bench():
    return Bench()


def down(service: P4RuntimeService) -> None:
    service.switch.unload()
    service.power(False)


def up(service: P4RuntimeService, program) -> None:
    service.switch.load(program)
    service.power(True)


def refused(call) -> str:
    with pytest.raises(P4RuntimeError) as info:
        call()
    assert info.value.code is Code.UNAVAILABLE
    return str(info.value)


def test_everything_is_unavailable_while_it_is_down(bench):
    client = InProcessClient(bench.service, 7)
    assert client.schema
    down(bench.service)
    assert not client.is_primary
    assert "device 5 (s1) is down" in refused(lambda: client.insert(ENTRY))
    refused(lambda: client.read(fy.P4TableEntry("exact_t")))
    refused(lambda: client.packet_out(bytes(14), egress_port=1, pad=0))
    refused(lambda: client.set_pipeline(p4info=client.schema.p4info))
    refused(lambda: InProcessClient(bench.service))
    refused(bench.service.capabilities)
    request = p4r.GetForwardingPipelineConfigRequest(device_id=5)
    refused(lambda: bench.service.get_forwarding_pipeline_config(request))


def test_a_client_is_back_when_the_switch_is_and_finds_it_empty(bench):
    program = bench.switch.program
    client, told = InProcessClient(bench.service, 7), []
    client.insert(ENTRY)
    client.on_primary(told.append)
    down(bench.service)
    up(bench.service, program)
    assert client.is_primary
    bench.clock.run()
    assert told == [True]
    assert client.read(fy.P4TableEntry("exact_t")) == []
    client.insert(ENTRY)
    assert client.read(fy.P4TableEntry("exact_t")) == [ENTRY]


def test_elections_are_forgotten(bench):
    program = bench.switch.program
    first = InProcessClient(bench.service, election_id=10)
    first.close()
    assert not InProcessClient(bench.service, election_id=2).is_primary  # 10 was here
    down(bench.service)
    up(bench.service, program)
    assert InProcessClient(bench.service, election_id=3).is_primary


def test_a_stream_from_before_has_to_be_opened_again(bench):
    program = bench.switch.program
    sent = []
    stream = bench.service.open_stream(sent.append)
    down(bench.service)
    up(bench.service, program)
    text = refused(lambda: stream.receive(p4r.StreamMessageRequest(packet=p4r.PacketOut())))
    assert "device 5 has restarted since: open another stream" in text
    stream.close()
    assert sent == []


def test_a_client_that_was_closed_stays_away(bench):
    program = bench.switch.program
    client = InProcessClient(bench.service, 7)
    client.close()
    down(bench.service)
    up(bench.service, program)
    assert not client.is_primary
    assert bench.service.arbitration.roles()[0].sessions == []
