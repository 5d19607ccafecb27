"""Table lookups and value sets as LLVM text, over the memory that `table_layout` describes.

Each function is written for the widths and kinds of one declaration's keys; what the table holds is
read from its head at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sglb.p4 import ir
from sglb.p4.native import abi
from sglb.p4.native import table_layout as lay
from sglb.p4.native.table_layout import IndexLayout, KeyShape, Kind


class _Text:
    """A function's text under construction, with fresh names for values and blocks."""

    def __init__(self, head: str, trail: int | None = None) -> None:
        self._trail = trail
        self._lines = [f"{head} {{", "entry:"]
        self._names = 0
        self.block = "entry"

    def line(self, text: str) -> None:
        """One instruction without a result."""
        self._lines.append(f"  {text}")

    def let(self, text: str) -> str:
        """One instruction; gives the name of its result."""
        self._names += 1
        name = f"%v{self._names}"
        self._lines.append(f"  {name} = {text}")
        return name

    def label(self) -> str:
        """A fresh name for a block."""
        self._names += 1
        return f"b{self._names}"

    def start(self, label: str) -> None:
        """Begins a block."""
        self._lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        """Ends a block."""
        self.line(f"br label %{label}")

    def branch(self, condition: str, then: str, other: str) -> None:
        """Ends a block."""
        self.line(f"br i1 {condition}, label %{then}, label %{other}")

    def load(self, kind: str, base: str, offset_bytes: int = 0) -> str:
        """A value of `base[offset_bytes]`."""
        return self.let(f"load {kind}, ptr {self.at(base, offset_bytes)}")

    def at(self, base: str, offset_bytes: int) -> str:
        """The address so many bytes on."""
        if not offset_bytes:
            return base
        return self.let(f"getelementptr inbounds i8, ptr {base}, i64 {offset_bytes}")

    def leave(self, place: str, word: int = 0) -> None:
        """Leaves an address in a word of those that the function has in `%trail`, if it has any."""
        if self._trail is not None:
            self.trail(place, self._trail + word)

    def trail(self, place: str, word: int) -> None:
        """Leaves an address in a word of `%trail`."""
        number = self.let(f"ptrtoint ptr {place} to i64")
        line = self.let(f"trunc i64 {self.let(f'lshr i64 {number}, {abi.TRAIL_SHIFT}')} to i32")
        self.line(f"store i32 {line}, ptr {self.at('%trail', word * 4)}, align 4")

    def end(self) -> str:
        """The whole function."""
        return "\n".join([*self._lines, "}", ""])


# --- the functions --------------------------------------------------------------------------------


def lookup_function(
    table: ir.Table, index: int, algorithm: str = "crc32", trail: int | None = None
) -> str:
    """The lookup of table number `index`, and the functions that only it calls.

    `define internal {ptr, ptr} @lookup_<index>(ptr %head, iW0 %k0, …, ptr %selector,
    i32 %selector_bytes, i64 %now, ptr %trail)`: gives the result's record (action and data) and
    the entry's (hit flag, counter, meter), never null. `algorithm` is the hash of the table's action
    selector, whose function must be in the module when the table has one. `trail` is the first word of
    a trail that is the table's, if any is.
    """
    layout = lay.record_layout(table)
    shapes = layout.index.keys
    params = "".join(f"i{key.width} %k{number}, " for number, key in enumerate(shapes))
    text = _Text(
        f"define internal {{ptr, ptr}} @lookup_{index}(ptr %head, {params}ptr %selector, "
        "i32 %selector_bytes, i64 %now, ptr %trail)"
    )
    default = text.load("ptr", "%head", lay.HEAD_DEFAULT * lay.WORD)
    entry = default
    if shapes:
        keys = _arguments(shapes)
        found = text.let(f"call ptr @find_{index}(ptr %head{keys}, ptr %trail)")
        missed = text.let(f"icmp eq ptr {found}, null")
        entry = text.let(f"select i1 {missed}, ptr {default}, ptr {found}")
    if trail is not None:
        first = trail + lay.TRAIL_PLACES.get(layout.index.kind, 0)
        for line in range(trail + lay.trail_words(table) - first):
            text.trail(text.at(entry, line * lay.RECORD_ALIGN), first + line)
    if layout.last_hit is not None and shapes:
        text.line(f"store i64 %now, ptr {text.at(entry, layout.last_hit)}")
    if layout.choice is not None:
        _resolve(text, entry, layout.choice, algorithm)
    else:
        _return(text, entry, entry)
    find = _find_function(layout.index, f"find_{index}", trail) if shapes else ""
    return find + text.end()


