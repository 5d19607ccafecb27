// ECN from a watermark table. SPDX-License-Identifier: Apache-2.0

control Ecn(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets) marked;

    bit<48> chance = 0;   // of 65536
    bit<16> dice = 0;

    // Kmin, Kmax in the target's unit of queue depth; slope = Pmax * 2^32 / (Kmax - Kmin), from the
    // control plane. TNA twin: Wred, as there is no multiplier.
    action set_watermark(bit<19> kmin, bit<19> kmax, bit<32> slope) {
        marked.count();
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
        counters = marked;
        size = WATERMARKS;
    }

    apply {
        watermarks.apply();
        if (chance != 0) {
            random(dice, 0, 0xffff);
            if ((bit<48>)dice < chance) {
                if (hdr.ipv4.isValid() && hdr.ipv4.ecn != 0) {
                    hdr.ipv4.ecn = 3;
                } else if (hdr.ipv6.isValid() && hdr.ipv6.ecn != 0) {
                    hdr.ipv6.ecn = 3;
                }
            }
        }
    }
}
