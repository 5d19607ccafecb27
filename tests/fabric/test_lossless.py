"""The lossless fabric's keys as integers, and what is said of settings that cannot work."""

from __future__ import annotations

from typing import Any

import pytest

from sglb.fabric.lossless import ClassConfig, least_port_headroom_bytes, port_headroom_bytes
from sglb.fabric.scenario import Scenario, from_dict
from sglb.fabric.yaml_source import SourceError

FABRIC: dict[str, Any] = {
    "engine": "native",
    "topology": {"leaf_spine": {"leaves": 2, "spines": 2, "hosts_per_leaf": 2}},
    "workload": {"all_to_all": {"bytes_per_pair": 10}},
    "transport": {"traffic_class": 3},
    "switch": {
        "buffer": {"total_bytes": 8_000_000, "classes": [{"class": 3, "lossless": True}]},
        "pfc": {"enabled": True},
        "ecn": {"kmin_bytes": 50_000, "kmax_bytes": 100_000},
    },
}


def _with(**changes: Any) -> dict[str, Any]:
    """The fabric with some keys of blocks changed: `switch__pfc={...}` merges into switch.pfc."""

    def merge(block: dict[str, Any], keys: list[str], value: Any) -> dict[str, Any]:
        head, *rest = keys
        if rest:
            return {**block, head: merge(block.get(head, {}), rest, value)}
        old = block.get(head)
        both = isinstance(old, dict) and isinstance(value, dict)
        return {**block, head: {**old, **value} if both else value}  # type: ignore[dict-item]

    data = FABRIC
    for path, value in changes.items():
        data = merge(data, path.split("__"), value)
    return data


def _load(**changes: Any) -> Scenario:
    return from_dict(_with(**changes))


def _said(**changes: Any) -> str:
    with pytest.raises(SourceError) as caught:
        from_dict(_with(**changes), "f")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def _warned(**changes: Any) -> list[str]:
    return [str(w) for w in _load(**changes).warnings]


def test_defaults_are_a_fabric_without_any_of_it() -> None:
    scenario = from_dict({k: FABRIC[k] for k in ("topology", "workload")})
    buffer = scenario.buffer
    assert (scenario.model.engine, buffer.total_bytes, buffer.pfc) == ("native", 0, False)
    assert (buffer.watchdog_ps, buffer.watchdog_drops) == (0, False)
    assert [c.number for c in buffer.classes] == list(range(8))
    assert {(c.strict, c.lossless, c.queue_limit_bytes) for c in buffer.classes} == {
        (True, False, 2_000_000)
    }
    assert scenario.headroom_bytes(1, 1) == 0
    assert not scenario.dcqcn.enabled
    assert scenario.warnings == ()


def test_classes_take_what_is_their_own_and_the_switch_s_else() -> None:
    classes = [
        {"class": 3, "lossless": True, "scheduling": "dwrr", "weight": 3, "dynamic_th": -2},
        {"class": 4, "scheduling": "dwrr", "alpha": 1.5, "reserved_bytes": 7},
        {"class": 5, "ecn": {"kmin_bytes": 1, "kmax_bytes": 2, "pmax": 1.0}},
    ]
    scenario = _load(
        switch__buffer={"classes": classes, "dynamic_th": -3, "reserved_bytes": 100},
        switch__pfc={"xoff_bytes": 60_000, "xon_offset_bytes": 5_000},
        switch__queue_bytes=9_000,
    )
    # A frame of 4096 bytes of payload is 4154 bytes.
    common = (9_000, 60_000, 5_000)
    watermarks = (50_000, 100_000, 0.2)
    three, four, five, six = scenario.buffer.classes[3:7]
    quantum = 3 * 4_154
    assert three == ClassConfig(3, True, False, quantum, 1, 4, 100, *common, *watermarks)
    assert four == ClassConfig(4, False, False, 4_154, 3, 2, 7, *common, *watermarks)
    assert five == ClassConfig(5, False, True, 4_154, 1, 8, 100, *common, 1, 2, 1.0)
    assert six == ClassConfig(6, False, True, 4_154, 1, 8, 100, *common, *watermarks)


