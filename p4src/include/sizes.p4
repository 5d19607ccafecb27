// Every table, register and vector size of the data plane, and the fixed numbers it shares with its
// control plane. SPDX-License-Identifier: Apache-2.0
#ifndef SGLB_SIZES_P4
#define SGLB_SIZES_P4

// Ports that are not front-panel ports.
#define CPU_PORT   510   // packet-in and packet-out
#define EVENT_PORT 509   // port events and timer packets of the packet generator

// A path is chosen among lanes. A bank is a vector of 16 lanes of 8 bits; each fabric port has one lane
// of one bank, and the members of a group all lie in one bank.
#define LANES      16
#define BANKS      32
#define PORTS      512

// A profile is a vector of remote quality, one code a lane (64 on TH5 class hardware).
#define PROFILES          64
#define REMOTE_VECTORS    2048   // PROFILES * BANKS

#define ROUTES        8192
#define DESTINATIONS  1024   // destination switches
#define GROUPS        1024
#define SLOTS         64     // slots of a group, shared out by live capacity
#define SLOT_ENTRIES  65536  // GROUPS * SLOTS
#define SUBJECTS      1024   // what a switch announces: one a destination or bundle
#define FLOWLETS      4096
#define WATERMARKS    4096   // port x class

// Multicast groups and clone sessions that the control plane sets up.
#define FABRIC_GROUP    1    // every fabric port: timer packets, heartbeats
#define NOTIFY_GROUP    2    // the neighbours that asked for notifications
#define NOTIFY_SESSION  3    // the same neighbours
#define URGENT_SESSION  4    // the same neighbours, and the CPU

#endif
