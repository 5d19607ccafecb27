// Global load balancing for a fabric of v1model switches. SPDX-License-Identifier: Apache-2.0
#include <core.p4>
#include <v1model.p4>

#include "../include/sizes.p4"
#include "../include/headers.p4"
#include "../include/syncmesh.p4"
#include "../include/metadata.p4"
#include "../include/state.p4"
#include "parser.p4"
#include "checksum.p4"
#include "best.p4"
#include "ports.p4"
#include "syncmesh.p4"
#include "route.p4"
#include "balance.p4"
#include "quality.p4"
#include "notify.p4"
#include "ecn.p4"

const bit<32> EGRESS_CLONE = 2;

control FabricIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    Ports() ports;
    SyncMesh() syncmesh;
    Route() route;
    Balance() balance;

    apply {
        meta.port = sm.ingress_port;
        if (hdr.packet_out.isValid() && hdr.packet_out.to_pipeline == 0) {
            sm.egress_spec = hdr.packet_out.egress_port;
            sm.priority = CONTROL_CLASS;
            meta.done = true;
        } else {
            ports.apply(hdr, meta, sm);
        }
        if (!meta.done && hdr.sync.isValid()) {
            syncmesh.apply(hdr, meta, sm);
        }
        if (!meta.done) {
            route.apply(hdr, meta, sm);
        }
        if (!meta.done) {
            balance.apply(hdr, meta, sm);
        }
        hdr.packet_out.setInvalid();
    }
}

control FabricEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    Quality() quality;
    Announce() announce;
    BuildNote() build_note;
    Ecn() ecn;

    bit<32> seq = 0;

    action set_switch(bit<32> node_id, bit<16> incarnation) {
        meta.node_id = node_id;
        meta.incarnation = incarnation;
    }

    // A clone forgets its metadata, so egress asks again.
    table sender {
        actions = { set_switch; @defaultonly NoAction; }
        default_action = NoAction();
        size = 1;
    }

    // Ports leave in parallel: read and write stay in one action.
    action next_seq() {
        sync_seq.read(seq, 0);
        seq = seq + 1;
        sync_seq.write(0, seq);
    }

    apply {
        if (sm.instance_type == EGRESS_CLONE) {
            build_note.apply(hdr, meta, sm);
        } else {
            quality.apply(hdr, meta, sm);
            if (meta.subject != 0) {
                announce.apply(hdr, meta, sm);
            }
            if (hdr.ipv4.isValid() || hdr.ipv6.isValid()) {
                ecn.apply(hdr, meta, sm);
            }
        }

        if (sm.instance_type == EGRESS_CLONE || (meta.timer != 0 && hdr.sync.isValid())) {
            sender.apply();
            next_seq();
            hdr.ethernet.dst_addr = SYNC_GROUP_MAC;
            hdr.ethernet.src_addr = 16w0x0200 ++ meta.node_id;
            hdr.ethernet.ether_type = ETHERTYPE_SYNCMESH;
            hdr.sync.version = SYNC_VERSION;
            hdr.sync.incarnation = meta.incarnation;
            hdr.sync.origin = meta.node_id;
            hdr.sync.seq = seq;
        }
        if (sm.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = meta.port;
            hdr.packet_in.reason = meta.reason;
            if (meta.internal) {
                mark_to_drop(sm);
            }
        }
    }
}

V1Switch(FabricParser(), FabricVerifyChecksum(), FabricIngress(), FabricEgress(),
         FabricComputeChecksum(), FabricDeparser()) main;
