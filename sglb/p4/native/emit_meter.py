"""Meters as LLVM text: RFC 2698's two rates or RFC 2697's one, colour blind, in exact integers.

The same steps as `sglb.switch.meters`, over the cell that `table_layout` lays out. Rates and bursts
are below 2**63 and so are times, so no sum of tokens, in units of 1e-12, leaves 128 bits.
"""

from __future__ import annotations

from sglb.p4.native import table_layout as lay

_UNIT = 1_000_000_000_000


def meter_functions() -> str:
    """The two meters; both give the colour, 0 green, 1 yellow, 2 red, and count the packet under it.

    `define internal i32 @meter_execute(ptr %meter, i32 %bytes, i64 %now)` runs a cell,
    `define internal i32 @entry_meter(ptr %entry, i32 %bytes, i64 %now)` the cell of an entry's record.
    """
    return f"""define internal i32 @entry_meter(ptr %entry, i32 %bytes, i64 %now) {{
  %meter = getelementptr inbounds i8, ptr %entry, i64 -{lay.METER_BYTES}
  %colour = call i32 @meter_execute(ptr %meter, i32 %bytes, i64 %now)
  ret i32 %colour
}}
define internal i32 @meter_execute(ptr %meter, i32 %bytes, i64 %now) {{
  %configured = load i32, ptr %meter
  %off = icmp eq i32 %configured, 0
  br i1 %off, label %count, label %run
run:
  %colour.run = call i32 @meter_colour(ptr %meter, i32 %bytes, i64 %now)
  br label %count
count:
  %colour = phi i32 [0, %0], [%colour.run, %run]
  %place = mul i32 %colour, {lay.COUNTER_BYTES}
  %place.cell = add i32 %place, {lay.METER_COUNTS}
  %cell = getelementptr inbounds i8, ptr %meter, i32 %place.cell
  %packets = load i64, ptr %cell
  %packets.new = add i64 %packets, 1
  store i64 %packets.new, ptr %cell
  %size = getelementptr inbounds i8, ptr %cell, i64 8
  %sum = load i64, ptr %size
  %more = zext i32 %bytes to i64
  %sum.new = add i64 %sum, %more
  store i64 %sum.new, ptr %size
  ret i32 %colour
}}
define internal i32 @meter_colour(ptr %meter, i32 %bytes, i64 %now) {{
  %p.packets = getelementptr inbounds i8, ptr %meter, i64 {lay.METER_PACKETS}
  %packets = load i32, ptr %p.packets
  %by.packets = icmp ne i32 %packets, 0
  %units = select i1 %by.packets, i32 1, i32 %bytes
  %units.wide = zext i32 %units to i128
  %need = mul i128 %units.wide, {_UNIT}
  %p.last = getelementptr inbounds i8, ptr %meter, i64 {lay.METER_LAST}
  %last = load i64, ptr %p.last
  store i64 %now, ptr %p.last
  %now.wide = sext i64 %now to i128
  %last.wide = sext i64 %last to i128
  %elapsed = sub i128 %now.wide, %last.wide
{_refill("sure", lay.METER_SURE, lay.METER_CIR, lay.METER_CBURST)}
{_refill("peak", lay.METER_PEAK, lay.METER_PIR, lay.METER_PBURST)}
  %configured = load i32, ptr %meter
  %kind = and i32 %configured, {lay.METER_SINGLE_RATE}
  %two = icmp eq i32 %kind, 0
  %short = icmp slt i128 %sure, %need
  %apart = select i1 %two, i128 0, i128 %sure
  %left = sub i128 %peak, %apart
  %poor = icmp slt i128 %left, %need
  %bare = or i1 %two, %short
  %red = and i1 %poor, %bare
  %keep.sure = or i1 %red, %short
  %peak.less = sub i128 %peak, %need
  %sure.less = sub i128 %sure, %need
  %peak.new = select i1 %red, i128 %peak, i128 %peak.less
  %sure.new = select i1 %keep.sure, i128 %sure, i128 %sure.less
  store i128 %peak.new, ptr %p.peak
  store i128 %sure.new, ptr %p.sure
  %passed = zext i1 %short to i32
  %colour = select i1 %red, i32 2, i32 %passed
  ret i32 %colour
}}
"""


def _refill(name: str, tokens: int, rate: int, burst: int) -> str:
    """A bucket's tokens `%name` now: what it had and earned, up to its burst."""
    return f"""  %p.{name} = getelementptr inbounds i8, ptr %meter, i64 {tokens}
  %p.{name}.rate = getelementptr inbounds i8, ptr %meter, i64 {rate}
  %p.{name}.burst = getelementptr inbounds i8, ptr %meter, i64 {burst}
  %{name}.had = load i128, ptr %p.{name}
  %{name}.rate = load i64, ptr %p.{name}.rate
  %{name}.burst = load i64, ptr %p.{name}.burst
  %{name}.rate.wide = sext i64 %{name}.rate to i128
  %{name}.burst.wide = sext i64 %{name}.burst to i128
  %{name}.earned = mul i128 %elapsed, %{name}.rate.wide
  %{name}.sum = add i128 %{name}.had, %{name}.earned
  %{name}.top = mul i128 %{name}.burst.wide, {_UNIT}
  %{name}.over = icmp sgt i128 %{name}.sum, %{name}.top
  %{name} = select i1 %{name}.over, i128 %{name}.top, i128 %{name}.sum"""
