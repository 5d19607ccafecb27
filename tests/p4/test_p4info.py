"""P4Info from control planes built by hand, against what p4c writes for the same objects."""

from __future__ import annotations

import pytest
from finsy.proto import p4i, p4r
from google.protobuf import text_format

from sglb.p4 import ast
from sglb.p4.ast import Annotation
from sglb.p4.control_plane import (
    ControlPlane,
    CpAction,
    CpActionRef,
    CpControllerHeader,
    CpCounter,
    CpDigest,
    CpEntry,
    CpParam,
    CpProfile,
    CpRegister,
    CpTable,
    CpValueSet,
)
from sglb.p4.p4info import make_entries, make_p4info
from sglb.p4.p4info_names import field_ids, hash_name
from sglb.p4.source import BUILTIN, P4Error
from sglb.p4.types import (
    BitsT,
    BoolT,
    EnumT,
    ErrorT,
    FieldT,
    NewT,
    SerEnumT,
    StackT,
    StructT,
    TupleT,
    VarbitT,
)


def note(name: str, body: str | None = None) -> Annotation:
    tokens = tuple(t.strip('"') for t in (body or "").replace(",", " , ").split())
    return Annotation(span=BUILTIN, name=name, body=body, tokens=tokens)


def bits(width: int) -> BitsT:
    return BitsT(width)


def parsed(text: str) -> p4i.P4Info:
    return text_format.Parse(text, p4i.P4Info())


NO_ACTION = CpAction("NoAction", (note("noWarn", '"unused"'),))


def table(name: str, **more: object) -> CpTable:
    settings = {"default_action": "NoAction", "actions": (CpActionRef("NoAction"),), **more}
    return CpTable(name, **settings)


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("NoAction", 21257015),
        ("I.renamed", 18543608),
        ("top_level", 31915499),
        ("I.t", 49059515),
        ("abs.table", 38701530),
        ("I.x.y.z", 43867120),
        ("I.cee", 316112372),
        ("glob", 369646765),
        ("pin_t", 73494656),
    ],
)
def test_hashes_that_p4c_printed(name: str, suffix: int) -> None:
    assert hash_name(name) & 0xFFFFFF == suffix & 0xFFFFFF


def test_tables_and_actions() -> None:
    program = ControlPlane(
        actions=[
            NO_ACTION,
            CpAction(
                "I.renamed",
                (note("name", '"renamed"'),),
                (CpParam("pee", bits(8)), CpParam("q", bits(16))),
            ),
            CpAction(
                "I.act3",
                (note("id", "0x01000007"),),
                (CpParam("z", bits(8), (note("id", "9"),)),),
            ),
            CpAction("I.ghost", (note("hidden"),)),
        ],
        tables=[
            table(
                "abs.table",
                keys=(
                    CpParam("the op", bits(8), (note("name", '"the op"'),), "exact"),
                    CpParam("h.i.v", bits(32), (), "lpm"),
                    CpParam("sel", bits(32), (), "selector"),
                    CpParam("h.i.x[3:0]", bits(4), (), "optional"),
                ),
                actions=(
                    CpActionRef("I.renamed", (note("tableonly"),)),
                    CpActionRef("I.ghost"),
                    CpActionRef("NoAction", (note("defaultonly"),)),
                ),
            ),
            table(
                "I.t2",
                annotations=(note("id", "0x02000042"), note("mystery", '1, "two"')),
                default_action="I.renamed",
                default_args=(254, 5),
                const_default=True,
                support_timeout=True,
                size=0,
            ),
            table("I.secret", annotations=(note("hidden"),)),
        ],
    )
    assert make_p4info(program) == parsed(
        r"""
        pkg_info { arch: "v1model" }
        tables {
          preamble { id: 38701530 name: "abs.table" alias: "table" }
          match_fields { id: 1 name: "the op" bitwidth: 8 match_type: EXACT }
          match_fields { id: 2 name: "h.i.v" bitwidth: 32 match_type: LPM }
          match_fields { id: 4 name: "h.i.x[3:0]" bitwidth: 4 match_type: OPTIONAL }
          action_refs { id: 18543608 annotations: "@tableonly" scope: TABLE_ONLY }
          action_refs { id: 22859100 }
          action_refs { id: 21257015 annotations: "@defaultonly" scope: DEFAULT_ONLY }
          initial_default_action { action_id: 21257015 }
          size: 1024
        }
        tables {
          preamble {
            id: 33554498 name: "I.t2" alias: "t2" annotations: "@mystery(1 , \"two\")"
          }
          action_refs { id: 21257015 }
          const_default_action_id: 18543608
          initial_default_action {
            action_id: 18543608
            arguments { param_id: 1 value: "\376" }
            arguments { param_id: 2 value: "\000\005" }
          }
          size: 1024
          idle_timeout_behavior: NOTIFY_CONTROL
        }
        actions {
          preamble {
            id: 21257015 name: "NoAction" alias: "NoAction" annotations: "@noWarn(\"unused\")"
          }
        }
        actions {
          preamble { id: 18543608 name: "I.renamed" alias: "renamed" }
          params { id: 1 name: "pee" bitwidth: 8 }
          params { id: 2 name: "q" bitwidth: 16 }
        }
        actions {
          preamble { id: 16777223 name: "I.act3" alias: "act3" }
          params { id: 9 name: "z" bitwidth: 8 }
        }
        type_info { }
        """
    )


