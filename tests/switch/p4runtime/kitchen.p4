// One program with an object of every kind that P4Runtime knows.
#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("test/port", 32)
type bit<9> sdn_port_t;
@p4runtime_translation("test/vrf", string)
type bit<10> vrf_t;

header eth_t {
    bit<48> dst;
    bit<48> src;
    bit<16> etype;
}

header body_t {
    bit<32> a;
    bit<16> b;
    bit<8>  c;
}

@controller_header("packet_in")
header pin_t {
    bit<9> ingress_port;
    bit<3> reason;
    bit<4> pad;
}

@controller_header("packet_out")
header pout_t {
    bit<9> egress_port;
    bit<7> pad;
}

struct headers_t {
    pin_t  pin;
    pout_t pout;
    eth_t  eth;
    body_t body;
}

struct meta_t {
    vrf_t      vrf;
    sdn_port_t port;
    bit<2>     colour;
}

struct learn_t {
    bit<48> mac;
    bit<9>  port;
}

struct pair_t {
    bit<16> x;
    int<8>  y;
}

parser P(packet_in packet, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    value_set<bit<16>>(3) body_types;

    state start {
        transition select(s.ingress_port) {
            510: from_cpu;
            default: ethernet;
        }
    }
    state from_cpu {
        packet.extract(h.pout);
        transition ethernet;
    }
    state ethernet {
        packet.extract(h.eth);
        transition select(h.eth.etype) {
            body_types: body;
            default: accept;
        }
    }
    state body {
        packet.extract(h.body);
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) { apply { } }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    register<bit<16>>(4) plain;
    register<pair_t>(2) pairs;
    counter(4, CounterType.packets_and_bytes) hits;
    meter(2, MeterType.packets) police;
    direct_counter(CounterType.packets_and_bytes) exact_counter;
    direct_counter(CounterType.packets) const_counter;
    direct_meter<bit<2>>(MeterType.packets) exact_meter;
    @max_group_size(6)
    action_selector(HashAlgorithm.identity, 16, 16) spread;
    action_profile(2) shared;

    action drop() { mark_to_drop(s); }
    action forward(bit<9> port) { s.egress_spec = port; }
    action group(bit<16> id) { s.mcast_grp = id; }
    action mirror(bit<32> session) {
        clone(CloneType.I2E, session);
        s.egress_spec = 1;
    }
    action to_cpu(bit<3> reason) {
        h.pin.setValid();
        h.pin.ingress_port = s.ingress_port;
        h.pin.reason = reason;
        s.egress_spec = 510;
    }
    action learn() {
        digest<learn_t>(1, { h.eth.src, s.ingress_port });
        s.egress_spec = 1;
    }
    action bump(bit<32> index) {
        bit<16> old;
        plain.read(old, index);
        plain.write(index, old + 1);
        hits.count(index);
        police.execute_meter(index, m.colour);
        s.egress_spec = 1;
    }
    action keep() {
        pairs.write(1, { h.body.b, -8s1 });
    }
    action set_port(sdn_port_t port, vrf_t vrf) {
        m.port = port;
        m.vrf = vrf;
    }

    table exact_t {
        key = { h.eth.dst: exact @name("dst"); }
        actions = { drop; forward; group; mirror; to_cpu; learn; bump; keep; @tableonly set_port; @defaultonly NoAction; }
        default_action = to_cpu(1);
        counters = exact_counter;
        meters = exact_meter;
        support_timeout = true;
        size = 8;
    }
    table lpm_t {
        key = { h.body.a: lpm @name("a"); }
        actions = { drop; forward; NoAction; }
        const default_action = NoAction();
        size = 64;
    }
    table mixed_t {
        key = {
            h.eth.src: ternary @name("src");
            h.body.b: range @name("b");
            h.body.c: optional @name("c");
            h.eth.etype: exact @name("etype");
        }
        actions = { drop; forward; NoAction; }
        size = 16;
    }
    table spread_t {
        key = {
            h.body.a: exact @name("a");
            h.body.b: selector;
        }
        actions = { forward; drop; NoAction; }
        implementation = spread;
        size = 8;
    }
    table shared_t {
        key = { h.body.a: exact @name("a"); }
        actions = { forward; drop; NoAction; }
        implementation = shared;
        size = 4;
    }
    table const_t {
        key = { h.body.c: ternary @name("c"); }
        actions = { drop; forward; }
        default_action = drop();
        counters = const_counter;
        const entries = {
            1: forward(3);
            2 &&& 0xfe: forward(4);
        }
    }
    table keyless_t {
        actions = { drop; NoAction; }
        default_action = NoAction();
    }
    table started_t {
        key = { h.body.b: exact @name("b"); }
        actions = { forward; NoAction; }
        size = 4;
        entries = {
            7: forward(7);
            const 8: forward(8);
        }
    }
    table translated_t {
        key = {
            m.port: exact @name("port");
            m.vrf: optional @name("vrf");
        }
        actions = { set_port; NoAction; }
        size = 8;
    }

    apply {
        if (h.pout.isValid()) {
            s.egress_spec = h.pout.egress_port;
            h.pout.setInvalid();
            exit;
        }
        exact_t.apply();
        if (h.body.isValid()) {
            lpm_t.apply();
            spread_t.apply();
            shared_t.apply();
            const_t.apply();
            started_t.apply();
            mixed_t.apply();
        }
        keyless_t.apply();
        translated_t.apply();
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.pin);
        packet.emit(h.eth);
        packet.emit(h.body);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
