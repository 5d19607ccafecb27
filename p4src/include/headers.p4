// Headers of the fabric. SPDX-License-Identifier: Apache-2.0
#ifndef SGLB_HEADERS_P4
#define SGLB_HEADERS_P4

const bit<16> ETHERTYPE_IPV4     = 0x0800;
const bit<16> ETHERTYPE_VLAN     = 0x8100;
const bit<16> ETHERTYPE_IPV6     = 0x86DD;
const bit<16> ETHERTYPE_SYNCMESH = 0x88B5;  // IEEE local experimental 1
const bit<16> ETHERTYPE_EVENT    = 0x88B6;  // IEEE local experimental 2

const bit<8>  PROTO_TCP = 6;
const bit<8>  PROTO_UDP = 17;
const bit<16> UDP_PORT_ROCE = 4791;

header ethernet_h {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header vlan_h {
    bit<3>  pcp;
    bit<1>  dei;
    bit<12> vid;
    bit<16> ether_type;
}

header ipv4_h {
    bit<4>  version;
    bit<4>  ihl;
    bit<6>  dscp;
    bit<2>  ecn;
    bit<16> total_len;
    bit<16> identification;
    bit<3>  flags;
    bit<13> frag_offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> hdr_checksum;
    bit<32> src_addr;
    bit<32> dst_addr;
}

header ipv6_h {
    bit<4>   version;
    bit<6>   dscp;
    bit<2>   ecn;
    bit<20>  flow_label;
    bit<16>  payload_len;
    bit<8>   next_header;
    bit<8>   hop_limit;
    bit<128> src_addr;
    bit<128> dst_addr;
}

// The two ports that TCP and UDP both start with; the rest of TCP travels as payload.
header l4_ports_h {
    bit<16> src_port;
    bit<16> dst_port;
}

header udp_rest_h {
    bit<16> len;
    bit<16> checksum;
}

// InfiniBand base transport header, as RoCEv2 carries it over UDP 4791.
header bth_h {
    bit<8>  opcode;
    bit<1>  se;
    bit<1>  migreq;
    bit<2>  pad_count;
    bit<4>  tver;
    bit<16> pkey;
    bit<1>  fecn;
    bit<1>  becn;
    bit<6>  reserved0;
    bit<24> dest_qp;
    bit<1>  ack_req;
    bit<7>  reserved1;
    bit<24> psn;
}

// What the packet generator puts in front of a port event or a timer packet. Bytes 0 and 2 to 5 are
// laid out as Tofino's generator does; byte 1, padding there, tells the kind and the port's state.
header event_h {
    bit<3>  pad1;
    bit<2>  pipe_id;
    bit<3>  app_id;
    bit<4>  kind;
    bit<3>  pad2;
    bit<1>  up;
    bit<16> port;        // of a port event; a timer's batch
    bit<16> packet_id;
}

const bit<4> EVENT_OF_PORT  = 0;
const bit<4> EVENT_OF_TIMER = 1;

// Timer applications.
@noWarn("unused") const bit<3> APP_QUALITY_TIMER = 1;
const bit<3> APP_BEAT_TIMER    = 2;

@controller_header("packet_in")
header packet_in_h {
    bit<9>  ingress_port;
    bit<7>  reason;
}

const bit<7> REASON_AGENT      = 1;  // a SyncMesh message for the agent
const bit<7> REASON_NOTE       = 2;  // an urgent notification that this switch took in
const bit<7> REASON_OWN_NOTE   = 3;  // an urgent notification that this switch sent
const bit<7> REASON_PORT_EVENT = 4;  // a port went down or up
const bit<7> REASON_BEAT       = 5;  // a heartbeat on a link that is marked down
const bit<7> REASON_SET        = 6;  // the agent's own SET, carried out
const bit<7> REASON_PROBE      = 7;  // routing's own probe of a link

@controller_header("packet_out")
header packet_out_h {
    bit<9>  egress_port;
    bit<1>  to_pipeline;  // 1: runs through ingress as if it came from the CPU port
    bit<6>  pad;
}

#endif
