// Which member of a group carries a packet. SPDX-License-Identifier: Apache-2.0

const bit<2> SELECT_HASH  = 0;  // by flow hash: ecmp
@noWarn("unused") const bit<2> SELECT_SPRAY = 1;  // slot by slot: spray, flowlet
const bit<2> SELECT_BEST  = 2;  // slot by slot among the members of the best band: dlb, glb

control Balance(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    register<bit<8>>(GROUPS) turns;
    register<bit<32>>(FLOWLETS) flowlet_time;    // low 32 bits of microseconds
    register<bit<128>>(FLOWLETS) flowlet_lane;   // one lane of the set

    direct_counter(CounterType.packets_and_bytes) lane_counter;
    counter(GROUPS, CounterType.packets) no_path;

    Best() best_path;

    group_t group = 0;
    bank_t bank = 0;
    lanes_t live = 0;
    profile_t profile = 0;
    bit<2> select_by = 0;
    bool per_flowlet = false;
    bit<32> gap_us = 0;
    bool skip_local_down = false;
    bool use_remote = false;

    lanes_t down = 0;
    lanes_t bad = 0;
    lanes_t codes = 0;
    lanes_t fit = 0;
    lanes_t lane = 0;
    bit<8> badness = 0;
    bit<8> turn = 0;
    bit<32> now_us = 0;
    bit<32> then_us = 0;
    bit<32> flowlet = 0;
    bit<6> slot = 0;
    lanes_t first = 0;
    lanes_t second = 0;
    lanes_t third = 0;
    lanes_t above = 0;

    action set_group(bit<10> index, bit<5> of_bank, bit<128> members, bit<6> with_profile) {
        group = index;
        bank = of_bank;
        live = members;
        profile = with_profile;
    }

    table destinations {
        key = { meta.dst: exact @name("dst"); }
        actions = { set_group; @defaultonly NoAction; }
        default_action = NoAction();
        size = DESTINATIONS;
    }

    action set_mode(bit<2> selection, bit<1> flowlets, bit<32> idle_us, bit<1> local_liveness,
                    bit<1> remote_state) {
        select_by = selection;
        per_flowlet = (flowlets == 1);
        gap_us = idle_us;
        skip_local_down = (local_liveness == 1);
        use_remote = (remote_state == 1);
    }

    table modes {
        key = { group: exact @name("group"); }
        actions = { set_mode; }
        default_action = set_mode(SELECT_HASH, 0, 0, 0, 0);
        size = GROUPS;
    }

    action set_slot(bit<128> one, bit<128> two, bit<128> three) {
        first = one;
        second = two;
        third = three;
    }

    // A slot belongs to one member; when that one is not fit, its turn passes to the members of the
    // next slots, so that what remains is shared in proportion too.
    table slots {
        key = {
            group: exact @name("group");
            slot: exact @name("slot");
        }
        actions = { set_slot; @defaultonly NoAction; }
        default_action = NoAction();
        size = SLOT_ENTRIES;
    }

    action to_port(bit<9> port, bit<48> src_mac, bit<48> dst_mac) {
        sm.egress_spec = port;
        hdr.ethernet.src_addr = src_mac;
        hdr.ethernet.dst_addr = dst_mac;
    }

    action lost() {
        mark_to_drop(sm);
    }

    table lanes {
        key = {
            bank: exact @name("bank");
            lane: exact @name("lane");
        }
        actions = { to_port; @defaultonly lost; }
        default_action = lost();
        counters = lane_counter;
        size = PORTS;
    }

    apply {
        destinations.apply();
        modes.apply();

        if (skip_local_down) {
            local_down.read(down, (bit<32>)bank);
            live = live & ~down;
        }
        if (use_remote) {
            remote_codes.read(codes, (bit<32>)(profile ++ bank));
            live = live & ((codes ^ 128w0x08080808080808080808080808080808)
                           + 128w0x7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f);
        }

        if (live == 0) {
            no_path.count((bit<32>)group);
            mark_to_drop(sm);
        } else {
            if (per_flowlet) {
                now_us = sm.ingress_global_timestamp[31:0];
                flowlet = (bit<32>)meta.flow_hash[25:14];
                flowlet_time.read(then_us, flowlet);
                flowlet_time.write(flowlet, now_us);
                flowlet_lane.read(lane, flowlet);
                if (now_us - then_us > gap_us) {
                    lane = 0;
                }
                lane = lane & live;
            }
            if (lane == 0) {
                fit = live;
                if (select_by == SELECT_BEST) {
                    local_bad.read(bad, (bit<32>)bank);
                    best_path.apply(bad, codes, live, true, fit, badness);
                }
                if (select_by == SELECT_HASH) {
                    slot = meta.flow_hash[31:26];
                } else {
                    turns.read(turn, (bit<32>)group);
                    turns.write((bit<32>)group, turn + 1);
                    slot = turn[5:0];
                }
                slots.apply();
                if ((first & fit) != 0) {
                    lane = first;
                } else if ((second & fit) != 0) {
                    lane = second;
                } else if ((third & fit) != 0) {
                    lane = third;
                } else {
                    // The next lane that is fit: different ones for different slots.
                    above = fit & ~(first - 1);
                    if (above == 0) {
                        above = fit;
                    }
                    lane = above & (~above + 1);
                }
                if (per_flowlet) {
                    flowlet_lane.write(flowlet, lane);
                }
            }
            lanes.apply();
        }
    }
}
