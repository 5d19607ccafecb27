"""Client arbitration, clause by clause (P4Runtime 1.5, section "Client Arbitration …")."""

import pytest
from finsy.proto import U128, p4r, stratum

from sglb.switch.p4runtime.arbitration import Arbitration
from sglb.switch.p4runtime.status import Code, P4RuntimeError

DEVICE = 7


class Client:
    """A stream as the server sees it: `heard` are (status code, election id or None), in order."""

    def __init__(self, arbitration, role=None, config=None):
        self.arbitration = arbitration
        self.role = role
        self.config = config
        self.session = None
        self.messages = []

    def request(self, election_id, device=DEVICE, role="same"):
        message = p4r.MasterArbitrationUpdate(device_id=device)
        name = self.role if role == "same" else role
        if name is not None:
            message.role.name = name
        if self.config is not None:
            message.role.config.Pack(self.config)
        if election_id is not None:
            message.election_id.CopyFrom(U128.encode(election_id))
        return message

    def ask(self, election_id, **kw):
        """Sends an update; an error ends the stream, as a transport would do."""
        try:
            self.session = self.arbitration.update(
                self.session, self.messages.append, self.request(election_id, **kw)
            )
        except P4RuntimeError:
            if self.session is not None:
                self.arbitration.close(self.session)
            raise
        return self

    def close(self):
        self.arbitration.close(self.session)

    def take(self):
        """What was heard since the last call: (status, election id)."""
        heard = []
        for message in self.messages:
            update = message.arbitration
            assert update.device_id == DEVICE
            number = U128.decode(update.election_id) if update.HasField("election_id") else None
            heard.append((Code(update.status.code).name, number))
        self.messages.clear()
        return heard


@pytest.fixture
def arb():
    return Arbitration(DEVICE)


def refused(code, call):
    with pytest.raises(P4RuntimeError) as info:
        call()
    assert info.value.code is code
    return info.value.message


def may_write(arb, election_id, role=""):
    try:
        arb.check_primary(DEVICE, role, None if election_id is None else U128.encode(election_id))
    except P4RuntimeError as error:
        return error.code.name
    return "yes"


def test_first_message_for_an_unknown_device(arb):
    assert "device_id 8" in refused(Code.NOT_FOUND, lambda: Client(arb).ask(1, device=8))


def test_a_live_election_id_is_refused_and_free_again_after_the_stream_ends(arb):
    first = Client(arb).ask(5)
    text = refused(Code.INVALID_ARGUMENT, lambda: Client(arb).ask(5))
    assert "election id 5 is already used" in text
    first.close()
    assert Client(arb).ask(5).take() == [("OK", 5)]


def test_same_election_id_in_another_role_is_fine(arb):
    Client(arb).ask(5)
    assert Client(arb, role="r").ask(5).take() == [("OK", 5)]


def test_too_many_streams():
    arb = Arbitration(DEVICE, max_sessions=2)
    Client(arb).ask(1)
    Client(arb).ask(2)
    refused(Code.RESOURCE_EXHAUSTED, lambda: Client(arb).ask(3))
    Client(arb, role="other").ask(3)


def test_device_or_role_of_a_live_stream_cannot_change(arb):
    refused(Code.FAILED_PRECONDITION, lambda: Client(arb).ask(1).ask(1, device=8))
    refused(Code.FAILED_PRECONDITION, lambda: Client(arb).ask(1).ask(1, role="x"))


def test_highest_id_becomes_primary_and_everybody_hears_it(arb):
    low = Client(arb).ask(1)
    assert low.take() == [("OK", 1)]
    high = Client(arb).ask(9)
    assert low.take() == [("ALREADY_EXISTS", 9)]
    assert high.take() == [("OK", 9)]
    assert (may_write(arb, 9), may_write(arb, 1)) == ("yes", "PERMISSION_DENIED")


def test_others_hear_before_the_new_primary(arb):
    order = []
    for name, number in (("a", 1), ("b", 2), ("c", 3)):
        client = Client(arb)
        client.messages = type(
            "Log", (list,), {"append": lambda self, m, name=name: order.append(name)}
        )()
        client.ask(number)
    assert order == ["a", "a", "b", "a", "b", "c"]


