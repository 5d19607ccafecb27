// ECN from a watermark table. SPDX-License-Identifier: Apache-2.0

control Ecn(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets) queued;        // all packets of the port and class
    counter(PORTS, CounterType.packets) marked;        // those that were marked
#ifdef WAITED
    // For targets that tell no queue depths, as BMv2: what was left in the queue behind each packet, summed
    // up by port, in the target's unit. Over `queued` it is the mean depth.
    register<bit<48>>(PORTS) waited;
    bit<48> sum = 0;
#endif

    bit<48> chance = 0;   // of 65536
    bit<16> dice = 0;

    // Kmin, Kmax in the target's unit of queue depth; slope = Pmax * 2^32 / (Kmax - Kmin), from the
    // control plane. TNA twin: Wred, as there is no multiplier.
    action set_watermark(bit<19> kmin, bit<19> kmax, bit<32> slope) {
        queued.count();
#ifdef WAITED
        waited.read(sum, (bit<32>)sm.egress_port);
        waited.write((bit<32>)sm.egress_port, sum + (bit<48>)sm.deq_qdepth);
#endif
        if (sm.deq_qdepth >= kmax) {
            chance = 0x10000;
        } else if (sm.deq_qdepth > kmin) {
            chance = ((bit<48>)(sm.deq_qdepth - kmin) * (bit<48>)slope) >> 16;
        }
    }

    table watermarks {
        key = {
            sm.egress_port: exact @name("port");
            meta.class: exact @name("class");
        }
        actions = { set_watermark; @defaultonly NoAction; }
        default_action = NoAction();
        counters = queued;
        size = WATERMARKS;
    }

    apply {
        watermarks.apply();
        if (chance != 0) {
            random(dice, 0, 0xffff);
            if ((bit<48>)dice < chance) {
                // Not with options: the checksum of such a header is not made anew.
                if (hdr.ipv4.isValid() && hdr.ipv4.ecn != 0 && hdr.ipv4.ihl == 5) {
                    hdr.ipv4.ecn = 3;
                    marked.count((bit<32>)sm.egress_port);
                } else if (hdr.ipv6.isValid() && hdr.ipv6.ecn != 0) {
                    hdr.ipv6.ecn = 3;
                    marked.count((bit<32>)sm.egress_port);
                }
            }
        }
    }
}
