// An IPv4 router for measuring: checksum, access list, longest prefix, next hop, MAC rewrite, counters.
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_IPV4 = 0x800;
const bit<8> PROTOCOL_TCP = 6;
const bit<8> PROTOCOL_UDP = 17;

typedef bit<48> mac_t;
typedef bit<32> ipv4_t;

header ethernet_t {
    mac_t dst;
    mac_t src;
    bit<16> type;
}

header ipv4_header_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> tos;
    bit<16> total_len;
    bit<16> id;
    bit<3> flags;
    bit<13> frag;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    ipv4_t src;
    ipv4_t dst;
}

// What TCP and UDP begin with.
header l4_t {
    bit<16> sport;
    bit<16> dport;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_header_t ipv4;
    l4_t l4;
}

struct meta_t {
    bit<16> sport;
    bit<16> dport;
    bit<16> next_hop;
}

parser RouterParser(packet_in pkt, out headers_t hdr, inout meta_t meta,
                    inout standard_metadata_t sm) {
    state start {
        pkt.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        pkt.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.frag, hdr.ipv4.protocol) {
            (5, 0, PROTOCOL_TCP): parse_l4;
            (5, 0, PROTOCOL_UDP): parse_l4;
            default: accept;
        }
    }
    state parse_l4 {
        pkt.extract(hdr.l4);
        meta.sport = hdr.l4.sport;
        meta.dport = hdr.l4.dport;
        transition accept;
    }
}

control RouterVerify(inout headers_t hdr, inout meta_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_len, hdr.ipv4.id,
              hdr.ipv4.flags, hdr.ipv4.frag, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src,
              hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control RouterIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets_and_bytes) listed;
    direct_counter(CounterType.packets_and_bytes) routed;

    action drop() {
        mark_to_drop(sm);
    }

    action permit() {
        listed.count();
    }
    action deny() {
        listed.count();
        mark_to_drop(sm);
    }
    table access {
        key = {
            hdr.ipv4.src: ternary;
            hdr.ipv4.dst: ternary;
            hdr.ipv4.protocol: ternary;
            meta.sport: ternary;
            meta.dport: ternary;
        }
        actions = { permit; deny; }
        counters = listed;
        default_action = permit();
        size = 512;
    }

    action via(bit<16> next_hop) {
        meta.next_hop = next_hop;
        routed.count();
    }
    action unreachable() {
        mark_to_drop(sm);
        routed.count();
    }
    table routes {
        key = { hdr.ipv4.dst: lpm; }
        actions = { via; unreachable; }
        counters = routed;
        default_action = unreachable();
        size = 16384;
    }

    action forward(bit<9> port, mac_t src, mac_t dst) {
        sm.egress_spec = port;
        hdr.ethernet.src = src;
        hdr.ethernet.dst = dst;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    table next_hops {
        key = { meta.next_hop: exact; }
        actions = { forward; drop; }
        const default_action = drop();
        size = 1024;
    }

    apply {
        if (!hdr.ipv4.isValid() || sm.checksum_error == 1 || hdr.ipv4.ttl <= 1) {
            drop();
            return;
        }
        switch (access.apply().action_run) {
            permit: {
                if (routes.apply().hit) {
                    next_hops.apply();
                }
            }
        }
    }
}

control RouterEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    counter(512, CounterType.packets_and_bytes) sent;
    apply {
        sent.count((bit<32>)sm.egress_port);
    }
}

control RouterCompute(inout headers_t hdr, inout meta_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_len, hdr.ipv4.id,
              hdr.ipv4.flags, hdr.ipv4.frag, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src,
              hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control RouterDeparser(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr.ethernet);
        pkt.emit(hdr.ipv4);
        pkt.emit(hdr.l4);
    }
}

V1Switch(RouterParser(), RouterVerify(), RouterIngress(), RouterEgress(), RouterCompute(),
         RouterDeparser()) main;