def value_set_function(decl: ir.ValueSet, index: int) -> str:
    """Whether a value set has a member: `define internal i1 @in_set_<index>(ptr %head, iW0 %k0, …)`."""
    layout = lay.value_set_layout(decl)
    params = "".join(f", i{key.width} %k{number}" for number, key in enumerate(layout.keys))
    text = _Text(f"define internal i1 @in_set_{index}(ptr %head{params})")
    found = text.let(f"call ptr @find_in_set_{index}(ptr %head{_arguments(layout.keys)}, ptr null)")
    text.line(f"ret i1 {text.let(f'icmp ne ptr {found}, null')}")
    return _find_function(layout, f"find_in_set_{index}") + text.end()


def count_function() -> str:
    """`define internal void @count_entry(ptr %entry, i32 %bytes)`: for tables with a direct counter."""
    return f"""define internal void @count_entry(ptr %entry, i32 %bytes) {{
  %cell = getelementptr inbounds i8, ptr %entry, i64 {lay.COUNTER}
  call void @count_cell(ptr %cell, i32 %bytes)
  ret void
}}
define internal void @count_cell(ptr %cell, i32 %bytes) {{
  %packets = load i64, ptr %cell
  %packets.new = add i64 %packets, 1
  store i64 %packets.new, ptr %cell
  %size = getelementptr inbounds i8, ptr %cell, i64 {lay.WORD}
  %sum = load i64, ptr %size
  %more = zext i32 %bytes to i64
  %sum.new = add i64 %sum, %more
  store i64 %sum.new, ptr %size
  ret void
}}
"""


def _arguments(shapes: Sequence[KeyShape]) -> str:
    return "".join(f", i{key.width} %k{number}" for number, key in enumerate(shapes))


def _return(text: _Text, result: str, entry: str) -> None:
    half = text.let(f"insertvalue {{ptr, ptr}} poison, ptr {result}, 0")
    whole = text.let(f"insertvalue {{ptr, ptr}} {half}, ptr {entry}, 1")
    text.line(f"ret {{ptr, ptr}} {whole}")


def _resolve(text: _Text, entry: str, choice_at: int, algorithm: str) -> None:
    """Returns the record of the member that an entry's choice gives for the selector's bytes."""
    own, chosen, nobody, several, one, done = (text.label() for _ in range(6))
    action = text.load("i32", entry, lay.ACTION)
    text.branch(text.let(f"icmp sge i32 {action}, 0"), own, chosen)
    text.start(own)
    _return(text, entry, entry)
    text.start(chosen)
    choice = text.load("ptr", entry, choice_at)
    alive = text.load("i64", choice)
    members = text.load("ptr", choice, lay.WORD)
    text.line(f"switch i64 {alive}, label %{several} [i64 0, label %{nobody} i64 1, label %{one}]")
    text.start(nobody)
    empty = text.load("ptr", "%head", lay.HEAD_EMPTY * lay.WORD)
    count = text.let(f"add i64 {text.load('i64', empty)}, 1")
    text.line(f"store i64 {count}, ptr {empty}")
    _return(text, text.load("ptr", "%head", lay.HEAD_NOTHING * lay.WORD), entry)
    text.start(several)
    machine = text.load("ptr", "%head", lay.HEAD_MACHINE * lay.WORD)
    hashed = text.let(
        f"call i64 @hash_{algorithm}(ptr {machine}, ptr %selector, i32 %selector_bytes)"
    )
    picked = text.let(f"urem i64 {hashed}, {alive}")
    text.jump(one)
    text.start(one)
    number = text.let(f"phi i64 [0, %{chosen}], [{picked}, %{several}]")
    place = text.let(f"getelementptr inbounds ptr, ptr {members}, i64 {number}")
    block = text.load("ptr", place)
    text.jump(done)
    text.start(done)
    offset = text.load("i64", "%head", lay.HEAD_MEMBER * lay.WORD)
    _return(text, text.let(f"getelementptr inbounds i8, ptr {block}, i64 {offset}"), entry)


# --- indices --------------------------------------------------------------------------------------