def test_aliases_are_unique_over_all_kinds() -> None:
    program = ControlPlane(
        actions=[NO_ACTION, CpAction("I.a.x"), CpAction("I.b.x"), CpAction("y")],
        counters=[CpCounter("E.y", size=1), CpCounter("I.b.c", size=1)],
    )
    info = make_p4info(program)
    assert [a.preamble.alias for a in info.actions] == ["NoAction", "a.x", "b.x", "y"]
    assert [c.preamble.alias for c in info.counters] == ["E.y", "c"]
    assert not info.HasField("type_info")


PORT = NewT(
    "PortNum_t",
    bits(9),
    ast.TypedefDecl(
        span=BUILTIN,
        name="PortNum_t",
        annotations=(note("p4runtime_translation", '"example.org/v1/port", 32'),),
        type=ast.BaseType(span=BUILTIN, kind="bit"),
        is_new=True,
    ),
)
NAME = NewT(
    "Name_t",
    bits(16),
    ast.TypedefDecl(
        span=BUILTIN,
        name="Name_t",
        annotations=(note("p4runtime_translation", '"example.org/v1/str", string'),),
        type=ast.BaseType(span=BUILTIN, kind="bit"),
        is_new=True,
    ),
)


def test_controller_headers_and_translations() -> None:
    program = ControlPlane(
        controller_headers=[
            CpControllerHeader(
                "packet_in",
                (note("controller_header", '"packet_in"'),),
                "pin_t",
                (
                    CpParam("ingress_port", PORT),
                    CpParam("_pad", bits(7), (note("padding"),)),
                    CpParam("why", bits(16), (note("id", "5"),)),
                    CpParam("who", NAME),
                    CpParam(
                        "in",
                        StructT("s", "struct", (FieldT("a", bits(4), (note("id", "8"),)),)),
                        (note("mine"),),
                    ),
                ),
            )
        ]
    )
    assert make_p4info(program) == parsed(
        r"""
        pkg_info { arch: "v1model" }
        controller_packet_metadata {
          preamble {
            id: 73494656 name: "packet_in" alias: "packet_in"
            annotations: "@controller_header(\"packet_in\")"
          }
          metadata { id: 1 name: "ingress_port" bitwidth: 32 type_name { name: "PortNum_t" } }
          metadata { id: 2 name: "_pad" bitwidth: 7 annotations: "@padding" }
          metadata { id: 5 name: "why" bitwidth: 16 }
          metadata { id: 3 name: "who" type_name { name: "Name_t" } }
          metadata { id: 8 name: "in.a" bitwidth: 4 annotations: "@mine" }
        }
        type_info {
          new_types {
            key: "PortNum_t"
            value { translated_type { uri: "example.org/v1/port" sdn_bitwidth: 32 } }
          }
          new_types {
            key: "Name_t"
            value { translated_type { uri: "example.org/v1/str" sdn_string { } } }
          }
        }
        """
    )


