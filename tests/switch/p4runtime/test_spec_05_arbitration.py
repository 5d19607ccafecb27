"""P4Runtime 1.5, section 5: client arbitration. Tests are named by the section of their rule."""

import pytest
from finsy.proto import U128, p4r, stratum
from p4runtime_kit import DEVICE, Bench, action, arbitration, exact, kitchen, table_entry

from sglb.switch.p4runtime.service import ServiceOptions
from sglb.switch.p4runtime.status import Code, P4RuntimeError

#: Who heard something, in order.
_hearers = []


class Controller:
    """One stream with its role. `say` sends an update, `heard` takes what came: (code, id)."""

    def __init__(self, bench, role="", config=None):
        self.bench, self.role, self.config = bench, role, config
        self.messages = []
        self.stream = bench.service.open_stream(self._hear)

    def _hear(self, message):
        self.messages.append(message)
        _hearers.append(self)

    def say(self, election_id, device=DEVICE, role=None):
        """The code with which the stream is ended, "" while it lives."""
        name = self.role if role is None else role
        made = p4r.Role(name=name) if name else None
        if self.config is not None:
            made = made or p4r.Role()
            made.config.Pack(self.config)
        try:
            self.stream.receive(arbitration(election_id, device_id=device, role=made))
        except P4RuntimeError as error:
            return error.code.name
        return ""

    def heard(self):
        updates = [m.arbitration for m in self.messages if m.HasField("arbitration")]
        self.messages.clear()
        return [
            (
                Code(u.status.code).name,
                U128.decode(u.election_id) if u.HasField("election_id") else None,
            )
            for u in updates
        ]

    def write(self, election_id, role=None):
        """The outcome of a Write with that id."""
        request = p4r.WriteRequest(
            device_id=DEVICE,
            role=self.role if role is None else role,
            election_id=U128.encode(election_id),
        )
        try:
            self.bench.service.write(request)
        except P4RuntimeError as error:
            return error.code.name
        return "OK"


@pytest.fixture
def bench():
    made = Bench()
    made.stream.close()
    _hearers.clear()
    return made


def controllers(bench, *ids, role=""):
    """A controller per election id, each having sent it; what they heard is forgotten."""
    made = [Controller(bench, role) for _ in ids]
    for controller, election_id in zip(made, ids, strict=True):
        assert controller.say(election_id) == ""
    for controller in made:
        controller.heard()
    return made


# --- 5, 5.1 ---------------------------------------------------------------------------------------


def test_5_the_highest_id_ever_received_is_the_primary(bench):
    first, second = controllers(bench, 5, 7)
    assert (first.write(5), second.write(7)) == ("PERMISSION_DENIED", "OK")


def test_5_primaries_are_selected_a_role(bench):
    (one,) = controllers(bench, 3, role="one")
    (two,) = controllers(bench, 3, role="two")
    assert (one.write(3), two.write(3)) == ("OK", "OK")


def test_5_all_three_values_name_the_client_of_a_write(bench):
    controllers(bench, 3, role="one")
    (two,) = controllers(bench, 4, role="two")
    assert two.write(4, role="one") == "PERMISSION_DENIED"


def test_5_a_session_is_needed_for_writing_but_not_for_reading(bench):
    assert Controller(bench).write(1) == "PERMISSION_DENIED"
    assert bench.read(p4r.Entity(digest_entry={})) == []


def test_5_when_the_primary_is_gone_all_others_are_told_and_nobody_is_promoted(bench):
    low, high = controllers(bench, 5, 9)
    high.stream.close()
    assert low.heard() == [("NOT_FOUND", 9)]
    assert low.write(5) == "PERMISSION_DENIED"


def test_5_a_backup_becomes_primary_by_an_update_only(bench):
    low, high = controllers(bench, 5, 9)
    high.stream.close()
    low.heard()
    assert low.say(8) == ""  # below the highest that was seen
    assert low.heard() == [("NOT_FOUND", 9)]
    assert low.say(9) == ""
    assert low.heard() == [("OK", 9)]
    assert low.write(9) == "OK"


def test_5_1_the_default_role_has_full_access(bench):
    (controller,) = controllers(bench, 1)
    assert controller.write(1) == "OK"
    entry = table_entry(bench.id("exact_t"), exact(1, b"\1"), act=action(bench.id("drop")))
    assert bench.insert(entry) == ["OK"]


