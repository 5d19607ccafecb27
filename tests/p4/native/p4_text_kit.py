"""Random P4 programs as text: headers of any widths, parsers that branch and loop, all operators."""

from __future__ import annotations

import random

TEMPLATE = """
#include <core.p4>
#include <v1model.p4>
{headers}
struct headers_t {{ {members} }}
struct meta_t {{ {metadata} }}
parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{
  bit<8> rounds;
  state start {{ rounds = 0; transition s0; }}
{states}
}}
control V(inout headers_t hdr, inout meta_t meta) {{ apply {{ {verify} }} }}
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{
  {locals}
  action act(bit<16> p, bit<9> q) {{ {action} }}
  apply {{
    sm.egress_spec = 1;
    {ingress}
  }}
}}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{
  apply {{ {egress} }}
}}
control C(inout headers_t hdr, inout meta_t meta) {{ apply {{ {compute} }} }}
control D(packet_out pkt, in headers_t hdr) {{ apply {{ {emits} }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""

ALGORITHMS = ["crc16", "crc32", "csum16", "xor16", "identity", "crc16_custom", "crc32_custom"]


class Program:
    """One random program; `text` is its source."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.whole = rng.random() < 0.6  # headers of whole bytes
        self.names = [f"h{i}" for i in range(rng.randint(2, 4))]
        self.fields: dict[str, int] = {}
        self.varbit: dict[str, int] = {}
        self.shapes = {name: self._shape(name) for name in self.names}
        self.metadata = {f"meta.m{i}": self._width() for i in range(5)}
        self.fields.update(self.metadata)
        self.locals = {f"v{i}": self._width() for i in range(4)}
        self.text = self._text()

    def _width(self) -> int:
        return self.rng.choice([1, 3, 4, 8, 8, 9, 16, 16, 20, 32, 48, 64, 65, 128, 150])

    def _shape(self, name: str) -> str:
        rng, widths = self.rng, [self._width() for _ in range(self.rng.randint(1, 6))]
        if self.whole and sum(widths) % 8:
            widths.append(8 - sum(widths) % 8)
        lines = [f"bit<{w}> f{i};" for i, w in enumerate(widths)]
        self.fields.update({f"hdr.{name}.f{i}": w for i, w in enumerate(widths)})
        if rng.random() < 0.35:
            self.varbit[name] = rng.choice([16, 64, 320])
            lines.insert(rng.randint(0, len(lines)), f"varbit<{self.varbit[name]}> v;")
        return f"header {name}_t {{ {' '.join(lines)} }}"

    # --- expressions ------------------------------------------------------------------------------

    def leaf(self, width: int, where: dict[str, int]) -> str:
        rng = self.rng
        fitting = [name for name, w in where.items() if w == width]
        if fitting and rng.random() < 0.6:
            return rng.choice(fitting)
        wider = [(name, w) for name, w in where.items() if w > width]
        if wider and rng.random() < 0.6:
            name, w = rng.choice(wider)
            low = rng.randint(0, w - width)
            return f"{name}[{low + width - 1}:{low}]"
        top = (1 << width) - 1
        value = rng.choice([0, 1, top, top >> 1, rng.getrandbits(width)])
        return f"{width}w{value}"

    def expr(self, width: int, depth: int, where: dict[str, int]) -> str:
        rng = self.rng
        if depth <= 0:
            return self.leaf(width, where)
        kind = rng.randrange(9)
        a, b = (self.expr(width, depth - 1, where) for _ in range(2))
        if kind < 3:
            op = rng.choice(["+", "-", "*", "&", "|", "^", "|+|", "|-|"])
            return f"({a} {op} {b})"
        if kind == 3:
            amount = self.expr(rng.choice([3, 8, 16]), depth - 1, where)
            op = rng.choice(["<<", ">>"])
            if rng.random() < 0.4 and width > 1:
                return f"(bit<{width}>)((int<{width}>){a} {op} {amount})"
            return f"({a} {op} {amount})"
        if kind == 4:
            return f"({self.cond(depth - 1, where)} ? {a} : {b})"
        if kind == 5:
            other = self._width()
            if other > 1 and width > 1 and rng.random() < 0.4:
                inner = self.expr(other, depth - 1, where)
                return f"(bit<{width}>)(int<{width}>)(int<{other}>){inner}"
            return f"(bit<{width}>){self.expr(other, depth - 1, where)}"
        if kind == 6 and width > 1:
            left = rng.randint(1, width - 1)
            high, low = (self.expr(w, depth - 1, where) for w in (left, width - left))
            return f"({high} ++ {low})"
        if kind == 7:
            return f"({rng.choice('~-')}{a})"
        if width > 1:
            op = rng.choice(["+", "-", "|+|", "|-|"])
            return f"(bit<{width}>)((int<{width}>){a} {op} (int<{width}>){b})"
        return a

    def cond(self, depth: int, where: dict[str, int]) -> str:
        rng = self.rng
        kind = rng.randrange(5)
        if kind == 0 and depth > 0:
            op = rng.choice(["&&", "||"])
            return f"({self.cond(depth - 1, where)} {op} !{self.cond(depth - 1, where)})"
        if kind == 1:
            return f"hdr.{rng.choice(self.names)}.isValid()"
        width = self._width()
        a, b = (self.expr(width, depth, where) for _ in range(2))
        op = rng.choice(["==", "!=", "<", "<=", ">", ">="])
        if kind == 2 and width > 1:
            return f"((int<{width}>){a} {op} (int<{width}>){b})"
        return f"({a} {op} {b})"

    # --- statements -------------------------------------------------------------------------------

    def assign(self, targets: dict[str, int], where: dict[str, int]) -> str:
        name = self.rng.choice(list(targets))
        width = targets[name]
        if width > 2 and self.rng.random() < 0.2:
            low = self.rng.randrange(width - 1)
            high = self.rng.randrange(low, width)
            return f"{name}[{high}:{low}] = {self.expr(high - low + 1, 2, where)};"
        return f"{name} = {self.expr(width, 3, where)};"

    def stmts(self, targets: dict[str, int], where: dict[str, int], depth: int = 2) -> str:
        made = []
        for _ in range(self.rng.randint(1, 4)):
            kind = self.rng.randrange(8)
            if kind == 0 and depth:
                then = self.stmts(targets, where, depth - 1)
                other = self.stmts(targets, where, depth - 1)
                made.append(f"if ({self.cond(2, where)}) {{ {then} }} else {{ {other} }}")
            elif kind == 1:
                name = self.rng.choice(self.names)
                made.append(f"hdr.{name}.{self.rng.choice(['setValid', 'setInvalid'])}();")
            else:
                made.append(self.assign(targets, where))
        return "\n    ".join(made)

    def hashed(self, where: dict[str, int]) -> str:
        name, width = self.rng.choice(
            [(n, w) for n, w in self.metadata.items() if w <= 64] or [("", 0)]
        )
        if not name:
            return ""
        data = self._list(where)
        base = self.expr(width, 1, where)
        top = self.rng.choice([f"{width}w{(1 << width) - 1}", self.leaf(width, where)])
        algorithm = self.rng.choice(ALGORITHMS)
        return f"hash({name}, HashAlgorithm.{algorithm}, {base}, {data}, {top});"

    def _list(self, where: dict[str, int]) -> str:
        some = [self.rng.choice(list(where)) for _ in range(self.rng.randint(1, 5))]
        some += [f"hdr.{name}.v" for name in self.varbit if self.rng.random() < 0.5]
        return "{ " + ", ".join(some) + " }"

    def checksum(self, call: str) -> str:
        targets = {n: w for n, w in self.fields.items() if 8 <= w <= 32}
        if not targets:
            return ""
        name = self.rng.choice(list(targets))
        algorithm = self.rng.choice(ALGORITHMS)
        payload = self.rng.choice(["", "_with_payload"])
        cond = self.rng.choice(["true", self.cond(1, self.fields)])
        headers = {n: w for n, w in self.fields.items() if n.startswith("hdr.")}
        data = self._list(headers)
        return f"{call}_checksum{payload}({cond}, {data}, {name}, HashAlgorithm.{algorithm});"

    # --- the whole --------------------------------------------------------------------------------

    def _states(self) -> str:
        rng, made = self.rng, []
        for i, name in enumerate(self.names):
            length = ""
            if name in self.varbit:
                length = ", (bit<32>)" + self.expr(8, 1, self.metadata)
                if rng.random() < 0.8:
                    length = (
                        f", ((bit<32>){self.leaf(8, self.metadata)} & {self.varbit[name] // 8}) * 8"
                    )
            body = f"pkt.extract(hdr.{name}{length});"
            if rng.random() < 0.3:
                body += f" meta.m0 = pkt.lookahead<bit<{self.metadata['meta.m0']}>>();"
            if rng.random() < 0.2:
                body += f" pkt.advance({rng.choice([8, 16, 24, 4])});"
            body += " " + self.assign(self.metadata, self.fields)
            body += f" verify({self.cond(1, self.fields)}, error.NoMatch);" * (rng.random() < 0.2)
            following = f"s{i + 1}" if i + 1 < len(self.names) else "accept"
            keys = [rng.choice(list(self.fields)) for _ in range(rng.randint(1, 2))]
            cases = "".join(
                f"{self._keyset(keys)}: {rng.choice([following, 'accept', 'again' + str(i)])}; "
                for _ in range(rng.randint(0, 3))
            )
            go = f"transition select({', '.join(keys)}) {{ {cases}default: {following}; }}"
            made.append(f"  state s{i} {{ {body} {go} }}")
            back = rng.choice([f"s{i}", following])
            go = f"transition select(rounds) {{ 3: accept; default: {back}; }}"
            made.append(f"  state again{i} {{ rounds = rounds + 1; {go} }}")
        return "\n".join(made)

    def _keyset(self, keys: list[str]) -> str:
        parts = []
        for key in keys:
            width = self.fields[key]
            a, b = sorted(self.rng.getrandbits(width) for _ in range(2))
            parts.append(
                self.rng.choice(
                    [
                        f"{width}w{a}",
                        f"{width}w{a} &&& {width}w{b}",
                        f"{width}w{a} .. {width}w{b}",
                        "_",
                    ]
                )
            )
        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"

    def _text(self) -> str:
        visible = {**self.fields, **self.locals}
        action = {"meta.m1": self.metadata["meta.m1"], **self.fields}
        ingress = self.stmts(visible, visible) + "\n    " + self.hashed(visible)
        calls = "\n    ".join(
            f"act({self.expr(16, 2, visible)}, {self.expr(9, 2, visible)});" for _ in range(2)
        )
        return TEMPLATE.format(
            headers="\n".join(self.shapes.values()),
            members=" ".join(f"{name}_t {name};" for name in self.names),
            metadata=" ".join(f"bit<{w}> {n[5:]};" for n, w in self.metadata.items()),
            states=self._states(),
            verify=self.checksum("verify"),
            locals=" ".join(
                f"bit<{w}> {n} = {w}w{i};" for i, (n, w) in enumerate(self.locals.items())
            ),
            action=self.stmts(action, {**action, "p": 16, "q": 9}, 1),
            ingress=ingress + "\n    " + calls + "\n    " + self.stmts(visible, visible),
            egress=self.stmts(self.fields, self.fields),
            compute=self.checksum("update"),
            emits=" ".join(f"pkt.emit(hdr.{name});" for name in self.names),
        )
