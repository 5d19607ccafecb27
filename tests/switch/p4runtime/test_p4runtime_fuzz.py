"""Whatever arrives: a rejected update changes nothing, and no message breaks the service."""

import random

from finsy.proto import p4r
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import ids_of, mutate
from p4runtime_kit import Bench, arbitration, frame
from p4runtime_soak import soak
from test_p4runtime_service import every_kind, prepare

from sglb.switch.p4runtime.status import P4RuntimeError

BENCH = Bench()
prepare(BENCH)
UPDATES = [u.SerializeToString() for u in every_kind(BENCH)]
IDS = ids_of(BENCH.program.p4info)
fuzz = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@fuzz
@given(st.integers(0, 2**32))
def test_mutated_updates(seed):
    rng = random.Random(seed)
    updates = []
    for data in rng.sample(UPDATES, 3):
        update = p4r.Update.FromString(data)
        for _ in range(rng.randrange(3)):
            mutate(update, rng, IDS)
        updates.append(update)
    before = BENCH.everything()
    atomicity = rng.choice([0, 1, 2])
    codes = BENCH.write(*updates, atomicity=atomicity)
    if "OK" not in codes:
        assert BENCH.everything() == before
    else:
        # Readable still, and packets still go through.
        BENCH.everything()
        BENCH.send(1, frame(dst=10, src=seed % 65536))
    assert "INTERNAL" not in codes


@fuzz
@given(st.integers(0, 2**32))
def test_mutated_reads(seed):
    rng = random.Random(seed)
    entities = []
    for data in rng.sample(UPDATES, 3):
        entity = p4r.Update.FromString(data).entity
        mutate(entity, rng, IDS)
        entities.append(entity)
    before = BENCH.everything()
    codes = BENCH.read_code(*entities)
    assert "INTERNAL" not in codes
    assert BENCH.everything() == before


@fuzz
@given(st.binary(max_size=200))
def test_random_bytes_as_requests(data):
    bench = BENCH
    calls = [
        (p4r.WriteRequest, bench.service.write),
        (p4r.ReadRequest, lambda m: list(bench.service.read(m))),
        (p4r.SetForwardingPipelineConfigRequest, bench.service.set_forwarding_pipeline_config),
        (p4r.GetForwardingPipelineConfigRequest, bench.service.get_forwarding_pipeline_config),
        (p4r.CapabilitiesRequest, bench.service.capabilities),
    ]
    before = bench.everything()
    for kind, call in calls:
        try:
            call(kind.FromString(data))
        except (DecodeError, P4RuntimeError):
            continue
    assert bench.everything() == before


@settings(fuzz, max_examples=50)
@given(st.lists(st.integers(0, 2**32), min_size=1, max_size=8))
def test_mutated_stream_messages(seeds):
    bench = Bench()
    prepare(bench)
    packet = p4r.PacketOut(payload=frame(), metadata=[{"metadata_id": 1, "value": b"\x03"}])
    packet.metadata.add(metadata_id=2, value=b"\0")
    ack = p4r.DigestListAck(digest_id=bench.id("learn_t"), list_id=1)
    samples = [
        arbitration(5),
        p4r.StreamMessageRequest(packet=packet),
        p4r.StreamMessageRequest(digest_ack=ack),
    ]
    before = bench.everything()
    answers = []
    stream = bench.service.open_stream(answers.append)
    stream.receive(samples[0])
    for seed in seeds:
        rng = random.Random(seed)
        message = p4r.StreamMessageRequest()
        message.CopyFrom(rng.choice(samples))
        mutate(message, rng, IDS)
        try:
            stream.receive(message)
        except P4RuntimeError:
            break
    bench.clock.run()
    assert bench.everything() == before
    stream.close()
    sessions = bench.service.arbitration.role("").sessions
    assert len(sessions) == 1
    assert all(a.SerializeToString() for a in answers)


@fuzz
@given(st.binary(max_size=80), st.sampled_from([1, 4, 510]))
def test_random_frames(data, port):
    BENCH.send(port, data)
    assert BENCH.switch.clock.next_ps() is None


def test_a_short_soak_over_grpc():
    """As `p4runtime_soak.py` does at length; it checks every table around every update."""
    codes, _, _ = soak(requests=150, seed=2, tell=lambda _: None)
    assert codes["OK"] > 20
    assert codes["INVALID_ARGUMENT"] > 20
