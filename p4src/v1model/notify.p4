// Announcing a subject when its best path's state changes. SPDX-License-Identifier: Apache-2.0

control Announce(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    register<bit<8>>(SUBJECTS) announced;       // the code sent last; all start at best
    register<bit<48>>(SUBJECTS) announced_at;   // microseconds
    register<bit<8>>(SUBJECTS) repeats;         // copies still to send after a link went down or up

    Best() best_path;

    bank_t bank = 0;
    lanes_t members = 0;
    profile_t profile = 0;
    bit<48> spacing_us = 0;
    bit<48> refresh_us = 0;
    bit<8> copies = 0;

    bit<32> index = 0;
    lanes_t bad = 0;
    lanes_t codes = 0;
    lanes_t down = 0;
    lanes_t best = 0;
    bit<8> badness = 0;
    bit<8> code = 0;
    bit<8> was = 0;
    bit<8> left = 0;
    time_us_t sent_at = 0;
    bit<48> age_us = 0;
    bool urgent = false;
    bool send = false;

    action set_subject(bit<5> of_bank, bit<128> of_members, bit<6> with_profile,
                       bit<32> with_spacing_us, bit<32> with_refresh_us, bit<8> with_copies) {
        bank = of_bank;
        members = of_members;
        profile = with_profile;
        spacing_us = (bit<48>)with_spacing_us;
        refresh_us = (bit<48>)with_refresh_us;
        copies = with_copies;
    }

    // Where a subject's paths are; profile 0 is always neutral. `spacing_us` is the shortest time
    // between two notifications of a changed band; a link that goes down or comes up never waits. What
    // does not change is told again after `refresh_us`, so that what was lost is not missed for long.
    table subjects {
        key = { meta.subject: exact @name("subject"); }
        actions = { set_subject; @defaultonly NoAction; }
        default_action = NoAction();
        size = SUBJECTS;
    }

    apply {
        if (subjects.apply().hit) {
            index = (bit<32>)meta.subject;
            local_bad.read(bad, (bit<32>)bank);
            local_down.read(down, (bit<32>)bank);
            remote_codes.read(codes, (bit<32>)(profile ++ bank));
            best_path.apply(bad, codes, members & ~down, false, best, badness);
            code = (8w0 - badness) & 0xf;   // -badness in 4 bits: 8 is "down"

            announced.read(was, index);
            announced_at.read(sent_at, index);
            repeats.read(left, index);
            age_us = sm.egress_global_timestamp - sent_at;
            if (code != was) {
                urgent = (code == CODE_DOWN || was == CODE_DOWN);
                send = urgent || age_us >= spacing_us;
                left = 0;
                if (urgent) {
                    left = copies;
                }
            } else if (meta.timer != 0) {
                urgent = (code == CODE_DOWN || left != 0);
                send = left != 0 || age_us >= refresh_us;
                if (left != 0) {
                    left = left - 1;
                }
            }
            if (send) {
                announced.write(index, code);
                announced_at.write(index, sm.egress_global_timestamp);
                repeats.write(index, left);
                meta.note_subject = meta.subject;
                meta.note_code = code;
                if (urgent) {
                    meta.note_flags = 1;
                    clone_preserving_field_list(CloneType.E2E, URGENT_SESSION, NOTE_LIST);
                } else {
                    clone_preserving_field_list(CloneType.E2E, NOTIFY_SESSION, NOTE_LIST);
                }
            }
        }
    }
}

// A clone that Announce asked for becomes the notification.
control BuildNote(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    bit<16> dst = 0;
    bit<32> capacity_mbps = 0;

    action set_destination(bit<16> of_dst, bit<32> with_capacity_mbps) {
        dst = of_dst;
        capacity_mbps = with_capacity_mbps;
    }

    table announcements {
        key = { meta.note_subject: exact @name("subject"); }
        actions = { set_destination; @defaultonly NoAction; }
        default_action = NoAction();
        size = SUBJECTS;
    }

    apply {
        announcements.apply();
        hdr.packet_in.setInvalid();
        hdr.vlan.setInvalid();
        hdr.event.setInvalid();
        hdr.set.setInvalid();
        hdr.ipv4.setInvalid();
        hdr.ipv6.setInvalid();
        hdr.l4.setInvalid();
        hdr.udp.setInvalid();
        hdr.bth.setInvalid();
        hdr.ethernet.setValid();
        hdr.sync.setValid();
        hdr.sync.type = SYNC_NOTE;
        hdr.sync.flags = meta.note_flags;
        hdr.note.setValid();
        hdr.note.subject = dst;
        hdr.note.code = meta.note_code;
        hdr.note.reserved = 0;
        hdr.note.capacity_mbps = capacity_mbps;
        if (sm.egress_port == CPU_PORT) {
            meta.reason = REASON_OWN_NOTE;
            truncate(36);
        } else {
            truncate(34);
        }
    }
}
