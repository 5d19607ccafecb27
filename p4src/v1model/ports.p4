// What a port is, and what it says of itself: events and timers. SPDX-License-Identifier: Apache-2.0

control Ports(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    lanes_t down = 0;

    action set_switch(bit<32> node_id, bit<16> incarnation, bit<32> hash_seed) {
        meta.node_id = node_id;
        meta.incarnation = incarnation;
        meta.hash_seed = hash_seed;
    }

    table switch_info {
        actions = { set_switch; @defaultonly NoAction; }
        default_action = NoAction();
        size = 1;
    }

    action set_fabric(bit<32> neighbour, bit<16> incarnation, bit<5> bank, bit<8> lane_shift,
                      bit<16> subject) {
        meta.fabric = true;
        meta.neighbour = neighbour;
        meta.neighbour_incarnation = incarnation;
        meta.bank = bank;
        meta.lane_shift = lane_shift;
        meta.port_subject = subject;
    }

    // Fabric ports; any other is a host port.
    table ports {
        key = { meta.port: exact @name("port"); }
        actions = { set_fabric; @defaultonly NoAction; }
        default_action = NoAction();
        size = PORTS;
    }

    // Egress writes the same vector: read and write stay in one action.
    action mark_down() {
        local_down.read(down, (bit<32>)meta.bank);
        local_down.write((bit<32>)meta.bank, down | (128w0x80 << meta.lane_shift));
    }

    apply {
        switch_info.apply();

        if (hdr.event.isValid() && hdr.event.kind == EVENT_OF_PORT) {
            meta.port = hdr.event.port[8:0];
        } else if (hdr.set.isValid() && sm.ingress_port == CPU_PORT) {
            meta.port = hdr.set.port[8:0];
        }
        ports.apply();

        if (hdr.event.isValid()) {
            meta.done = true;
            sm.priority = CONTROL_CLASS;
            if (sm.ingress_port != EVENT_PORT && sm.ingress_port != CPU_PORT) {
                mark_to_drop(sm);
            } else if (hdr.event.kind == EVENT_OF_PORT) {
                // Up does not clear the lane: the route is restored first, then the agent does (SET_LINK).
                if (hdr.event.up == 0 && meta.fabric) {
                    mark_down();
                }
                meta.subject = meta.port_subject;
                meta.reason = REASON_PORT_EVENT;
                sm.egress_spec = CPU_PORT;
            } else if (hdr.event.kind == EVENT_OF_TIMER && hdr.event.app_id != 0) {
                meta.timer = hdr.event.app_id;
                sm.mcast_grp = FABRIC_GROUP;
            } else {
                mark_to_drop(sm);
            }
        }
    }
}