def test_externs() -> None:
    program = ControlPlane(
        actions=[NO_ACTION],
        tables=[
            table("I.b", implementation="I.ap", direct_counter="I.dc", direct_meter="I.dm"),
            table("I.a", implementation="I.ap"),
        ],
        profiles=[
            CpProfile(
                "I.ap",
                (
                    note("max_group_size", "8"),
                    note("selector_size_semantics", '"sum_of_members"'),
                    note("max_member_weight", "3"),
                    note("mode", '"fair"'),
                ),
                selector=True,
                size=64,
                tables=("I.b", "I.a"),
            )
        ],
        counters=[
            CpCounter("I.dc", kind="counter", unit="both", direct=True, table="I.b"),
            CpCounter("I.dm", kind="meter", unit="bytes", direct=True, table="I.b"),
            CpCounter("I.cee", kind="counter", unit="bytes", size=8),
            CpCounter("I.m", kind="meter", unit="packets", size=4),
        ],
        registers=[CpRegister("glob", type=bits(12), size=3)],
    )
    ids = {
        name: prefix << 24 | hash_name(name) & 0xFFFFFF
        for name, prefix in (
            ("I.ap", 0x11), ("I.dc", 0x13), ("I.dm", 0x15), ("I.m", 0x14), ("I.a", 2), ("I.b", 2)
        )
    }  # fmt: skip
    info = make_p4info(program)
    assert info.tables[0].implementation_id == ids["I.ap"]
    assert list(info.tables[0].direct_resource_ids) == [ids["I.dc"], ids["I.dm"]]
    info.ClearField("tables")
    info.ClearField("actions")
    assert info == parsed(
        f"""
        pkg_info {{ arch: "v1model" }}
        action_profiles {{
          preamble {{
            id: {ids["I.ap"]} name: "I.ap" alias: "ap" annotations: "@mode(\\"fair\\")"
          }}
          table_ids: {ids["I.a"]}
          table_ids: {ids["I.b"]}
          with_selector: true
          size: 64
          max_group_size: 8
          sum_of_members {{ max_member_weight: 3 }}
        }}
        counters {{
          preamble {{ id: 316112372 name: "I.cee" alias: "cee" }}
          spec {{ unit: BYTES }}
          size: 8
        }}
        direct_counters {{
          preamble {{ id: {ids["I.dc"]} name: "I.dc" alias: "dc" }}
          spec {{ unit: BOTH }}
          direct_table_id: {ids["I.b"]}
        }}
        meters {{
          preamble {{ id: {ids["I.m"]} name: "I.m" alias: "m" }}
          spec {{ unit: PACKETS }}
          size: 4
        }}
        direct_meters {{
          preamble {{ id: {ids["I.dm"]} name: "I.dm" alias: "dm" }}
          spec {{ unit: BYTES }}
          direct_table_id: {ids["I.b"]}
        }}
        registers {{
          preamble {{ id: 369646765 name: "glob" alias: "glob" }}
          type_spec {{ bitstring {{ bit {{ bitwidth: 12 }} }} }}
          size: 3
        }}
        type_info {{ }}
        """
    )