def _find_function(index: IndexLayout, name: str, trail: int | None = None) -> str:
    """`define internal ptr @name(ptr %head, iW0 %k0, …, ptr %trail)`: the entry's record, or null."""
    params = "".join(f", i{key.width} %k{number}" for number, key in enumerate(index.keys))
    text = _Text(f"define internal ptr @{name}(ptr %head{params}, ptr %trail)", trail)
    _FINDERS[index.kind](text, index)
    return text.end()


def _dense(text: _Text, index: IndexLayout) -> None:
    (key,) = _packed(text, index)
    records = text.load("ptr", "%head", lay.HEAD_INDEX * lay.WORD)
    place = text.let(f"getelementptr inbounds ptr, ptr {records}, i64 {key}")
    text.leave(place)
    text.line(f"ret ptr {text.load('ptr', place)}")


def _hash(text: _Text, index: IndexLayout) -> None:
    key = _packed(text, index)
    slots = text.load("ptr", "%head", lay.HEAD_INDEX * lay.WORD)
    mask = text.load("i64", "%head", lay.HEAD_EXTENT * lay.WORD)
    hit, missed = text.label(), text.label()
    record = _probe(text, index, key, slots, mask, hit, missed)
    text.start(missed)
    text.line("ret ptr null")
    text.start(hit)
    text.line(f"ret ptr {record}")


def _trie(text: _Text, index: IndexLayout) -> None:
    width = index.bits
    wide = text.let(f"zext i{width} %k0 to i64") if width < 64 else "%k0"
    key = text.let(f"shl i64 {wide}, {64 - width}")
    root = text.load("ptr", "%head", lay.HEAD_INDEX * lay.WORD)
    first = text.load("i64", "%head", lay.HEAD_EXTENT * lay.WORD)
    top = text.let(f"lshr i64 {key}, {first}")
    first_place = text.let(f"getelementptr inbounds ptr, ptr {root}, i64 {top}")
    text.leave(first_place)
    start = text.load("ptr", first_place)
    before = text.block
    loop, down, done = (text.label() for _ in range(3))
    text.jump(loop)
    text.start(loop)
    found = text.let(f"phi ptr [{start}, %{before}], [%next, %{down}]")
    shift = text.let(f"phi i64 [{first}, %{before}], [%lower, %{down}]")
    bits = text.let(f"ptrtoint ptr {found} to i64")
    inner = text.let(f"trunc i64 {bits} to i1")
    text.branch(inner, down, done)
    text.start(down)
    text.line(f"%lower = sub i64 {shift}, 8")
    part = text.let(f"and i64 {text.let(f'lshr i64 {key}, %lower')}, 255")
    node = text.let(f"getelementptr i8, ptr {found}, i64 -1")
    place = text.let(f"getelementptr ptr, ptr {node}, i64 {part}")
    text.leave(place, 1)
    text.line(f"%next = load ptr, ptr {place}")
    text.jump(loop)
    text.start(done)
    text.line(f"ret ptr {found}")


def _groups(text: _Text, index: IndexLayout) -> None:
    """The first hit counts: the groups stand by their prefixes' lengths."""
    key = _packed(text, index)
    group, loop, missed = _each_group(text, index)
    masked, slots, mask = _in_group(text, group, key)
    hit, on = text.label(), text.label()
    record = _probe(text, index, masked, slots, mask, hit, on)
    text.start(hit)
    text.line(f"ret ptr {record}")
    text.start(on)
    _next_group(text, index, group, loop)
    text.start(missed)
    text.line("ret ptr null")


def _rules(text: _Text, index: IndexLayout) -> None:
    """The best of all, by priority and then by order: through bit vectors where there are some."""
    key = _packed(text, index)
    best = _Best(*(text.let(f"alloca {kind}") for kind in ("ptr", "i64", "i64")))
    block = text.let(f"alloca <{lay.BLOCK_WORDS} x i64>")
    grouped, filtered, narrow, wide, nothing = (text.label() for _ in range(5))
    vectors = text.load("ptr", "%head", lay.HEAD_VECTORS * lay.WORD)
    text.branch(text.let(f"icmp eq ptr {vectors}, null"), grouped, filtered)
    text.start(filtered)
    blocks = text.load("i64", "%head", lay.HEAD_BLOCKS * lay.WORD)
    text.branch(text.let(f"icmp eq i64 {blocks}, 0"), narrow, wide)
    text.start(narrow)
    records = text.load("ptr", "%head", lay.HEAD_RECORDS * lay.WORD)
    common = _intersection(text, index, key, vectors, "i64")
    _first_of(text, index, common, records, nothing)
    text.start(wide)
    _blocks(text, index, key, _Blocks(vectors, blocks, block), nothing)
    text.start(nothing)
    text.line("ret ptr null")
    text.start(grouped)
    _grouped(text, index, key, best)


