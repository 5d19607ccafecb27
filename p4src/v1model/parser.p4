// SPDX-License-Identifier: Apache-2.0

parser FabricParser(packet_in pkt, out headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t sm) {
    state start {
        transition select(sm.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_ethernet;
        }
    }

    state parse_packet_out {
        pkt.extract(hdr.packet_out);
        transition parse_ethernet;
    }

    state parse_ethernet {
        pkt.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            ETHERTYPE_SYNCMESH: parse_sync;
            ETHERTYPE_VLAN: parse_vlan;
            ETHERTYPE_EVENT: parse_event;
            default: accept;
        }
    }

    state parse_vlan {
        pkt.extract(hdr.vlan);
        transition select(hdr.vlan.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            ETHERTYPE_SYNCMESH: parse_sync;  // never genuine: to be refused and counted
            default: accept;
        }
    }

    state parse_event {
        pkt.extract(hdr.event);
        transition accept;
    }

    state parse_sync {
        pkt.extract(hdr.sync);
        transition select(hdr.sync.type) {
            SYNC_NOTE: parse_note;
            SYNC_SET: parse_set;
            default: accept;
        }
    }

    state parse_note {
        pkt.extract(hdr.note);
        transition accept;
    }

    state parse_set {
        pkt.extract(hdr.set);
        transition accept;
    }

    state parse_ipv4 {
        pkt.extract(hdr.ipv4);
        // With options, or a fragment: forwarded, but hashed by addresses alone. That goes for a first
        // fragment too, so that it takes the way of those that follow.
        transition select(hdr.ipv4.ihl, hdr.ipv4.flags[0:0], hdr.ipv4.frag_offset, hdr.ipv4.protocol) {
            (5, 0, 0, PROTO_UDP): parse_udp;
            (5, 0, 0, PROTO_TCP): parse_tcp;
            default: accept;
        }
    }

    state parse_ipv6 {
        pkt.extract(hdr.ipv6);
        transition select(hdr.ipv6.next_header) {
            PROTO_UDP: parse_udp;
            PROTO_TCP: parse_tcp;
            default: accept;
        }
    }

    state parse_tcp {
        pkt.extract(hdr.l4);
        meta.l4_ports = hdr.l4.src_port ++ hdr.l4.dst_port;
        transition accept;
    }

    state parse_udp {
        pkt.extract(hdr.l4);
        meta.l4_ports = hdr.l4.src_port ++ hdr.l4.dst_port;
        pkt.extract(hdr.udp);
        transition select(hdr.l4.dst_port) {
            UDP_PORT_ROCE: parse_bth;
            default: accept;
        }
    }

    state parse_bth {
        pkt.extract(hdr.bth);
        transition accept;
    }
}

control FabricDeparser(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr.packet_in);
        pkt.emit(hdr.ethernet);
        pkt.emit(hdr.vlan);
        pkt.emit(hdr.event);
        pkt.emit(hdr.sync);
        pkt.emit(hdr.note);
        pkt.emit(hdr.set);
        pkt.emit(hdr.ipv4);
        pkt.emit(hdr.ipv6);
        pkt.emit(hdr.l4);
        pkt.emit(hdr.udp);
        pkt.emit(hdr.bth);
    }
}
