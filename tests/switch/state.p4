// Everything a switch keeps between packets, all of it in every packet's way. What a packet met shows in
// the header that it leaves with.
#include <core.p4>
#include <v1model.p4>

header ask_t { bit<8> a; bit<16> b; bit<32> c; bit<8> op; }
header tell_t {
    bit<8> exact; bit<8> long; bit<8> wide; bit<8> mixed; bit<8> many; bit<8> span; bit<8> chosen;
    bit<8> member; bit<2> direct; bit<2> indirect; bit<4> flags; bit<32> hash; bit<16> drawn;
    bit<200> wide_drawn; bit<128> sum; bit<8> small; bit<40> pair;
}
struct headers_t { tell_t tell; ask_t ask; }
struct meta_t { bit<128> wide; @field_list(1) bit<8> kept; }
struct seen_t { bit<8> a; bit<16> b; bit<128> sum; }
struct pair_t { bit<8> left; bit<32> right; }

parser P(packet_in pkt, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    value_set<bit<16>>(8) known;
    state start {
        pkt.extract(h.ask);
        transition select(h.ask.b) { known: special; default: accept; }
    }
    state special { m.kept = 1; transition accept; }
}
control VC(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    register<bit<128>>(4) sums;
    register<bit<3>>(256) small;
    register<pair_t>(4) pairs;
    counter(4, CounterType.packets_and_bytes) counts;
    meter(2, MeterType.bytes) rates;
    direct_counter(CounterType.packets_and_bytes) exact_counter;
    direct_counter(CounterType.bytes) many_counter;
    direct_meter<bit<2>>(MeterType.packets) many_meter;
    action_selector(HashAlgorithm.crc16_custom, 32w16, 32w16) members;
    action_profile(16) profile;

    action exact_is(bit<8> v) { h.tell.exact = v; }
    action long_is(bit<8> v) { h.tell.long = v; }
    action wide_is(bit<8> v) { h.tell.wide = v; }
    action mixed_is(bit<8> v, bit<128> pad) { h.tell.mixed = v + pad[7:0]; }
    action many_is(bit<8> v) { h.tell.many = v; }
    action span_is(bit<8> v) { h.tell.span = v; }
    action chosen_is(bit<8> v) { h.tell.chosen = v; }
    action member_is(bit<8> v) { h.tell.member = v; }
    table exact {
        key = { h.ask.a : exact; h.ask.op : exact; }
        actions = { exact_is; NoAction; }
        counters = exact_counter;
        support_timeout = true;
        size = 64;
    }
    table long { key = { h.ask.c : lpm; } actions = { long_is; NoAction; } size = 64; }
    table wide { key = { m.wide : lpm; } actions = { wide_is; NoAction; } size = 64; }
    table mixed {
        key = { h.ask.a : exact; h.ask.c : lpm; }
        actions = { mixed_is; @defaultonly NoAction; }
        size = 64;
    }
    table many {
        key = { h.ask.a : ternary; h.ask.c : ternary; h.ask.b : optional; }
        actions = { many_is; NoAction; }
        counters = many_counter;
        meters = many_meter;
        size = 200;
    }
    table span { key = { h.ask.b : range; h.ask.a : ternary; } actions = { span_is; NoAction; } size = 64; }
    table chosen {
        key = { h.ask.a : exact; h.ask.c : selector; h.ask.b : selector; }
        actions = { chosen_is; NoAction; }
        implementation = members;
        size = 64;
    }
    table fixed { key = { h.ask.a : exact; } actions = { member_is; NoAction; } implementation = profile; }

    apply {
        if (sm.instance_type == 0) { h.tell.setValid(); }
        m.wide = h.ask.c ++ h.ask.c ++ h.ask.b ++ h.ask.b ++ h.ask.c;
        bit<4> hits = 0;
        if (exact.apply().hit) { hits[0:0] = 1; }
        long.apply();
        wide.apply();
        if (mixed.apply().miss) { hits[1:1] = 1; }
        switch (many.apply().action_run) {
            many_is: { hits[2:2] = 1; many_meter.read(h.tell.direct); }
            default: { }
        }
        span.apply();
        chosen.apply();
        fixed.apply();
        hits[3:3] = m.kept[0:0];
        h.tell.flags = hits;
        hash(h.tell.hash, HashAlgorithm.crc32_custom, 32w5, { h.ask.c, h.ask.b, h.ask.a }, 32w0xfffff);
        random(h.tell.drawn, h.ask.b & 0xff, 16w0x1234);
        random(h.tell.wide_drawn, 200w0, (bit<200>)h.ask.c << 150);
        bit<128> sum;
        sums.read(sum, (bit<32>)h.ask.a & 7);
        sum = sum + m.wide;
        h.tell.sum = sum;
        sums.write((bit<32>)h.ask.a & 7, sum);
        bit<3> one;
        small.read(one, (bit<32>)h.ask.op);
        h.tell.small = (bit<8>)one;
        small.write((bit<32>)h.ask.op, one + 1);
        pair_t pair;
        pairs.read(pair, (bit<32>)h.ask.op & 3);
        h.tell.pair = pair.left ++ pair.right;
        pairs.write((bit<32>)h.ask.op & 3, { pair.left + 1, h.ask.c });
        counts.count((bit<32>)h.ask.a & 7);
        rates.execute_meter((bit<32>)h.ask.a & 3, h.tell.indirect);
        sm.egress_spec = (bit<9>)h.ask.op & 3;
        if (h.ask.op[2:2] == 1) { digest<seen_t>(1, { h.ask.a, h.ask.b, sum }); }
        if (h.ask.op[3:3] == 1) { clone_preserving_field_list(CloneType.I2E, 1, 1); }
        if (h.ask.op[4:4] == 1 && sm.instance_type == 0) { resubmit_preserving_field_list(1); }
        assert(h.ask.op != 0xff);
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    counter(4, CounterType.bytes) left;
    apply { left.count((bit<32>)sm.egress_port); }
}
control CC(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out pkt, in headers_t h) { apply { pkt.emit(h); } }
V1Switch(P(), VC(), I(), E(), CC(), D()) main;
