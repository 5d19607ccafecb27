// Equal-cost multipath: a destination prefix points to a group of next hops, and the hash of a
// flow's addresses and ports picks one of them.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> kind;
}

header ipv4_t {
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
    bit<32> src;
    bit<32> dst;
}

header ports_t {
    bit<16> src;
    bit<16> dst;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    ports_t l4;
}

struct meta_t { }

parser EcmpParser(packet_in pkt, out headers_t hdr, inout meta_t meta,
                  inout standard_metadata_t sm) {
    state start {
        pkt.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) {
            0x800: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        pkt.extract(hdr.ipv4);
        transition select(hdr.ipv4.frag, hdr.ipv4.protocol) {
            (0, 6): parse_l4;
            (0, 17): parse_l4;
            default: accept;
        }
    }
    state parse_l4 {
        pkt.extract(hdr.l4);
        transition accept;
    }
}

control EcmpVerify(inout headers_t hdr, inout meta_t meta) {
    apply { }
}

control EcmpIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    action_selector(HashAlgorithm.crc32, 32w128, 32w32) paths;

    action drop() {
        mark_to_drop(sm);
    }
    action next_hop(bit<9> port, bit<48> dst) {
        sm.egress_spec = port;
        hdr.ethernet.dst = dst;
    }
    table routes {
        key = {
            hdr.ipv4.dst: lpm;
            hdr.ipv4.src: selector;
            hdr.ipv4.dst: selector;
            hdr.ipv4.protocol: selector;
            hdr.l4.src: selector;
            hdr.l4.dst: selector;
        }
        actions = { next_hop; drop; }
        implementation = paths;
        size = 256;
    }

    apply {
        if (hdr.l4.isValid()) {
            routes.apply();
        } else {
            drop();
        }
    }
}

control EcmpEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply { }
}

control EcmpCompute(inout headers_t hdr, inout meta_t meta) {
    apply { }
}

control EcmpDeparser(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr.ethernet);
        pkt.emit(hdr.ipv4);
        pkt.emit(hdr.l4);
    }
}

V1Switch(EcmpParser(), EcmpVerify(), EcmpIngress(), EcmpEgress(), EcmpCompute(),
         EcmpDeparser()) main;
