// Runs the data plane's Best on vectors that a packet brings, and sends what it found.
#include <core.p4>
#include <v1model.p4>
typedef bit<128> lanes_t;
#include "../../p4src/v1model/best.p4"

header probe_h {
    lanes_t bad;
    lanes_t codes;
    lanes_t live;
    bit<8> lenient;
    lanes_t best;
    bit<8> badness;
}
struct headers_t { probe_h probe; }
struct metadata_t { }

parser ProbeParser(packet_in pkt, out headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t sm) {
    state start { pkt.extract(hdr.probe); transition accept; }
}
control Nothing(inout headers_t hdr, inout metadata_t meta) { apply { } }
control ProbeIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    Best() best;
    apply {
        sm.egress_spec = 1;
        best.apply(hdr.probe.bad, hdr.probe.codes, hdr.probe.live, hdr.probe.lenient == 1,
                   hdr.probe.best, hdr.probe.badness);
    }
}
control ProbeEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { }
}
control ProbeDeparser(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr.probe); } }

V1Switch(ProbeParser(), Nothing(), ProbeIngress(), ProbeEgress(), Nothing(), ProbeDeparser()) main;
