// Prefix -> host port or destination switch. SPDX-License-Identifier: Apache-2.0

// A CRC is linear: another seed flips the same bits of all flows' hashes, and two tiers that cut them
// into shares would cut at the same place, so that all flows of a share stay together. The top bits of
// this product follow from all bits, with carries. TNA twin: each tier has its own polynomial.
const bit<32> HASH_MIX = 0x9E3779B1;  // near 2^32 / golden ratio, odd

control Route(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets_and_bytes) routing_v4_counter;
    direct_counter(CounterType.packets_and_bytes) routing_v6_counter;

    bit<17> sum = 0;

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

    // One TTL less in the checksum, by RFC 1624, equation 3 (TTL is the high byte of its word). For
    // headers with options: that of others is made anew when the packet leaves.
    action adjust_checksum() {
        sum = (bit<17>)(~hdr.ipv4.hdr_checksum) + 0xfeff;
        hdr.ipv4.hdr_checksum = ~(sum[15:0] + (bit<16>)sum[16:16]);
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
        if (hdr.ipv4.isValid()) {
            if (sm.checksum_error == 1 || hdr.ipv4.ttl <= 1 || hdr.ipv4.ihl < 5) {
                no_route();
            } else {
                hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
                if (hdr.ipv4.ihl != 5) {
                    adjust_checksum();
                }
                meta.class = hdr.ipv4.dscp[5:3];
                hash(meta.flow_hash, HashAlgorithm.crc32, 32w0,
                     { meta.hash_seed, hdr.ipv4.src_addr, hdr.ipv4.dst_addr, hdr.ipv4.protocol,
                       meta.l4_ports }, 64w0x100000000);
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
                       meta.l4_ports }, 64w0x100000000);
                routing_v6.apply();
            }
        } else {
            no_route();
        }
        meta.flow_hash = meta.flow_hash * HASH_MIX;
        if (meta.class == CONTROL_CLASS) {
            meta.class = CONTROL_CLASS - 1;
        }
        sm.priority = meta.class;
    }
}
