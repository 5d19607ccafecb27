// State that ingress and egress share. SPDX-License-Identifier: Apache-2.0
// TNA twin: a register lives in one stage of one pipe, so the vectors that egress writes and ingress
// reads stand in ingress there and are written by the mirrored packets that egress recirculates.
#ifndef SGLB_STATE_P4
#define SGLB_STATE_P4

// Lane vectors, one a bank. A lane of local_bad holds 0 (best band) to 7 (worst).
register<bit<128>>(BANKS) local_bad;
// Set of lanes whose port is down.
register<bit<128>>(BANKS) local_down;
// Index: profile ++ bank. A lane holds the 4-bit code that the neighbour behind it last announced.
register<bit<128>>(REMOTE_VECTORS) remote_codes;

// When the last heartbeat came in on a port, in microseconds; 0 never.
register<bit<48>>(PORTS) beat_seen;

// The sequence number that the next frame of this data plane carries.
register<bit<32>>(1) sync_seq;

#endif
