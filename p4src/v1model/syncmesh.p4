// SyncMesh frames that come in. SPDX-License-Identifier: Apache-2.0

control SyncMesh(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    // The origin's incarnation ++ sequence number that came last on a port.
    register<bit<48>>(PORTS) last_seen;
    // Of each vector of remote_codes, the lanes that hold "worst" for one of several subjects. A band of
    // another does not run over it.
    register<bit<16>>(REMOTE_VECTORS) pinned;

    // How often the agent is told of heartbeats on a marked link; as often as they come, without a rate.
    meter(PORTS, MeterType.packets) beats_told;
    const bit<2> GREEN = 0;

    counter(8, CounterType.packets) sync_in;
    const bit<32> TAKEN = 0;
    const bit<32> FROM_HOST = 1;
    const bit<32> UNKNOWN_ORIGIN = 2;
    const bit<32> OLD_INCARNATION = 3;
    const bit<32> OLD_SEQUENCE = 4;
    const bit<32> NO_PROFILE = 5;
    const bit<32> MALFORMED = 6;

    bit<48> last = 0;
    bit<32> ahead = 0;
    lanes_t codes = 0;
    lanes_t down = 0;
    lanes_t bit_of_lane = 0;
    bit<8> code = 0;
    bit<2> color = GREEN;
    bit<4> held = 0;
    bit<32> vector = 0;
    bit<16> pins = 0;
    bit<16> pin = 0;
    bool tell = false;

    profile_t profile = 0;
    lanes_t reach = 0;
    bool exclusive = false;

    action refuse(bit<32> why) {
        sync_in.count(why);
        mark_to_drop(sm);
    }

    action set_profile(bit<6> index, bit<128> lanes, bit<1> alone, bit<16> relay) {
        profile = index;
        reach = lanes;
        exclusive = (alone == 1);
        meta.subject = relay;
    }

    // The profile that holds the quality toward a subject: `lanes` the members that reach it, `alone`
    // whether the profile speaks of nothing else. One that it shares with others takes no code of it
    // but "down", as "worst": the others can still use the lane. `relay` is the subject whose
    // announcement depends on it.
    table profiles {
        key = { hdr.note.subject: exact @name("subject"); }
        actions = { set_profile; @defaultonly NoAction; }
        default_action = NoAction();
        size = DESTINATIONS;
    }

    action read_codes() {
        vector = (bit<32>)(profile ++ meta.bank);
        remote_codes.read(codes, vector);
        pinned.read(pins, vector);
        held = (codes >> meta.lane_shift)[3:0];
    }

    action write_code() {
        codes = (codes & ~(128w0xff << meta.lane_shift)) | ((bit<128>)code << meta.lane_shift);
        remote_codes.write(vector, codes);
        pinned.write(vector, pins);
    }

    // Egress writes the same vector: read and write stay in one action.
    action mark_down() {
        local_down.read(down, (bit<32>)meta.bank);
        local_down.write((bit<32>)meta.bank, down | bit_of_lane);
    }

    // The count of silence starts anew before the mark goes, or egress would set it again.
    action clear_down() {
        beat_seen.write((bit<32>)meta.port, sm.ingress_global_timestamp);
        local_down.read(down, (bit<32>)meta.bank);
        local_down.write((bit<32>)meta.bank, down & ~bit_of_lane);
    }

    action to_agent(bit<7> reason) {
        meta.reason = reason;
        sm.egress_spec = CPU_PORT;
        sm.priority = CONTROL_CLASS;
    }

    apply {
        meta.done = true;
        bit_of_lane = 128w0x80 << meta.lane_shift;
        pin = 16w1 << (meta.lane_shift >> 3);

        if (sm.ingress_port == CPU_PORT) {
            // The switch's own agent.
            if (!hdr.set.isValid() || hdr.vlan.isValid() || hdr.sync.version != SYNC_VERSION
                || !meta.fabric || hdr.set.port[15:9] != 0) {
                refuse(MALFORMED);
            } else if (hdr.set.what == SET_REMOTE && hdr.set.profile < PROFILES) {
                profile = hdr.set.profile[5:0];
                code = hdr.set.code & 0xf;
                read_codes();
                pins = pins & ~pin;
                if (code == CODE_WORST) {
                    pins = pins | pin;
                }
                write_code();
                meta.subject = hdr.set.subject;
                to_agent(REASON_SET);
            } else if (hdr.set.what == SET_LINK) {
                if (hdr.set.code == CODE_DOWN) {
                    mark_down();
                } else {
                    clear_down();
                }
                meta.subject = meta.port_subject;
                to_agent(REASON_SET);
            } else {
                refuse(MALFORMED);
            }
        } else if (!meta.fabric) {
            refuse(FROM_HOST);
        } else if (hdr.vlan.isValid()) {
            refuse(MALFORMED);
        } else if (hdr.sync.version != SYNC_VERSION || hdr.sync.origin != meta.neighbour) {
            // An agent's HELLO is how a neighbour becomes known: the agent judges it by its tag.
            if (hdr.sync.version == SYNC_VERSION && hdr.sync.type == SYNC_HELLO) {
                sync_in.count(TAKEN);
                to_agent(REASON_AGENT);
            } else {
                refuse(UNKNOWN_ORIGIN);
            }
        } else if (hdr.sync.type <= SYNC_BYE) {
            sync_in.count(TAKEN);
            to_agent(REASON_AGENT);
        } else if (hdr.sync.type == SYNC_PROBE) {
            sync_in.count(TAKEN);
            to_agent(REASON_PROBE);
        } else if (hdr.sync.incarnation != meta.neighbour_incarnation) {
            refuse(OLD_INCARNATION);
        } else {
            last_seen.read(last, (bit<32>)sm.ingress_port);
            ahead = hdr.sync.seq - last[31:0];
            if (last[47:32] == hdr.sync.incarnation && (ahead == 0 || ahead[31:31] == 1)) {
                refuse(OLD_SEQUENCE);
            } else {
                last_seen.write((bit<32>)sm.ingress_port, hdr.sync.incarnation ++ hdr.sync.seq);
                if (hdr.sync.type == SYNC_BEAT) {
                    sync_in.count(TAKEN);
                    beat_seen.write((bit<32>)sm.ingress_port, sm.ingress_global_timestamp);
                    local_down.read(down, (bit<32>)meta.bank);
                    if (hdr.sync.flags[0:0] == 1 && (down & bit_of_lane) == 0) {
                        // It no longer hears us: what we send there is lost.
                        mark_down();
                        meta.subject = meta.port_subject;
                        to_agent(REASON_BEAT);
                    } else if ((down & bit_of_lane) != 0) {
                        beats_told.execute_meter((bit<32>)sm.ingress_port, color);
                        if (color == GREEN) {
                            to_agent(REASON_BEAT);
                        } else {
                            mark_to_drop(sm);
                        }
                    } else {
                        mark_to_drop(sm);
                    }
                } else if (!hdr.note.isValid()) {
                    refuse(MALFORMED);
                } else {
                    if (profiles.apply().hit && (reach & bit_of_lane) != 0) {
                        sync_in.count(TAKEN);
                        code = hdr.note.code & 0xf;
                        read_codes();
                        // The agent is told what is down and what no longer is, not of bands: no
                        // switch CPU keeps pace with those. What is lost of them is told again soon.
                        tell = hdr.sync.flags[0:0] == 1;
                        if (exclusive) {
                            if (code == CODE_DOWN || (pins & pin) == 0) {
                                tell = tell || (code == CODE_DOWN) != (held == CODE_DOWN[3:0]);
                                pins = pins & ~pin;
                                write_code();
                            }
                        } else if (code == CODE_DOWN && held != CODE_DOWN[3:0]) {
                            pins = pins | pin;
                            code = CODE_WORST;
                            write_code();
                        }
                        if (tell) {
                            to_agent(REASON_NOTE);
                        } else if (meta.subject != 0) {
                            // Egress looks at the announcement.
                            meta.internal = true;
                            to_agent(REASON_NOTE);
                        } else {
                            mark_to_drop(sm);
                        }
                    } else {
                        refuse(NO_PROFILE);
                    }
                }
            }
        }
    }
}
