// A fabric port's quality: past load and queue depth, in 8 bands. SPDX-License-Identifier: Apache-2.0
//
// Past load is a sum of bytes that loses a quarter every 16 us (EWMA exponent 2), brought up to date
// when a packet passes: at a constant rate r it settles at 4 * r * 16 us. The score adds the queues to
// it, weighted by shifts; seven thresholds, which the control plane sets for the port's live capacity,
// make 8 bands of it. TNA twin: an Lpf extern for the load, a range table for the bands.

control Quality(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    register<bit<32>>(PORTS) load_bytes;
    register<bit<32>>(PORTS) load_epoch;   // microseconds / 16
    register<bit<192>>(PORTS) depths;      // what waited behind the last packet of each class, 24 bits each
    register<bit<16>>(1) scan;             // which subject a timer packet looks at next

    bool measured = false;
    subject_t subject = 0;
    bank_t bank = 0;
    bit<8> lane_shift = 0;
    bit<8> load_shift = 0;
    bit<8> queue_shift = 0;
    bit<32> beat_timeout_us = 0;
    bit<16> scan_first = 0;
    bit<16> scan_count = 0;
    bit<16> next = 0;
    bit<32> t1 = 0;
    bit<32> t2 = 0;
    bit<32> t3 = 0;
    bit<32> t4 = 0;
    bit<32> t5 = 0;
    bit<32> t6 = 0;
    bit<32> t7 = 0;

    bit<32> port = 0;
    bit<32> load = 0;
    bit<32> epoch = 0;
    bit<32> idle = 0;
    bit<192> depth = 0;
    bit<8> class_shift = 0;
    bit<32> score = 0;
    bit<8> bad = 0;
    bit<8> was = 0;
    lanes_t vector = 0;
    lanes_t down = 0;
    time_us_t seen = 0;
    bit<48> silent_us = 0;
    bit<1> lost = 0;
    bool news = false;   // the state of this very port changed

    action set_port(bit<16> of_subject, bit<5> of_bank, bit<8> with_lane_shift,
                    bit<8> with_load_shift, bit<8> with_queue_shift, bit<32> with_beat_timeout_us,
                    bit<16> with_scan_first, bit<16> with_scan_count, bit<32> v1, bit<32> v2, bit<32> v3,
                    bit<32> v4, bit<32> v5, bit<32> v6, bit<32> v7) {
        measured = true;
        subject = of_subject;
        bank = of_bank;
        lane_shift = with_lane_shift;
        load_shift = with_load_shift;
        queue_shift = with_queue_shift;
        beat_timeout_us = with_beat_timeout_us;
        scan_first = with_scan_first;
        scan_count = with_scan_count;
        t1 = v1; t2 = v2; t3 = v3; t4 = v4; t5 = v5; t6 = v6; t7 = v7;
    }

    // `of_subject` depends on this port alone and is announced at once. The switch's subjects, the
    // `with_scan_count` from `with_scan_first` on, are looked at in turn, one a timer packet, whatever
    // port that leaves by: what a port that is down has to say leaves by the others.
    // Thresholds v1 < ... < v7 on the score; a score below v1 is band 7.
    table port_quality {
        key = { sm.egress_port: exact @name("port"); }
        actions = { set_port; @defaultonly NoAction; }
        default_action = NoAction();
        size = PORTS;
    }

    // Ingress and other ports write the same vector: read and write stay in one action.
    action mark_down() {
        local_down.read(down, (bit<32>)bank);
        local_down.write((bit<32>)bank, down | (128w0x80 << lane_shift));
    }

    apply {
        port_quality.apply();
        if (measured) {
            port = (bit<32>)sm.egress_port;
            epoch = sm.egress_global_timestamp[35:4];
            load_epoch.read(idle, port);
            load_epoch.write(port, epoch);
            idle = epoch - idle;
            load_bytes.read(load, port);
            depths.read(depth, port);
            if (idle >= 16) {
                load = 0;
            } else {
                // (3/4)^idle, bit by bit of idle: exact for 1 and 2, within 2 % of it for 4 and 8.
                if (idle[0:0] == 1) { load = (load >> 1) + (load >> 2); }
                if (idle[1:1] == 1) { load = (load >> 1) + (load >> 4); }
                if (idle[2:2] == 1) { load = (load >> 2) + (load >> 4); }
                if (idle[3:3] == 1) { load = (load >> 4) + (load >> 5) + (load >> 7); }
            }
            if (meta.timer == 0) {
                load = load + sm.packet_length;
                if (sm.priority != CONTROL_CLASS) {
                    class_shift = ((bit<8>)sm.priority << 4) + ((bit<8>)sm.priority << 3);
                    depth = (depth & ~(192w0xffffff << class_shift))
                            | ((bit<192>)sm.deq_qdepth << class_shift);
                    depths.write(port, depth);
                }
            } else {
                local_down.read(down, (bit<32>)bank);
                if (load == 0 || (down & (128w0x80 << lane_shift)) != 0) {
                    // Nothing left for long, or the link was cut: what waited, if anything, was lost.
                    depth = 0;
                    depths.write(port, depth);
                }
            }
            load_bytes.write(port, load);

            // A packet sees its own class's queue only, so the others' are remembered; here is their sum.
            depth = depth + (depth >> 96);
            depth = depth + (depth >> 48);
            depth = depth + (depth >> 24);
            score = (load >> load_shift) + ((bit<32>)depth[23:0] << queue_shift);
            if (score < t4) {
                if (score < t2) {
                    if (score < t1) { bad = 0; } else { bad = 1; }
                } else {
                    if (score < t3) { bad = 2; } else { bad = 3; }
                }
            } else {
                if (score < t6) {
                    if (score < t5) { bad = 4; } else { bad = 5; }
                } else {
                    if (score < t7) { bad = 6; } else { bad = 7; }
                }
            }

            // Where ports leave in parallel, one may overwrite what another wrote just now: each pass
            // compares, so the next one puts it right.
            local_bad.read(vector, (bit<32>)bank);
            was = (bit<8>)(vector >> lane_shift);
            if (was != bad) {
                local_bad.write((bit<32>)bank,
                    (vector & ~(128w0xff << lane_shift)) | ((bit<128>)bad << lane_shift));
                news = true;
            }

            if (meta.timer == APP_BEAT_TIMER) {
                beat_seen.read(seen, port);
                // Below 0: a heartbeat came in after this packet had its time stamp.
                silent_us = sm.egress_global_timestamp - seen;
                if (seen != 0 && silent_us[47:47] == 0 && silent_us > (bit<48>)beat_timeout_us) {
                    lost = 1;
                    mark_down();
                    if ((down & (128w0x80 << lane_shift)) == 0) {
                        news = true;
                    }
                }
                // The timer packet leaves as a heartbeat.
                hdr.event.setInvalid();
                hdr.sync.setValid();
                hdr.sync.type = SYNC_BEAT;
                hdr.sync.flags = 7w0 ++ lost;
                truncate(26);
            }

            if ((news && subject != 0) || (meta.timer != 0 && scan_count == 0)) {
                meta.subject = subject;
            } else if (meta.timer != 0) {
                // Changes that the rate limit held back, repeats, subjects that hang on several ports.
                scan.read(next, 0);
                if (next >= scan_count) {
                    next = 0;
                }
                scan.write(0, next + 1);
                meta.subject = scan_first + next;
            }
        }
        if (meta.timer != 0 && !hdr.sync.isValid()) {
            mark_to_drop(sm);
        }
    }
}