def test_pause_and_watchdog() -> None:
    dog = {"detection_us": 2, "restore_us": 3, "action": "forward"}
    buffer = _load(switch__pfc={"pause_quanta": 100, "watchdog": dog}).buffer
    assert buffer.pause_ps(100_000_000_000) == 512_000  # 51,200 bit times of 10 ps
    assert (buffer.watchdog_ps, buffer.watchdog_restore_ps) == (2_000_000, 3_000_000)
    assert not buffer.watchdog_drops
    assert _load(switch__pfc={"watchdog": {}}).buffer.watchdog_drops


def test_auto_headroom_by_hand() -> None:
    scenario = _load()
    switch, transport = scenario.model.switch, scenario.model.transport
    spec = scenario.topology.links[0].spec
    # 100 Gbit/s: 500 ns of cable are 6250 bytes, the response 394 x 64 = 25,216. The frame, 4154,
    # counts twice: 4154 + 2 x (4154 + 12,500 + 819 + 25,216) = 89,532, in KiB 90,112; and 500 ns of
    # pipeline before the queue and as much at the peer behind it, 12,500 more.
    assert port_headroom_bytes(spec, switch, transport) == 90_112 + 12_500
    assert scenario.headroom_bytes(1, 1) == 102_612
    # At least: two frames of 4178 on the wire, the pause of 84, the response, and 2000 ns.
    least = 2 * 4_178 + 84 + 25_216 + 25_000
    assert least_port_headroom_bytes(spec, switch, transport) == least


def test_headroom_from_its_parts() -> None:
    parts = {"peer_response_quanta": 0, "mac_phy_bytes": 0}
    scenario = _load(switch__pfc=parts, switch__buffer={"cell_bytes": 1})
    assert scenario.headroom_bytes(1, 1) == 21 * 1_024 + 12_500  # 4154 + 4154 + 12,500 = 20,808
    assert _load(switch__pfc={"headroom_bytes": 77_000}).headroom_bytes(1, 1) == 77_000


def test_a_sound_fabric_has_no_warnings() -> None:
    assert _warned() == []


def test_what_cannot_be_is_one_line() -> None:
    # 4 ports of 102,612 bytes on a leaf.
    assert _said(switch__buffer={"total_bytes": 410_448}) == (
        "f: switch.buffer.total_bytes: is 410448, and leaf0 (4 ports) needs 410448 bytes of headroom "
        "alone; give it more"
    )
    _load(switch__buffer={"total_bytes": 410_449})
    assert "and 320 bytes of reservations alone" in _said(
        switch__buffer={"total_bytes": 410_500, "reserved_bytes": 10}
    )
    assert "pfc.enabled needs a lossless class" in _said(switch__buffer={"classes": []})
    assert "a lossless class needs total_bytes" in _said(switch__buffer={"total_bytes": None})
    assert "class 3 is listed twice" in _said(
        switch__buffer={"classes": [{"class": 3, "lossless": True}, {"class": 3}]}
    )
    assert "alpha and dynamic_th" in _said(switch__buffer={"alpha": 1, "dynamic_th": 1})
    assert "weight goes with scheduling: dwrr" in _said(
        switch__buffer={"classes": [{"class": 3, "lossless": True, "weight": 1}]}
    )
    assert "should be less than or equal to 6, got 7" in _said(transport__traffic_class=7)


def test_what_is_hardly_meant_is_a_warning() -> None:
    assert _warned(transport__traffic_class=2) == [
        "<scenario>: transport.traffic_class: is 2, which is not a lossless class: PFC protects no "
        "host's data"
    ]
    assert _warned(switch__pfc={"enabled": False}) == [
        "<scenario>: switch.buffer.classes: class 3 is lossless, but pfc is off: its packets can be lost"
    ]
    assert _warned(switch__pfc={"headroom_bytes": 58_655}) == [
        "<scenario>: switch.pfc.headroom_bytes: is 58655, and 58656 bytes can arrive on leaf0-h0 after "
        "a pause was decided: a lossless class can lose packets"
    ]
    assert _warned(switch__pfc={"headroom_bytes": 58_656}) == []


