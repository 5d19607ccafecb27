// Its packets say what is to be done with them, in every combination, and tell what they saw.
// No tables: what it tests is the switch around a program.
#include <core.p4>
#include <v1model.p4>

header cmd_t { bit<8> ops; bit<8> port; bit<8> queue; bit<8> session; bit<8> left; bit<8> id; }
header saw_t {
    bit<48> in_us; bit<48> out_us; bit<32> enq_us; bit<32> delta_us; bit<32> enq_depth;
    bit<32> deq_depth; bit<32> length; bit<32> type; bit<16> rid; bit<16> in_port; bit<16> kept;
}
header event_t { bit<112> ethernet; bit<8> app; bit<8> kind; bit<16> batch; bit<16> packet; }
struct headers_t { event_t event; saw_t saw; cmd_t cmd; }
struct meta_t { @field_list(1) bit<16> kept; @field_list(1, 2) bit<8> left; bit<8> lost; }
struct seen_t { bit<8> id; bit<16> kept; }

parser P(packet_in pkt, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start { transition select(sm.ingress_port) { 509: event; default: cmd; } }
    state event { pkt.extract(h.event); transition accept; }
    state cmd { pkt.extract(h.cmd); transition accept; }
}
control VC(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    apply {
        if (h.event.isValid()) {
            sm.egress_spec = 2;
            if (h.event.packet == 1) { mark_to_drop(sm); }
        } else {
            m.lost = 7;
            m.kept = m.kept + (bit<16>)h.cmd.id;
            if (sm.instance_type == 0) { m.left = h.cmd.left; }
            sm.egress_spec = h.cmd.port == 255 ? 9w510 : (bit<9>)h.cmd.port;
            sm.priority = h.cmd.queue[2:0];
            if (h.cmd.ops[0:0] == 1 && sm.instance_type != 6) {
                clone_preserving_field_list(CloneType.I2E, (bit<32>)h.cmd.session, 1);
            }
            if (h.cmd.ops[1:1] == 1 && m.left > 0) {
                m.left = m.left - 1;
                resubmit_preserving_field_list(1);
            }
            if (h.cmd.ops[2:2] == 1) { sm.mcast_grp = (bit<16>)h.cmd.session; }
            if (h.cmd.ops[7:7] == 1) { truncate(44); }
            if (h.cmd.ops[3:3] == 1) { mark_to_drop(sm); }
            assert(h.cmd.queue != 0xEE);
            if (h.cmd.queue == 0xDD) { digest<seen_t>(1, { h.cmd.id, m.kept }); }
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    apply {
        if (h.cmd.isValid()) {
            bool once = sm.instance_type == 0 || sm.instance_type == 5;
            if (h.cmd.ops[4:4] == 1 && once) {
                clone_preserving_field_list(CloneType.E2E, (bit<32>)h.cmd.session, 2);
            }
            if (h.cmd.ops[5:5] == 1 && h.cmd.left > 0) {
                h.cmd.left = h.cmd.left - 1;
                m.kept = 100;
                recirculate_preserving_field_list(1);
            } else if (h.cmd.ops[6:6] == 1 && once) {
                mark_to_drop(sm);
            } else {
                h.saw.setValid();
                h.saw.in_us = sm.ingress_global_timestamp;
                h.saw.out_us = sm.egress_global_timestamp;
                h.saw.enq_us = sm.enq_timestamp;
                h.saw.delta_us = sm.deq_timedelta;
                h.saw.enq_depth = (bit<32>)sm.enq_qdepth;
                h.saw.deq_depth = (bit<32>)sm.deq_qdepth;
                h.saw.length = sm.packet_length;
                h.saw.type = sm.instance_type;
                h.saw.rid = sm.egress_rid;
                h.saw.in_port = (bit<16>)sm.ingress_port;
                h.saw.kept = m.kept * 16 + (bit<16>)m.left + (bit<16>)m.lost * 4096;
                if (h.cmd.queue == 0xCC) { h.cmd.setInvalid(); }
            }
        }
    }
}
control CC(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out pkt, in headers_t h) {
    apply { pkt.emit(h.event); pkt.emit(h.saw); pkt.emit(h.cmd); }
}
V1Switch(P(), VC(), I(), E(), CC(), D()) main;
