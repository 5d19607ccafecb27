// A program whose packets say what is to be done with them, and that shows what the switch told it.
#include <core.p4>
#include <v1model.p4>

header event_t {
    bit<48> dst; bit<48> src; bit<16> type;
    bit<3> pad1; bit<2> pipe; bit<3> app; bit<4> kind; bit<3> pad2; bit<1> up;
    bit<16> what; bit<16> packet;
}
header op_t { bit<8> op; bit<8> port; bit<16> arg; }
header info_t {
    bit<48> in_us; bit<48> out_us; bit<32> enq_us; bit<32> delta_us;
    bit<24> enq_depth; bit<24> deq_depth; bit<8> type; bit<16> rid; bit<32> len; bit<16> ingress;
}
struct headers_t { event_t event; info_t info; op_t op; }
struct meta_t { @field_list(1) bit<16> kept; }
struct seen_t { bit<8> port; bit<16> arg; }

parser P(packet_in pkt, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start { transition select(sm.ingress_port) { 509: event; default: op; } }
    state event { pkt.extract(h.event); transition accept; }
    state op { pkt.extract(h.op); transition accept; }
}
control VC(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    register<bit<8>>(512) port_state;
    register<bit<16>>(8) timers;
    action_selector(HashAlgorithm.identity, 32w16, 32w16) members;
    action to(bit<9> port) { sm.egress_spec = port; }
    table pick {
        key = { h.op.op : exact; h.op.arg : selector; }
        actions = { to; NoAction; }
        implementation = members;
    }
    table seen {
        key = { h.op.arg : exact; }
        actions = { NoAction; }
        support_timeout = true;
    }
    apply {
        if (h.event.isValid()) {
            if (h.event.kind == 0) {
                port_state.write((bit<32>)h.event.what, 8w1 + (bit<8>)h.event.up);
            } else {
                timers.write((bit<32>)h.event.app, h.event.what + 1);
            }
            mark_to_drop(sm);
        } else {
            m.kept = h.op.arg;
            sm.egress_spec = (bit<9>)h.op.port;
            if (h.op.op == 1) { mark_to_drop(sm); }
            if (h.op.op == 2) { sm.mcast_grp = h.op.arg; }
            if (h.op.op == 3) { resubmit_preserving_field_list(1); }
            if (h.op.op == 4) { clone_preserving_field_list(CloneType.I2E, (bit<32>)h.op.arg, 1); }
            if (h.op.op == 5) { sm.priority = h.op.arg[2:0]; }
            if (h.op.op == 6) { digest<seen_t>(1, { h.op.port, h.op.arg }); }
            if (h.op.op == 7) { pick.apply(); }
            if (h.op.op == 8) { truncate((bit<32>)h.op.arg); }
            if (h.op.op == 9) { assert(h.op.arg == 0); }
            if (h.op.op == 13) { sm.egress_spec = 510; }
            if (h.op.op == 14) { seen.apply(); }
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    apply {
        if (h.op.op == 10) { clone(CloneType.E2E, (bit<32>)h.op.arg); }
        if (h.op.op == 11) { recirculate_preserving_field_list(1); }
        if (h.op.op == 12 && sm.instance_type == 0) { clone(CloneType.E2E, (bit<32>)h.op.arg); }
        if (h.op.op == 15) { mark_to_drop(sm); }
        if (h.op.op != 11) {
            h.info.setValid();
            h.info.in_us = sm.ingress_global_timestamp;
            h.info.out_us = sm.egress_global_timestamp;
            h.info.enq_us = sm.enq_timestamp;
            h.info.delta_us = sm.deq_timedelta;
            h.info.enq_depth = (bit<24>)sm.enq_qdepth;
            h.info.deq_depth = (bit<24>)sm.deq_qdepth;
            h.info.type = (bit<8>)sm.instance_type;
            h.info.rid = sm.egress_rid;
            h.info.len = sm.packet_length;
            h.info.ingress = (bit<16>)sm.ingress_port;
        }
    }
}
control CC(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out pkt, in headers_t h) { apply { pkt.emit(h); } }
V1Switch(P(), VC(), I(), E(), CC(), D()) main;