def test_5_1_device_id_zero_is_not_valid(bench):
    assert Controller(bench).say(1, device=0) == "NOT_FOUND"


# --- 5.2 ------------------------------------------------------------------------------------------


def test_5_2_an_unset_config_is_full_access_in_any_role(bench):
    controllers(bench, 1, role="r")
    entry = table_entry(bench.id("exact_t"), exact(1, b"\1"), act=action(bench.id("drop")))
    assert bench.insert(entry, role="r") == ["OK"]


def test_5_2_a_config_says_what_may_be_written(bench):
    mine = stratum.P4RoleConfig(exclusive_p4_ids=[bench.id("lpm_t")])
    assert Controller(bench, "r", mine).say(1) == ""
    drop = action(bench.id("drop"))
    other = table_entry(bench.id("exact_t"), exact(1, b"\1"), act=drop)
    assert bench.insert(table_entry(bench.id("lpm_t"), act=drop), other, role="r") == [
        "OK",
        "PERMISSION_DENIED",
    ]


def test_5_2_the_config_is_remembered_a_role(bench):
    mine = stratum.P4RoleConfig(receives_packet_ins=True)
    Controller(bench, "r", mine).say(5)
    backup = Controller(bench, "r")
    backup.say(4)
    got = stratum.P4RoleConfig()
    assert backup.messages[-1].arbitration.role.config.Unpack(got)
    assert got == mine


# --- 5.3: rules -----------------------------------------------------------------------------------


def test_5_3_1_1_an_unknown_device(bench):
    assert Controller(bench).say(1, device=DEVICE + 1) == "NOT_FOUND"


def test_5_3_1_2_an_election_id_in_use(bench):
    controllers(bench, 5)
    assert Controller(bench).say(5) == "INVALID_ARGUMENT"


def test_5_3_1_2_is_about_live_controllers_only(bench):
    (gone,) = controllers(bench, 5)
    gone.stream.close()
    assert Controller(bench).say(5) == ""


def test_5_3_1_2_an_unset_id_may_be_used_by_many(bench):
    assert [Controller(bench).say(None) for _ in range(3)] == ["", "", ""]


def test_5_3_1_3_a_config_of_an_unknown_scheme(bench):
    assert Controller(bench, "r", p4r.Uint128(low=1)).say(1) == "INVALID_ARGUMENT"


def test_5_3_1_4_too_many_streams():
    bench = Bench(options=ServiceOptions(max_streams_per_role=2))
    assert Controller(bench).say(None) == ""
    assert Controller(bench).say(None) == "RESOURCE_EXHAUSTED"
    assert Controller(bench, "another").say(None) == ""


def test_5_3_1_5_a_refused_controller_is_not_live(bench):
    refused = Controller(bench)
    assert refused.say(5, device=DEVICE + 1) == "NOT_FOUND"
    assert Controller(bench).say(5) == ""


def test_5_3_2_1_a_live_stream_stays_with_its_device(bench):
    (controller,) = controllers(bench, 5)
    assert controller.say(5, device=DEVICE + 1) == "FAILED_PRECONDITION"


def test_5_3_2_2_a_live_stream_stays_with_its_role(bench):
    (controller,) = controllers(bench, 5)
    assert controller.say(6, role="other") == "FAILED_PRECONDITION"


def test_5_3_2_3_a_config_of_an_unknown_scheme_later(bench):
    (controller,) = controllers(bench, 5, role="r")
    controller.config = p4r.Uint128(low=1)
    assert controller.say(6) == "INVALID_ARGUMENT"


def test_5_3_2_4_an_election_id_in_use_by_another(bench):
    one, _ = controllers(bench, 5, 6)
    assert one.say(6) == "INVALID_ARGUMENT"


def test_5_3_2_4_does_not_count_the_sender(bench):
    (controller,) = controllers(bench, 5)
    assert controller.say(5) == ""
    assert controller.heard() == [("OK", 5)]


def test_5_3_2_terminating_the_primary_leaves_none(bench):
    one, two = controllers(bench, 5, 6)
    assert two.say(5) == "INVALID_ARGUMENT"
    assert one.heard() == [("NOT_FOUND", 6)]