def test_value_sets() -> None:
    pair = StructT(
        "pair_t",
        "struct",
        (
            FieldT("a", bits(8), (note("name", '"aye"'),)),
            FieldT("b", bits(32), (note("match", "ternary"),)),
        ),
    )
    program = ControlPlane(
        value_sets=[
            CpValueSet("P.vs_renamed", type=bits(8), size=5),
            CpValueSet("P.v2", (note("id", "9"),), type=pair, size=6),
            CpValueSet(
                "P.v3",
                (note("id", "8"),),
                type=StructT("o", "struct", (FieldT("in", pair), FieldT("c", bits(1)))),
                size=1,
            ),
        ]
    )
    assert make_p4info(program) == parsed(
        """
        pkg_info { arch: "v1model" }
        value_sets {
          preamble { id: 65857079 name: "P.vs_renamed" alias: "vs_renamed" }
          match { id: 1 bitwidth: 8 match_type: EXACT }
          size: 5
        }
        value_sets {
          preamble { id: 50331657 name: "P.v2" alias: "v2" }
          match { id: 1 name: "aye" bitwidth: 8 match_type: EXACT }
          match { id: 2 name: "b" bitwidth: 32 match_type: TERNARY }
          size: 6
        }
        value_sets {
          preamble { id: 50331656 name: "P.v3" alias: "v3" }
          match { id: 1 name: "in.aye" bitwidth: 8 match_type: EXACT }
          match { id: 2 name: "in.b" bitwidth: 32 match_type: TERNARY }
          match { id: 3 name: "c" bitwidth: 1 match_type: EXACT }
          size: 1
        }
        """
    )


def test_every_kind_of_type() -> None:
    header = StructT("h_t", "header", (FieldT("a", bits(4)), FieldT("v", VarbitT(32))))
    union = StructT("u_t", "header_union", (FieldT("h", header),))
    struct = StructT(
        "all_t",
        "struct",
        (
            FieldT("i", BitsT(7, signed=True)),
            FieldT("b", BoolT()),
            FieldT("h", header),
            FieldT("u", union),
            FieldT("s", StackT(header, 3)),
            FieldT("us", StackT(union, 2)),
            FieldT("e", EnumT("E", ("x", "y"))),
            FieldT("se", SerEnumT("SE", bits(12), ("p",), (0x123,))),
            FieldT("err", ErrorT()),
            FieldT("t", TupleT((bits(1), BoolT()))),
            FieldT("n", NewT("N", NewT("M", bits(5)))),
        ),
    )
    program = ControlPlane(
        digests=[CpDigest("all_t", type=struct), CpDigest("all_t", type=struct)],
        errors=("NoError", "Mine"),
    )
    assert make_p4info(program) == parsed(
        f"""
        pkg_info {{ arch: "v1model" }}
        digests {{
          preamble {{
            id: {0x17 << 24 | hash_name("all_t") & 0xFFFFFF} name: "all_t" alias: "all_t"
          }}
          type_spec {{ struct {{ name: "all_t" }} }}
        }}
        type_info {{
          structs {{ key: "all_t" value {{
            members {{ name: "i" type_spec {{ bitstring {{ int {{ bitwidth: 7 }} }} }} }}
            members {{ name: "b" type_spec {{ bool {{ }} }} }}
            members {{ name: "h" type_spec {{ header {{ name: "h_t" }} }} }}
            members {{ name: "u" type_spec {{ header_union {{ name: "u_t" }} }} }}
            members {{ name: "s"
              type_spec {{ header_stack {{ header {{ name: "h_t" }} size: 3 }} }} }}
            members {{ name: "us"
              type_spec {{ header_union_stack {{ header_union {{ name: "u_t" }} size: 2 }} }} }}
            members {{ name: "e" type_spec {{ enum {{ name: "E" }} }} }}
            members {{ name: "se" type_spec {{ serializable_enum {{ name: "SE" }} }} }}
            members {{ name: "err" type_spec {{ error {{ }} }} }}
            members {{ name: "t" type_spec {{ tuple {{
              members {{ bitstring {{ bit {{ bitwidth: 1 }} }} }}
              members {{ bool {{ }} }}
            }} }} }}
            members {{ name: "n" type_spec {{ new_type {{ name: "N" }} }} }}
          }} }}
          headers {{ key: "h_t" value {{
            members {{ name: "a" type_spec {{ bit {{ bitwidth: 4 }} }} }}
            members {{ name: "v" type_spec {{ varbit {{ max_bitwidth: 32 }} }} }}
          }} }}
          header_unions {{ key: "u_t" value {{ members {{ name: "h" header {{ name: "h_t" }} }} }} }}
          enums {{ key: "E" value {{ members {{ name: "x" }} members {{ name: "y" }} }} }}
          error {{ members: "NoError" members: "Mine" }}
          serializable_enums {{ key: "SE" value {{
            underlying_type {{ bitwidth: 12 }}
            members {{ name: "p" value: "\\001#" }}
          }} }}
          new_types {{ key: "N" value {{
            original_type {{ bitstring {{ bit {{ bitwidth: 5 }} }} }}
          }} }}
        }}
        """
    )


