"""PTF's tests of tests/programs/router.p4: `test_ptf` has PTF's runner run them on a live switch.

Parameters: `grpc` is the switch's HOST:PORT.
"""

import p4runtime_sh.shell as sh
import ptf
from ptf.base_tests import BaseTest
from ptf.testutils import (
    group,
    send_packet,
    simple_udp_packet,
    test_params_get,
    verify_no_other_packets,
    verify_packet,
)

ROUTER, HOP = "02:00:00:00:00:01", "02:00:00:00:01:02"


class RouterTest(BaseTest):
    """A router with one route, 10.0.0.0/8 by port 2; it is taken away at the end."""

    def setUp(self):
        super().setUp()
        self.dataplane = ptf.dataplane_instance
        self.dataplane.flush()
        sh.setup(device_id=1, grpc_addr=test_params_get()["grpc"], election_id=(0, 1))
        self.addCleanup(sh.teardown)
        hop = sh.TableEntry("RouterIngress.next_hops")(action="RouterIngress.forward")
        hop.match["meta.next_hop"] = "1"
        hop.action.set(port="2", src=ROUTER, dst=HOP)
        self.route = sh.TableEntry("RouterIngress.routes")(action="RouterIngress.via")
        self.route.match["hdr.ipv4.dst"] = "10.0.0.0/8"
        self.route.action["next_hop"] = "1"
        for entry in (hop, self.route):
            entry.insert()
            self.addCleanup(entry.delete)

    def sent(self, **fields):
        """A packet from the host at port 1."""
        return simple_udp_packet(**{"eth_dst": ROUTER, "ip_dst": "10.1.2.3", **fields})


class Routed(RouterTest):
    def runTest(self):
        send_packet(self, 1, self.sent(ip_ttl=64))
        expected = self.sent(eth_src=ROUTER, eth_dst=HOP, ip_ttl=63)
        verify_packet(self, expected, 2)
        verify_no_other_packets(self)


class Unroutable(RouterTest):
    def runTest(self):
        send_packet(self, 1, self.sent(ip_dst="11.1.2.3"))
        verify_no_other_packets(self)


@group("ttl")
class Expired(RouterTest):
    def runTest(self):
        send_packet(self, 1, self.sent(ip_ttl=1))
        verify_no_other_packets(self)


class Counted(RouterTest):
    def runTest(self):
        send_packet(self, 1, self.sent(), count=3)
        for _ in range(3):
            verify_packet(self, self.sent(eth_src=ROUTER, eth_dst=HOP, ip_ttl=63), 2)
        counter = sh.DirectCounterEntry("RouterIngress.routed")
        counter.table_entry.match["hdr.ipv4.dst"] = "10.0.0.0/8"
        (found,) = counter.read()
        assert found.data.packet_count == 3, found
