"""Ports and rates on the command line."""

import pytest

from sglb.cli.errors import UserError
from sglb.cli.serving import parse_interfaces
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
