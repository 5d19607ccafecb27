// Sends a frame to the port that the last 9 bits of its destination name; tells port 1 of port events
// and port 2 of timers; does some things by EtherType.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 510;
const bit<9> EVENT_PORT = 509;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header pktgen_t {
    bit<8> app;
    bit<4> kind;
    bit<3> pad;
    bit<1> up;
    bit<16> port_or_batch;
    bit<16> packet_id;
}

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> pad;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> pad;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    ethernet_t ethernet;
    pktgen_t pktgen;
}

struct meta_t { }

struct seen_t {
    bit<48> src;
}

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        transition select(sm.ingress_port) {
            CPU_PORT: packet_out;
            default: ethernet;
        }
    }
    state packet_out {
        packet.extract(hdr.packet_out);
        transition accept;
    }
    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(sm.ingress_port) {
            EVENT_PORT: event;
            default: accept;
        }
    }
    state event {
        packet.extract(hdr.pktgen);
        transition accept;
    }
}

control Check(inout headers_t hdr, inout meta_t meta) {
    apply { }
}

control Route(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    action set(bit<48> src) {
        hdr.ethernet.src = src;
    }
    table first {
        key = { hdr.ethernet.type: exact; }
        actions = { set; NoAction; }
        default_action = NoAction();
    }
    action mark(bit<48> dst) {
        hdr.ethernet.dst = dst;
    }
    table second {
        key = { hdr.ethernet.type: exact; }
        actions = { mark; NoAction; }
        default_action = NoAction();
    }
    apply {
        if (hdr.packet_out.isValid()) {
            sm.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else if (hdr.pktgen.isValid()) {
            sm.egress_spec = 1;
            if (hdr.pktgen.kind == 1) {
                sm.egress_spec = 2;
            }
        } else {
            sm.egress_spec = hdr.ethernet.dst[8:0];
            if (hdr.ethernet.type == 0x9002) {
                digest<seen_t>(1, { hdr.ethernet.src });
            }
            first.apply();
            second.apply();
        }
    }
}

control Leave(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply {
        if (sm.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = sm.ingress_port;
            hdr.packet_in.pad = 0;
        }
    }
}

control Renew(inout headers_t hdr, inout meta_t meta) {
    apply { }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.pktgen);
    }
}

V1Switch(Parse(), Check(), Route(), Leave(), Renew(), Deparse()) main;