class _Best(NamedTuple):
    """Places on the stack for the best record so far, its priority and its order."""

    record: str
    priority: str
    order: str


class _Blocks(NamedTuple):
    """The list of blocks, how many there are, and room for a vector on the stack."""

    list: str
    length: str
    room: str


def _grouped(text: _Text, index: IndexLayout, key: Sequence[str], best: _Best) -> None:
    text.line(f"store ptr null, ptr {best.record}")
    text.line(f"store i64 -1, ptr {best.priority}")
    text.line(f"store i64 0, ptr {best.order}")
    group, loop, end = _each_group(text, index)
    look, hit, on = (text.label() for _ in range(3))
    group_best = text.load("i64", group)
    sofar = text.load("i64", best.priority)
    text.branch(text.let(f"icmp sge i64 {group_best}, {sofar}"), look, end)
    text.start(look)
    masked, slots, mask = _in_group(text, group, key)
    bucket = _probe(text, index, masked, slots, mask, hit, on)
    text.start(hit)
    _bucket(text, index, bucket, best, on)
    text.start(on)
    _next_group(text, index, group, loop)
    text.start(end)
    text.line(f"ret ptr {text.load('ptr', best.record)}")


def _bucket(text: _Text, index: IndexLayout, first: str, best: _Best, on: str) -> None:
    """Takes the first record of a bucket that is better than the best and whose ranges hold."""
    assert index.priority is not None
    assert index.order is not None
    assert index.next is not None
    before = text.block
    loop, better, take, skip = (text.label() for _ in range(4))
    text.jump(loop)
    text.start(loop)
    record = text.let(f"phi ptr [{first}, %{before}], [%following, %{skip}]")
    priority = text.load("i64", record, index.priority)
    order = text.load("i64", record, index.order)
    sofar, sofar_order = text.load("i64", best.priority), text.load("i64", best.order)
    higher = text.let(f"icmp sgt i64 {priority}, {sofar}")
    equal = text.let(f"icmp eq i64 {priority}, {sofar}")
    earlier = text.let(f"icmp slt i64 {order}, {sofar_order}")
    tie = text.let(f"and i1 {equal}, {earlier}")
    text.branch(text.let(f"or i1 {higher}, {tie}"), better, on)
    text.start(better)
    text.branch(_in_ranges(text, index, record), take, skip)
    text.start(skip)
    text.line(f"%following = load ptr, ptr {text.at(record, index.next)}")
    text.branch(text.let("icmp eq ptr %following, null"), on, loop)
    text.start(take)
    text.line(f"store ptr {record}, ptr {best.record}")
    text.line(f"store i64 {priority}, ptr {best.priority}")
    text.line(f"store i64 {order}, ptr {best.order}")
    text.jump(on)


# --- bit vectors ----------------------------------------------------------------------------------