def test_5_3_1_equal_to_the_highest_becomes_primary(bench):
    (one,) = controllers(bench, 5)
    one.stream.close()
    two = Controller(bench)
    two.say(5)
    assert two.heard() == [("OK", 5)]


def test_5_3_1_1_the_first_primary_is_told_to_all(bench):
    (waiting,) = controllers(bench, None, role="new")
    Controller(bench, "new").say(0)
    assert waiting.heard() == [("ALREADY_EXISTS", 0)]


def test_5_3_1_2_writes_of_the_previous_primary_are_denied(bench):
    old, new = controllers(bench, 5, 6)
    assert (old.write(5), new.write(6)) == ("PERMISSION_DENIED", "OK")


def test_5_3_1_2_the_others_hear_first(bench):
    old, backup = controllers(bench, 5, 4)
    new = Controller(bench)
    _hearers.clear()
    new.say(6)
    assert _hearers == [old, backup, new]


def test_5_3_1_the_config_of_the_new_primary_holds(bench):
    narrow = stratum.P4RoleConfig(exclusive_p4_ids=[bench.id("lpm_t")])
    Controller(bench, "r", narrow).say(5)
    Controller(bench, "r").say(6)
    entry = table_entry(bench.id("exact_t"), exact(1, b"\1"), act=action(bench.id("drop")))
    request = bench.request([p4r.Update(type=p4r.Update.INSERT, entity=entry)], role="r")
    request.election_id.CopyFrom(U128.encode(6))
    bench.service.write(request)


def test_5_3_2_a_backup_alone_hears_that_it_is_one(bench):
    (primary,) = controllers(bench, 5)
    backup = Controller(bench)
    backup.say(4)
    assert (backup.heard(), primary.heard()) == ([("ALREADY_EXISTS", 5)], [])


def test_5_3_2_a_primary_that_downgrades_itself_is_told_to_all(bench):
    low, high = controllers(bench, 5, 9)
    assert high.say(8) == ""
    assert (low.heard(), high.heard()) == ([("NOT_FOUND", 9)], [("NOT_FOUND", 9)])
    assert high.write(9) == "PERMISSION_DENIED"


def test_5_3_the_highest_id_outlives_its_stream(bench):
    (high,) = controllers(bench, 9)
    high.stream.close()
    low = Controller(bench)
    low.say(5)
    assert low.heard() == [("NOT_FOUND", 9)]


# --- 5.4: notifications ---------------------------------------------------------------------------


def test_5_4_without_any_primary_so_far_the_id_is_unset(bench):
    standby = Controller(bench, "new")
    standby.say(None)
    assert standby.heard() == [("NOT_FOUND", None)]


def test_5_4_device_and_role_as_given(bench):
    controller = Controller(bench, "r")
    controller.say(1)
    update = controller.messages[0].arbitration
    assert (update.device_id, update.role.name) == (DEVICE, "r")


def test_5_4_a_primarys_repeated_update_is_told_to_all(bench):
    backup, primary = controllers(bench, 4, 5)
    primary.say(5)
    assert (backup.heard(), primary.heard()) == ([("ALREADY_EXISTS", 5)], [("OK", 5)])


def test_5_4_other_roles_are_not_told(bench):
    (other,) = controllers(bench, 1, role="other")
    controllers(bench, 7)
    assert other.heard() == []


# --- 16.2 -----------------------------------------------------------------------------------------


def test_16_2_ids_are_compared_with_all_128_bits(bench):
    low, high = controllers(bench, 2**64 - 1, 2**127)
    assert (low.write(2**64 - 1), high.write(2**127)) == ("PERMISSION_DENIED", "OK")


def test_16_2_a_full_restart_resets_the_highest_id(bench):
    controllers(bench, 9)
    bench.service.power(False)
    bench.switch.unload()
    bench.switch.load(kitchen())
    bench.service.power(True)
    later = Controller(bench)
    later.say(1)
    assert later.heard() == [("OK", 1)]


def test_16_2_1_an_unset_id_is_below_zero(bench):
    (unset,) = controllers(bench, None, role="new")
    zero = Controller(bench, "new")
    zero.say(0)
    assert (unset.heard(), zero.heard()) == ([("ALREADY_EXISTS", 0)], [("OK", 0)])
