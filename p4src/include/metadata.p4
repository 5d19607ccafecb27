// What a packet carries through the pipeline. SPDX-License-Identifier: Apache-2.0
#ifndef SGLB_METADATA_P4
#define SGLB_METADATA_P4

typedef bit<128> lanes_t;     // 16 lanes of 8 bits: a vector of numbers, or a set (bit 7 of each lane)
typedef bit<5>   bank_t;
typedef bit<10>  group_t;
typedef bit<6>   profile_t;
typedef bit<16>  subject_t;   // 0: none
typedef bit<48>  time_us_t;

const bit<8> NOTE_LIST = 1;       // field list that a notification's clone keeps
const bit<3> CONTROL_CLASS = 7;   // the switch's own frames leave first; no host's packet is in this class

struct headers_t {
    packet_out_h packet_out;
    packet_in_h  packet_in;
    ethernet_h   ethernet;
    vlan_h       vlan;
    event_h      event;
    sync_h       sync;
    note_h       note;
    set_h        set;
    ipv4_h       ipv4;
    ipv6_h       ipv6;
    l4_ports_h   l4;
    udp_rest_h   udp;
    bth_h        bth;
}

struct metadata_t {
    // The switch itself.
    bit<32>   node_id;
    bit<16>   incarnation;
    bit<32>   hash_seed;

    // The port that a packet came from or is about.
    bit<9>    port;
    bool      fabric;
    bit<32>   neighbour;
    bit<16>   neighbour_incarnation;
    bank_t    bank;
    bit<8>    lane_shift;
    subject_t port_subject;

    // Forwarding.
    bit<32>   l4_ports;      // 0 where there are none; an absent header's fields may hold anything
    bit<16>   dst;           // destination switch; 0: none yet
    bit<32>   flow_hash;
    bool      done;          // the packet's fate is decided
    bit<3>    class;

    // For egress: a packet-in's reason, whether it is one, and the subject whose announcement may have changed.
    bit<7>    reason;
    bool      internal;      // on the way to the CPU, but for egress alone
    subject_t subject;
    bit<3>    timer;         // app id of a timer packet, 0 none

    // A notification on its way out.
    @field_list(NOTE_LIST)
    subject_t note_subject;
    @field_list(NOTE_LIST)
    bit<8>    note_code;
    @field_list(NOTE_LIST)
    bit<8>    note_flags;    // bit 0: urgent
}

#endif