def test_package_and_structured_annotations() -> None:
    one = ast.IntLit(span=BUILTIN, value=1)
    number = ast.Binary(span=BUILTIN, op="+", left=ast.IntLit(span=BUILTIN, value=6), right=one)
    listed = Annotation(
        span=BUILTIN,
        name="list",
        structured=True,
        exprs=(number, ast.BoolLit(span=BUILTIN, value=True)),
    )
    pairs = Annotation(
        span=BUILTIN,
        name="pairs",
        structured=True,
        pairs=(("k", ast.StringLit(span=BUILTIN, value="v")),),
    )
    empty = Annotation(span=BUILTIN, name="empty", structured=True)
    program = ControlPlane(
        package_annotations=(
            note("pkginfo", 'name = "p", version = "1.2"'),
            note("platform_property", "multicast_group_table_size = 64"),
            note("brief", '"short"'),
            listed,
            pairs,
            empty,
        )
    )
    assert make_p4info(program) == parsed(
        """
        pkg_info {
          arch: "v1model" name: "p" version: "1.2" doc { brief: "short" }
          platform_properties { multicast_group_table_size: 64 }
          structured_annotations {
            name: "list"
            expression_list { expressions { int64_value: 7 } expressions { bool_value: true } }
          }
          structured_annotations {
            name: "pairs" kv_pair_list { kv_pairs { key: "k" value { string_value: "v" } } }
          }
          structured_annotations { name: "empty" }
        }
        """
    )