def test_ecn_must_speak_before_pfc() -> None:
    for pfc in ({"xoff_bytes": 50_000}, {"xoff_bytes": 49_999}):
        (said,) = _warned(switch__pfc=pfc)
        assert "of class 3 is 50000, not below the" in said
        assert said.endswith("PFC acts before ECN")
    assert _warned(switch__pfc={"xoff_bytes": 50_001}) == []
    # Dynamic: a port alone gets alpha / (1 + alpha) of what is not headroom.
    shared = 4 * 102_612 + 450_000
    assert _warned(switch__buffer={"total_bytes": shared + 9}) == []  # 50,001 of 450,009
    assert len(_warned(switch__buffer={"total_bytes": shared})) == 1


def test_the_reference_engine_says_what_it_lacks() -> None:
    plain = {k: FABRIC[k] for k in ("topology", "workload")}
    for block, key in (
        ({"switch": {"buffer": {"total_bytes": 10**7}}}, "switch.buffer.total_bytes"),
        ({"switch": {"buffer": {"classes": [{"class": 1}]}}}, "switch.buffer.classes"),
        ({"transport": {"recovery": "go_back_n"}}, "transport.recovery"),
        ({"transport": {"ack_timer_us": 1}}, "transport.ack_timer_us"),
        ({"transport": {"traffic_class": 1}}, "transport.traffic_class"),
        ({"transport": {"dcqcn": {"enabled": True}}}, "transport.dcqcn.enabled"),
    ):
        with pytest.raises(SourceError) as caught:
            from_dict({**plain, **block, "engine": "reference"}, "f")
        lacks = "is not known to the reference engine; add `engine: native`"
        assert str(caught.value) == f"f: {key}: {lacks}"
        from_dict({**plain, **block, "engine": "native"})


def test_the_native_engine_needs_delays() -> None:
    said = _said(links={"fabric": {"delay_ns": 0}})
    assert said.startswith(
        "f: links: leaf0-spine0 has no delay, which is how far the native engine"
    )
    from_dict(
        {
            **{k: FABRIC[k] for k in ("topology", "workload")},
            "engine": "reference",
            "links": {"fabric": {"delay_ns": 0}},
        }
    )


def test_slow_path_delays_in_either_form() -> None:
    def delays(**keys: float) -> tuple[float, float, float]:
        block = _load(control_plane=keys).model.control_plane
        return block.reaction_ms, block.notification_ms, block.programming_ms

    assert delays() == (61, 0, 61)
    assert delays(reaction_ms=5) == (5, 0, 5)
    assert delays(notification_ms=11) == (61, 11, 50)
    assert delays(programming_ms=50) == (50, 0, 50)
    assert delays(notification_ms=1, programming_ms=2) == (3, 1, 2)
    assert delays(reaction_ms=9, programming_ms=2) == (9, 7, 2)
    assert delays(reaction_ms=3, notification_ms=1, programming_ms=2) == (3, 1, 2)
    assert "must not exceed reaction_ms (61)" in _said(control_plane={"notification_ms": 62})
    wrong = {"reaction_ms": 4, "notification_ms": 1, "programming_ms": 2}
    assert "reaction_ms (4) must be notification_ms + programming_ms (3)" in _said(
        control_plane=wrong
    )
    assert "must be a number" in _said(control_plane={"programming_ms": "x"})


def test_the_model_states_everything_and_reads_itself_back() -> None:
    model = _load(control_plane={"notification_ms": 11}).model
    data = model.model_dump(mode="json", by_alias=True)
    assert from_dict(data).model == model
