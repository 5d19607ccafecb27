"""Control planes of a user's own, importable by worker processes."""

from __future__ import annotations

import os
from collections.abc import Mapping

from finsy import Action, Match, P4TableEntry

from sglb.fabric.control import FabricView
from sglb.switch.p4runtime.client import InProcessClient

MAC = "02:00:00:00:00:aa"


class StaticRoutes:
    """Fills tests/programs/router.p4 on one switch: a route and a next hop for each of its hosts."""

    def __init__(self, view: FabricView) -> None:
        self._view = view
        self._routes = 0

    def start(self) -> None:
        for switch_id, service in self._view.services.items():
            entries = []
            for host in self._view.topology.hosts_of(switch_id):
                address = self._view.topology.address(host.id)
                port = self._view.topology.attachment(host.id).port(switch_id)
                mac = address.mac.hex(":")
                forward = Action("forward", port=port, src=MAC, dst=mac)
                via = Action("via", next_hop=port)
                prefix = Match({"hdr.ipv4.dst": f"{address.ipv4}/32"})
                entries.append(P4TableEntry("routes", match=prefix, action=via))
                number = Match({"meta.next_hop": port})
                entries.append(P4TableEntry("next_hops", match=number, action=forward))
            InProcessClient(service).insert(entries)
            self._routes += len(entries)

    def switch_restarted(self, switch_id: int) -> None:
        raise NotImplementedError

    def rate_changed(self, link_id: int, rate_bps: int) -> None:
        raise NotImplementedError

    def report(self) -> Mapping[str, object]:
        return {"entries": self._routes}


class Failing(StaticRoutes):
    """Cannot do its work."""

    def start(self) -> None:
        raise LookupError("the wanted table is not there")


class Dying(StaticRoutes):
    """Takes its whole process down."""

    def start(self) -> None:
        os._exit(7)


class Talking(StaticRoutes):
    """Prints while it works, as people's code does."""

    def start(self) -> None:
        print("hello from the control plane")  # noqa: T201
        super().start()