def _intersection(
    text: _Text, index: IndexLayout, key: Sequence[str], vectors: str, kind: str
) -> str:
    """The rules that every nibble of the key allows: the vectors of its nibbles, ANDed."""
    size = lay.WORD if kind == "i64" else lay.WORD * lay.BLOCK_WORDS
    common = ""
    for nibble in range(index.nibbles):
        word, shift = key[nibble // 16], 4 * (nibble % 16)
        down = text.let(f"lshr i64 {word}, {shift}") if shift else word
        value = text.let(f"and i64 {down}, 15")
        row = text.at(vectors, nibble * 16 * size)
        place = text.let(f"getelementptr inbounds {kind}, ptr {row}, i64 {value}")
        vector = text.let(f"load {kind}, ptr {place}, align {size}")
        common = text.let(f"and {kind} {common}, {vector}") if common else vector
    return common


def _blocks(
    text: _Text, index: IndexLayout, key: Sequence[str], blocks: _Blocks, nothing: str
) -> None:
    """Block after block: the first rule that matches is the best."""
    lanes = lay.BLOCK_WORDS
    kind = f"<{lanes} x i64>"
    before = text.block
    loop, some, each, on = (text.label() for _ in range(4))
    text.jump(loop)
    text.start(loop)
    block = text.let(f"phi i64 [0, %{before}], [%block.next, %{on}]")
    one = text.let(f"getelementptr inbounds {{ptr, ptr}}, ptr {blocks.list}, i64 {block}")
    vectors, records = text.load("ptr", one), text.load("ptr", one, lay.WORD)
    common = _intersection(text, index, key, vectors, kind)
    used = text.let(f"icmp ne {kind} {common}, zeroinitializer")
    mask = text.let(f"bitcast <{lanes} x i1> {used} to i{lanes}")
    text.branch(text.let(f"icmp eq i{lanes} {mask}, 0"), on, some)
    text.start(some)
    text.line(f"store {kind} {common}, ptr {blocks.room}")
    wide = text.let(f"zext i{lanes} {mask} to i64")
    text.jump(each)
    text.start(each)
    left = text.let(f"phi i64 [{wide}, %{some}], [%lanes.next, %lane.on]")
    lane = text.let(f"call i64 @llvm.cttz.i64(i64 {left}, i1 true)")
    word = text.load("i64", text.let(f"getelementptr inbounds i64, ptr {blocks.room}, i64 {lane}"))
    start = text.let(f"shl i64 {lane}, 6")
    part = text.let(f"getelementptr inbounds ptr, ptr {records}, i64 {start}")
    _first_of(text, index, word, part, "lane.on")
    text.start("lane.on")
    less = text.let(f"sub i64 {left}, 1")
    text.line(f"%lanes.next = and i64 {left}, {less}")
    text.branch(text.let("icmp eq i64 %lanes.next, 0"), on, each)
    text.start(on)
    text.line(f"%block.next = add i64 {block}, 1")
    text.branch(text.let(f"icmp eq i64 %block.next, {blocks.length}"), nothing, loop)


def _first_of(text: _Text, index: IndexLayout, word: str, records: str, none: str) -> None:
    """Returns the record of the word's lowest bit whose ranges hold; jumps to `none` without one."""
    before = text.block
    loop, one, take, skip = (text.label() for _ in range(4))
    text.jump(loop)
    text.start(loop)
    left = text.let(f"phi i64 [{word}, %{before}], [%left.{skip}, %{skip}]")
    text.branch(text.let(f"icmp eq i64 {left}, 0"), none, one)
    text.start(one)
    bit = text.let(f"call i64 @llvm.cttz.i64(i64 {left}, i1 true)")
    place = text.let(f"getelementptr inbounds ptr, ptr {records}, i64 {bit}")
    record = text.load("ptr", place)
    text.branch(_in_ranges(text, index, record), take, skip)
    text.start(take)
    text.line(f"ret ptr {record}")
    text.start(skip)
    less = text.let(f"sub i64 {left}, 1")
    text.line(f"%left.{skip} = and i64 {left}, {less}")
    text.jump(loop)


# --- parts ----------------------------------------------------------------------------------------


def _in_ranges(text: _Text, index: IndexLayout, record: str) -> str:
    holds = "true"
    for number, low_at, high_at in index.ranges:
        key = index.keys[number]
        sign = "s" if key.signed else "u"
        for at, relation in ((low_at, "le"), (high_at, "ge")):
            bound = _natural(text, record, at, key.width)
            one = text.let(f"icmp {sign}{relation} i{key.width} {bound}, %k{number}")
            holds = text.let(f"and i1 {holds}, {one}")
    return holds


def _natural(text: _Text, base: str, offset: int, width: int) -> str:
    """A value of `width` bits that lies in memory in its natural size."""
    size = lay.natural_bytes(width)
    bits = size * 8
    place = text.at(base, offset)
    value = text.let(f"load i{bits}, ptr {place}, align {lay.alignment(size)}")
    return value if bits == width else text.let(f"trunc i{bits} {value} to i{width}")


def _packed(text: _Text, index: IndexLayout) -> list[str]:
    """The packet's key in words, the lowest first."""
    total = f"i{index.words * 64}"
    value, below = "", index.bits
    for number, key in enumerate(index.keys):
        below -= key.width
        field = f"%k{number}"
        if key.width < index.words * 64:
            field = text.let(f"zext i{key.width} {field} to {total}")
        if below:
            field = text.let(f"shl {total} {field}, {below}")
        value = text.let(f"or {total} {value}, {field}") if value else field
    if index.words == 1:
        return [value]
    words = []
    for number in range(index.words):
        part = text.let(f"lshr {total} {value}, {64 * number}") if number else value
        words.append(text.let(f"trunc {total} {part} to i64"))
    return words


def _hashed(text: _Text, words: Sequence[str]) -> str:
    """`table_layout.key_hash` of the words."""
    value = ""
    for number, word in enumerate(words):
        mixed = text.let(f"xor i64 {value}, {word}") if value else word
        if number:
            mixed = text.let(f"xor i64 {mixed}, {number}")
        wide = text.let(f"zext i64 {mixed} to i128")
        product = text.let(f"mul i128 {wide}, {lay.multiplier(number)}")
        low = text.let(f"trunc i128 {product} to i64")
        high = text.let(f"trunc i128 {text.let(f'lshr i128 {product}, 64')} to i64")
        value = text.let(f"xor i64 {low}, {high}")
    return value


def _probe(
    text: _Text, index: IndexLayout, key: Sequence[str], slots: str, mask: str, hit: str, miss: str
) -> str:
    """Looks for a key in slots: jumps to `hit`, where the record is what this gives, or to `miss`."""
    hashed = _hashed(text, key)
    tag = key[0] if len(key) == 1 else hashed
    start = text.let(f"and i64 {hashed}, {mask}")
    before = text.block
    loop, used, step = (text.label() for _ in range(3))
    text.jump(loop)
    text.start(loop)
    at = text.let(f"phi i64 [{start}, %{before}], [%at.{step}, %{step}]")
    slot = text.let(f"getelementptr inbounds {{i64, ptr}}, ptr {slots}, i64 {at}")
    if index.kind is Kind.HASH:
        text.leave(slot)
    record = text.load("ptr", slot, lay.WORD)
    text.branch(text.let(f"icmp eq ptr {record}, null"), miss, used)
    text.start(used)
    same = text.let(f"icmp eq i64 {text.load('i64', slot)}, {tag}")
    if index.key is None:
        text.branch(same, hit, step)
    else:
        compare = text.label()
        text.branch(same, compare, step)
        text.start(compare)
        text.branch(_equal(text, record, index.key, key), hit, step)
    text.start(step)
    on = text.let(f"add i64 {at}, 1")
    text.line(f"%at.{step} = and i64 {on}, {mask}")
    text.jump(loop)
    return record


def _equal(text: _Text, record: str, offset: int, key: Sequence[str]) -> str:
    """Whether the key words in a record are these."""
    holds = "true"
    for number, word in enumerate(key):
        stored = text.load("i64", record, offset + number * lay.WORD)
        one = text.let(f"icmp eq i64 {stored}, {word}")
        holds = text.let(f"and i1 {holds}, {one}")
    return holds


def _each_group(text: _Text, index: IndexLayout) -> tuple[str, str, str]:
    """A loop over the groups: (this group, the loop's label, the label after them all)."""
    groups = text.load("ptr", "%head", lay.HEAD_INDEX * lay.WORD)
    count = text.load("i64", "%head", lay.HEAD_EXTENT * lay.WORD)
    length = text.let(f"mul i64 {count}, {index.group_words}")
    end = text.let(f"getelementptr inbounds i64, ptr {groups}, i64 {length}")
    before = text.block
    loop, body, done = (text.label() for _ in range(3))
    text.jump(loop)
    text.start(loop)
    group = text.let(f"phi ptr [{groups}, %{before}], [%group.next, %group.on]")
    text.branch(text.let(f"icmp eq ptr {group}, {end}"), done, body)
    text.start(body)
    return group, loop, done


def _next_group(text: _Text, index: IndexLayout, group: str, loop: str) -> None:
    text.jump("group.on")
    text.start("group.on")
    text.line(f"%group.next = getelementptr inbounds i64, ptr {group}, i64 {index.group_words}")
    text.jump(loop)


def _in_group(text: _Text, group: str, key: Sequence[str]) -> tuple[list[str], str, str]:
    """The key under the group's masks, its slots and their mask."""
    slots = text.load("ptr", group, lay.WORD)
    mask = text.load("i64", group, 2 * lay.WORD)
    masked = []
    for number, word in enumerate(key):
        bits = text.load("i64", group, (3 + number) * lay.WORD)
        masked.append(text.let(f"and i64 {word}, {bits}"))
    return masked, slots, mask


_FINDERS = {
    Kind.DENSE: _dense,
    Kind.HASH: _hash,
    Kind.TRIE: _trie,
    Kind.GROUPS: _groups,
    Kind.RULES: _rules,
}
