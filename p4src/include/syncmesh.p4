// SyncMesh on the wire (docs/syncmesh.md has the byte layout). SPDX-License-Identifier: Apache-2.0
#ifndef SGLB_SYNCMESH_P4
#define SGLB_SYNCMESH_P4

const bit<4> SYNC_VERSION = 1;
const bit<48> SYNC_GROUP_MAC = 0x0180c200000e;  // nearest bridge (IEEE 802.1Q): nobody passes it on

// Message types. The first five are between agents and pass the data plane untouched.
const bit<4> SYNC_HELLO = 1;
@noWarn("unused") const bit<4> SYNC_FULL  = 2;
@noWarn("unused") const bit<4> SYNC_DELTA = 3;
@noWarn("unused") const bit<4> SYNC_ACK   = 4;
const bit<4> SYNC_BYE   = 5;
const bit<4> SYNC_PROBE = 6;   // routing to routing: asks, as BFD does, whether the link carries frames
const bit<4> SYNC_NOTE  = 8;   // data plane to data plane: the quality of a path changed
const bit<4> SYNC_BEAT  = 9;   // data plane to data plane: the link carries frames
const bit<4> SYNC_SET   = 10;  // own agent to own data plane: writes one lane of a vector

header sync_h {
    bit<4>  version;
    bit<4>  type;
    bit<8>  flags;         // BEAT: bit 0 tells that the sender heard this neighbour once and lost it
                           // NOTE: bit 0 tells that it is urgent: down, or no longer down
    bit<16> incarnation;   // of the origin
    bit<32> origin;        // node id
    bit<32> seq;           // of the origin's data plane or agent, each its own count
}

// NOTE: the state of the origin's paths toward `subject`.
header note_h {
    bit<16> subject;       // destination switch
    bit<8>  code;          // low 4 bits, two's complement: 0 best, -1..-7 worse, +1..+7, -8 down
    bit<8>  reserved;
    bit<32> capacity_mbps; // live capacity behind the origin toward it
}

// SET: what an agent may write.
const bit<8> SET_REMOTE = 1;   // code of `profile`, `port`
const bit<8> SET_LINK   = 2;   // liveness of `port`: code 8 down, 0 up

header set_h {
    bit<8>  what;
    bit<8>  code;
    bit<16> profile;
    bit<16> port;
    bit<16> subject;       // whose announcement may change by it; 0 none
}

@noWarn("unused") const bit<8> CODE_BEST  = 0;
const bit<8> CODE_WORST = 9;   // -7
const bit<8> CODE_DOWN  = 8;   // -8

#endif
