// Prefix -> host port or destination switch. SPDX-License-Identifier: Apache-2.0

control Route(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets_and_bytes) routing_v4_counter;
    direct_counter(CounterType.packets_and_bytes) routing_v6_counter;

    action to_host(bit<9> port, bit<48> mac) {
        sm.egress_spec = port;
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = mac;
        meta.done = true;
    }

    action to_switch(bit<16> dst) {
        meta.dst = dst;
    }

    action no_route() {
        mark_to_drop(sm);
        meta.done = true;
    }

    table routing_v4 {
        key = { hdr.ipv4.dst_addr: lpm @name("prefix"); }
        actions = { to_host; to_switch; no_route; }
        default_action = no_route();
        counters = routing_v4_counter;
        size = ROUTES;
    }

    table routing_v6 {
        key = { hdr.ipv6.dst_addr: lpm @name("prefix"); }
        actions = { to_host; to_switch; no_route; }
        default_action = no_route();
        counters = routing_v6_counter;
        size = ROUTES;
    }

    apply {
        // The fields of a header that is not there read 0 and add nothing to the hash.
        if (hdr.ipv4.isValid()) {
            if (sm.checksum_error == 1 || hdr.ipv4.ttl <= 1) {
                no_route();
            } else {
                hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
                meta.class = hdr.ipv4.dscp[5:3];
                hash(meta.flow_hash, HashAlgorithm.crc32, 32w0,
                     { meta.hash_seed, hdr.ipv4.src_addr, hdr.ipv4.dst_addr, hdr.ipv4.protocol,
                       hdr.l4.src_port, hdr.l4.dst_port }, 64w0x100000000);
                routing_v4.apply();
            }
        } else if (hdr.ipv6.isValid()) {
            if (hdr.ipv6.hop_limit <= 1) {
                no_route();
            } else {
                hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
                meta.class = hdr.ipv6.dscp[5:3];
                hash(meta.flow_hash, HashAlgorithm.crc32, 32w0,
                     { meta.hash_seed, hdr.ipv6.src_addr, hdr.ipv6.dst_addr, hdr.ipv6.next_header,
                       hdr.l4.src_port, hdr.l4.dst_port }, 64w0x100000000);
                routing_v6.apply();
            }
        } else {
            no_route();
        }
        sm.priority = meta.class;
    }
}
