// A stateful firewall: hosts inside may open TCP connections to the outside, not the other way.
// Two registers form a Bloom filter over the connections that were opened.
#include <core.p4>
#include <v1model.p4>

#define FILTER_SIZE 4096
#define INSIDE 1
#define OUTSIDE 2

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

header tcp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<32> seq;
    bit<32> ack_no;
    bit<4> data_offset;
    bit<4> reserved;
    bit<1> cwr;
    bit<1> ece;
    bit<1> urg;
    bit<1> ack;
    bit<1> psh;
    bit<1> rst;
    bit<1> syn;
    bit<1> fin;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    tcp_t tcp;
}

struct meta_t {
    bit<32> first;
    bit<32> second;
}

parser FirewallParser(packet_in pkt, out headers_t hdr, inout meta_t meta,
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
        transition select(hdr.ipv4.protocol) {
            6: parse_tcp;
            default: accept;
        }
    }
    state parse_tcp {
        pkt.extract(hdr.tcp);
        transition accept;
    }
}

control FirewallVerify(inout headers_t hdr, inout meta_t meta) {
    apply { }
}

control FirewallIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    register<bit<1>>(FILTER_SIZE) opened_a;
    register<bit<1>>(FILTER_SIZE) opened_b;
    counter(2, CounterType.packets) verdicts; // 0 passed, 1 refused

    action drop() {
        mark_to_drop(sm);
    }
    action to_port(bit<9> port) {
        sm.egress_spec = port;
    }
    table hosts {
        key = { hdr.ipv4.dst: exact; }
        actions = { to_port; drop; }
        default_action = drop();
    }

    bit<8> side = 0;
    action set_side(bit<8> value) {
        side = value;
    }
    table sides {
        key = { sm.ingress_port: exact; }
        actions = { set_side; NoAction; }
        default_action = NoAction();
    }

    action positions(bit<32> from, bit<32> to, bit<16> port_here, bit<16> port_there) {
        hash(meta.first, HashAlgorithm.crc16, (bit<32>)0,
             { from, to, port_here, port_there, hdr.ipv4.protocol }, (bit<32>)FILTER_SIZE);
        hash(meta.second, HashAlgorithm.crc32, (bit<32>)0,
             { from, to, port_here, port_there, hdr.ipv4.protocol }, (bit<32>)FILTER_SIZE);
    }

    apply {
        if (!hdr.ipv4.isValid()) {
            drop();
            return;
        }
        hosts.apply();
        if (hdr.tcp.isValid()) {
            sides.apply();
            if (side == INSIDE) {
                positions(hdr.ipv4.src, hdr.ipv4.dst, hdr.tcp.src_port, hdr.tcp.dst_port);
                if (hdr.tcp.syn == 1) {
                    opened_a.write(meta.first, 1);
                    opened_b.write(meta.second, 1);
                }
                verdicts.count(0);
            } else if (side == OUTSIDE) {
                // The same connection, seen from the other end.
                positions(hdr.ipv4.dst, hdr.ipv4.src, hdr.tcp.dst_port, hdr.tcp.src_port);
                bit<1> a;
                bit<1> b;
                opened_a.read(a, meta.first);
                opened_b.read(b, meta.second);
                if (a == 1 && b == 1) {
                    verdicts.count(0);
                } else {
                    verdicts.count(1);
                    drop();
                }
            }
        }
    }
}

control FirewallEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply { }
}

control FirewallCompute(inout headers_t hdr, inout meta_t meta) {
    apply { }
}

control FirewallDeparser(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr.ethernet);
        pkt.emit(hdr.ipv4);
        pkt.emit(hdr.tcp);
    }
}

V1Switch(FirewallParser(), FirewallVerify(), FirewallIngress(), FirewallEgress(),
         FirewallCompute(), FirewallDeparser()) main;