def test_lower_id_becomes_backup_and_only_it_hears(arb):
    primary = Client(arb).ask(9)
    primary.take()
    backup = Client(arb).ask(3)
    assert backup.take() == [("ALREADY_EXISTS", 9)]
    assert primary.take() == []


def test_no_promotion_when_the_primary_goes(arb):
    primary, backup = Client(arb).ask(9), Client(arb).ask(3)
    backup.take()
    primary.close()
    assert backup.take() == [("NOT_FOUND", 9)]
    assert may_write(arb, 3) == "PERMISSION_DENIED"
    # A lower id than the highest ever seen doesn't help, an equal one does.
    assert backup.ask(8).take() == [("NOT_FOUND", 9)]
    assert backup.ask(9).take() == [("OK", 9)]
    assert may_write(arb, 9) == "yes"


def test_backup_leaving_is_nobodys_business(arb):
    primary, backup = Client(arb).ask(9), Client(arb).ask(3)
    primary.take()
    backup.close()
    assert primary.take() == []


def test_primary_that_downgrades_itself_leaves_no_primary(arb):
    primary, backup = Client(arb).ask(9), Client(arb).ask(3)
    primary.take(), backup.take()
    primary.ask(4)
    assert primary.take() == [("NOT_FOUND", 9)]
    assert backup.take() == [("NOT_FOUND", 9)]


def test_primary_repeating_itself_stays_and_all_are_told(arb):
    primary, backup = Client(arb).ask(9), Client(arb).ask(3)
    primary.take(), backup.take()
    primary.ask(9)
    assert (primary.take(), backup.take()) == ([("OK", 9)], [("ALREADY_EXISTS", 9)])
    primary.ask(12)
    assert (primary.take(), backup.take()) == ([("OK", 12)], [("ALREADY_EXISTS", 12)])
    assert may_write(arb, 9) == "PERMISSION_DENIED"


def test_unset_id_never_wins_and_differs_from_zero(arb):
    silent = Client(arb).ask(None)
    assert silent.take() == [("NOT_FOUND", None)]
    other = Client(arb).ask(None)
    assert other.take() == [("NOT_FOUND", None)]
    zero = Client(arb).ask(0)
    assert zero.take() == [("OK", 0)]
    assert silent.take() == [("ALREADY_EXISTS", 0)]
    assert (may_write(arb, 0), may_write(arb, None)) == ("yes", "PERMISSION_DENIED")


def test_ids_are_128_bits_wide(arb):
    Client(arb).ask(2**64)
    assert Client(arb).ask(2**64 - 1).take() == [("ALREADY_EXISTS", 2**64)]


def test_refused_update_of_a_live_primary_ends_it(arb):
    primary, backup = Client(arb).ask(9), Client(arb).ask(3)
    backup.take()
    refused(Code.INVALID_ARGUMENT, lambda: primary.ask(3))
    assert backup.take() == [("NOT_FOUND", 9)]


def test_unknown_device_and_role_of_a_write(arb):
    refused(Code.NOT_FOUND, lambda: arb.check_primary(8, "", U128.encode(1)))
    refused(Code.NOT_FOUND, lambda: arb.check_primary(DEVICE, "nobody", U128.encode(1)))


def test_role_config_is_remembered_and_echoed(arb):
    config = stratum.P4RoleConfig(exclusive_p4_ids=[11], can_push_pipeline=False)
    backup = Client(arb, role="r").ask(None)
    primary = Client(arb, role="r", config=config).ask(1)
    for client in (primary, backup):
        role = client.messages[-1].arbitration.role
        echoed = stratum.P4RoleConfig()
        assert role.name == "r"
        assert role.config.Unpack(echoed)
        assert echoed == config
    scope = arb.role("r").scope
    assert (scope.allows(11), scope.allows(12), scope.push_pipeline) == (True, False, False)


def test_default_role_unset_is_echoed_unset(arb):
    client = Client(arb).ask(1)
    assert not client.messages[0].arbitration.HasField("role")


def test_foreign_and_damaged_role_configs(arb):
    refused(Code.INVALID_ARGUMENT, lambda: Client(arb, "r", p4r.WriteRequest()).ask(1))
    message = p4r.MasterArbitrationUpdate(device_id=DEVICE)
    message.role.config.Pack(stratum.P4RoleConfig())
    message.role.config.value = b"\xff\xff\xff"
    refused(Code.INVALID_ARGUMENT, lambda: arb.update(None, print, message))
