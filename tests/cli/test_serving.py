"""Ports and rates on the command line."""

import pytest

from sglb.cli.errors import UserError
from sglb.cli.serving import check_address, parse_interfaces, parse_telemetry, parse_timers
from sglb.switch.wire.port import InterfacePort


@pytest.mark.parametrize(
    ("ports", "rates", "found"),
    [
        ([], [], ()),
        (["1:veth0"], [], (InterfacePort(1, "veth0"),)),
        (
            ["1:veth0", "2@s1-eth2", "511:x.7"],
            ["2:2.5m", "10G", "511:400"],
            (
                InterfacePort(1, "veth0", 10**10),
                InterfacePort(2, "s1-eth2", 2_500_000),
                InterfacePort(511, "x.7", 400),
            ),
        ),
    ],
)
def test_ports_and_rates(ports, rates, found):
    assert parse_interfaces(ports, rates) == found


@pytest.mark.parametrize(
    ("ports", "rates", "told"),
    [
        (["veth0"], [], "--port veth0: write NUMBER:INTERFACE such as 1:veth0"),
        (["512:veth0"], [], "--port 512:veth0: write NUMBER:INTERFACE"),
        (["1:a-name-of-16-letters"], [], "write NUMBER:INTERFACE"),
        (["1:a", "1:b"], [], "--port 1:b: port 1 is given twice"),
        (["1:a"], ["2:10G"], "--rate 2:...: there is no --port 2:INTERFACE"),
        (["1:a"], ["fast"], "--rate fast: write bit/s such as 1:10G"),
        (["1:a"], ["0"], "--rate 0: write bit/s"),
        (["1:a"], ["1:200T"], "up to 100T"),
        ([], ["10G"], "--rate needs --port"),
    ],
)
def test_mistakes(ports, rates, told):
    with pytest.raises(UserError) as error:
        parse_interfaces(ports, rates)
    assert told in str(error.value)


def test_timers_of_the_packet_generator():
    found = parse_timers(["2:1000", "1:16.5"])
    assert [(t.app_id, t.period_ps, len(t.payload)) for t in found] == [
        (2, 1_000_000_000, 40),
        (1, 16_500_000, 40),
    ]


@pytest.mark.parametrize("text", ["0:5", "8:5", "2:0.5", "2:", "2:1001000000", "two:5"])
def test_timers_that_cannot_be(text):
    with pytest.raises(UserError, match="write APPLICATION:MICROSECONDS"):
        parse_timers([text])


def test_addresses(tmp_path):
    for text in ("127.0.0.1:0", "[::1]:9559", f"unix:{tmp_path}/switch.sock"):
        check_address(text)
    for text in ("127.0.0.1", "h:70000", f"unix:{tmp_path}/none/x", f"unix:{tmp_path}/{'x' * 120}"):
        with pytest.raises(UserError, match="--grpc"):
            check_address(text)


def test_where_telemetry_goes(tmp_path):
    assert parse_telemetry("localhost:9555") == ("127.0.0.1", 9_555)
    assert parse_telemetry(f"unix:{tmp_path}/t.sock") == f"{tmp_path}/t.sock"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        # RFC 6761: nothing is ever called so.
        (
            "switch.invalid:9555",
            "--telemetry switch.invalid:9555: no IPv4 address of switch.invalid: ",
        ),
        ("[::1]:9555", "no IPv4 address of [::1]"),
        (":9555", "write HOST:PORT or unix:PATH"),
        ("localhost:0", "write HOST:PORT or unix:PATH"),
        ("unix:/no/such/folder/t.sock", "in a folder that there is"),
    ],
)
def test_telemetry_to_nowhere_is_told_at_the_start(text, told):
    with pytest.raises(UserError) as error:
        parse_telemetry(text)
    assert told in str(error.value)