def test_entries() -> None:
    keys = tuple(
        CpParam(kind, bits(9), (), kind)
        for kind in ("exact", "lpm", "ternary", "range", "optional")
    )
    program = ControlPlane(
        actions=[CpAction("I.set", (), (CpParam("v", bits(8)),))],
        tables=[
            table(
                "I.t",
                keys=keys,
                default_action="I.set",
                actions=(CpActionRef("I.set"),),
                entries_const=True,
                entries=(
                    CpEntry(
                        ((5, 511), (0x1FF, 0x1F0), (3, 7), (4, 6), (1, 511)), "I.set", (1,), 0, True
                    ),
                    CpEntry(((5, 511), None, None, (0, 511), None), "I.set", (2,), 0, True),
                ),
            ),
            table(
                "I.u",
                keys=keys[2:3],
                default_action="I.set",
                actions=(CpActionRef("I.set"),),
                entries=(CpEntry(((3, 7),), "I.set", (1,), 30, True),),
            ),
        ],
    )
    action, first, second = (
        1 << 24 | hash_name("I.set") & 0xFFFFFF,
        2 << 24 | hash_name("I.t") & 0xFFFFFF,
        2 << 24 | hash_name("I.u") & 0xFFFFFF,
    )
    expected = f"""
        updates {{ type: INSERT entity {{ table_entry {{
          table_id: {first}
          match {{ field_id: 1 exact {{ value: "\\000\\005" }} }}
          match {{ field_id: 2 lpm {{ value: "\\001\\360" prefix_len: 5 }} }}
          match {{ field_id: 3 ternary {{ value: "\\000\\003" mask: "\\000\\007" }} }}
          match {{ field_id: 4 range {{ low: "\\000\\004" high: "\\000\\006" }} }}
          match {{ field_id: 5 optional {{ value: "\\000\\001" }} }}
          action {{ action {{ action_id: {action} params {{ param_id: 1 value: "\\001" }} }} }}
          priority: 2 is_const: true
        }} }} }}
        updates {{ type: INSERT entity {{ table_entry {{
          table_id: {first}
          match {{ field_id: 1 exact {{ value: "\\000\\005" }} }}
          action {{ action {{ action_id: {action} params {{ param_id: 1 value: "\\002" }} }} }}
          priority: 1 is_const: true
        }} }} }}
        updates {{ type: INSERT entity {{ table_entry {{
          table_id: {second}
          match {{ field_id: 1 ternary {{ value: "\\000\\003" mask: "\\000\\007" }} }}
          action {{ action {{ action_id: {action} params {{ param_id: 1 value: "\\001" }} }} }}
          priority: 30 is_const: true
        }} }} }}
        """
    assert make_entries(program) == text_format.Parse(expected, p4r.WriteRequest())
    info = make_p4info(program)
    assert [(t.is_const_table, t.has_initial_entries) for t in info.tables] == [
        (True, True),
        (False, True),
    ]


def test_field_ids_skip_those_the_user_took() -> None:
    def ids(*given: str) -> list[int]:
        return field_ids("t", [("f", (note("id", g),) if g else ()) for g in given])

    assert ids("", "", "") == [1, 2, 3]
    assert ids("", "", "5") == [1, 2, 5]
    assert ids("2", "", "") == [2, 3, 4]
    assert ids("", "1", "") == [2, 1, 3]


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (ControlPlane(actions=[CpAction("a", (note("id", "0x02000001"),))]), "wrong prefix"),
        (
            ControlPlane(actions=[CpAction(n, (note("id", "7"),)) for n in "ab"]),
            "a and b have the same @id",
        ),
        (
            ControlPlane(
                counters=[CpCounter("c", size=1), CpCounter("c", size=1)],
            ),
            "two counters have the name c",
        ),
        (
            ControlPlane(actions=[CpAction("a", (), (CpParam("p", bits(1), (note("id", "0"),)),))]),
            "0 is no valid @id",
        ),
        (
            ControlPlane(value_sets=[CpValueSet("v", type=TupleT(()), size=1)]),
            "value set v holds",
        ),
        (ControlPlane(actions=[CpAction("a", (note("brief", "7"),))]), "@brief needs a string"),
        (ControlPlane(actions=[CpAction("a", (note("id", "x"),))]), "@id needs one integer"),
    ],
)
def test_errors(program: ControlPlane, message: str) -> None:
    with pytest.raises(P4Error, match=message) as caught:
        make_p4info(program)
    assert caught.value.phase == "p4info"


def test_colliding_hashes_move_on() -> None:
    assert hash_name("I.bhya") & 0xFFFFFF == hash_name("I.dsnd") & 0xFFFFFF == 15958618
    actions = [CpAction("I.dsnd"), CpAction("I.bhya"), CpAction("I.other")]
    info = make_p4info(ControlPlane(actions=actions))
    # Names are taken in sorted order, whatever the order of declarations.
    assert [a.preamble.id & 0xFFFFFF for a in info.actions][:2] == [15958619, 15958618]
    taken = CpAction("I.mine", (note("id", "15958618"),))
    info = make_p4info(ControlPlane(actions=[*actions, taken]))
    assert [a.preamble.id & 0xFFFFFF for a in info.actions][:2] == [15958620, 15958619]
