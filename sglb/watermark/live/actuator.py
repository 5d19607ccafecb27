"""Setting watermarks of running switches: ECN by P4Runtime, what pauses by gNMI; read back.

Kmin, Kmax and Pmax are entries of the P4 program's table of watermarks, written in a role of the tuner's
own. Alpha and XON are the traffic manager's, under the paths of `sglb.switch.gnmi_buffers`; BMv2 has
neither, nor a shared buffer. A setting reaches all of a fabric's switches or, where one refuses, none:
those that had it already are set back. Headroom is not touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import grpc
from finsy import Action, P4TableEntry, P4TableMatch
from finsy.proto import gnmi, gnmi_grpc

from sglb.switch.buffers import ALPHA, HEADROOM, XON_OFFSET
from sglb.switch.gnmi_buffers import ROOT
from sglb.switch.p4runtime.client import InProcessClient
from sglb.switch.p4runtime.status import P4RuntimeError
from sglb.watermark.live.errors import LiveTuneError
from sglb.watermark.settings import Watermarks
from sglb.watermark.tuner.fabric import PortSetting

WATERMARKS: Final = "FabricEgress.ecn.watermarks"
_SET: Final = "FabricEgress.ecn.set_watermark"
_SLOPE_ONE: Final = 1 << 32
_RPC_S: Final = 10.0
#: A controller that takes over writes once; who writes more often than this does not give way.
_TRIES: Final = 3
#: Alpha is kept as a ratio of 16-bit numbers.
_ALPHA_SLACK: Final = 1e-4


@dataclass(frozen=True, slots=True)
class Marks:
    """ECN as the program has it: thresholds in its unit of depth, and the slope between them."""

    kmin: int
    kmax: int
    slope: int

    @classmethod
    def of(cls, watermarks: Watermarks, unit_bytes: int) -> Marks:
        """What a setting means where depths are in `unit_bytes`."""
        kmin = int(watermarks.kmin_bytes) // unit_bytes
        kmax = int(watermarks.kmax_bytes) // unit_bytes
        slope = min(round(watermarks.pmax * _SLOPE_ONE) // max(1, kmax - kmin), _SLOPE_ONE - 1)
        return cls(kmin, kmax, slope)


class EcnTable:
    """The marking of one class on one switch, over P4Runtime."""

    def __init__(self, name: str, client: InProcessClient, traffic_class: int) -> None:
        self._name = name
        self._client = client
        self._class = traffic_class

    def read(self) -> dict[int, Marks]:
        """By P4 port number, of the ports that the controller has given entries."""
        with _told(self._name):
            entries = [
                e
                for e in self._client.read(P4TableEntry(WATERMARKS))
                if e.match["class"] == self._class
            ]
        return {int(e.match["port"]): _marks(e) for e in entries}

    def write(self, wanted: Mapping[int, Marks]) -> bool:
        """Changes entries and reads them back; whether somebody else wrote them in between.

        Then they are written again. Raises `LiveTuneError`, also for somebody who does not stop.
        """
        for tried in range(_TRIES):
            self._modify(wanted)
            now = self.read()
            other = {port for port, one in wanted.items() if now.get(port) != one}
            if not other:
                return tried > 0
        port = min(other)
        raise LiveTuneError(
            f"{self._name}: the watermarks of port {port} were written as {wanted[port]} and read "
            f"{now.get(port)}, {_TRIES} times: somebody else writes them too"
        )

    def _modify(self, wanted: Mapping[int, Marks]) -> None:
        with _told(self._name):
            self._client.modify(
                [
                    P4TableEntry(
                        WATERMARKS,
                        match=P4TableMatch({"port": port, "class": self._class}),
                        action=Action(_SET, kmin=one.kmin, kmax=one.kmax, slope=one.slope),
                    )
                    for port, one in sorted(wanted.items())
                ]
            )


def _marks(entry: Any) -> Marks:
    return Marks(**{name: int(value) for name, value in entry.action.args.items()})


@contextmanager
def _told(name: str) -> Iterator[None]:
    try:
        yield
    except P4RuntimeError as error:
        raise LiveTuneError(f"{name}: {error}") from error


class BufferPaths:
    """What pauses one class on one switch, over gNMI. `channel` is to where it serves."""

    def __init__(self, name: str, channel: grpc.Channel, traffic_class: int) -> None:
        self._name = name
        self._class = traffic_class
        self._stub = gnmi_grpc.gNMIStub(channel)

    def read(self) -> dict[str, float]:
        """Values by leaf. Raises `LiveTuneError` for a switch without such a lossless class."""
        request = gnmi.GetRequest(path=[self._path()], type=gnmi.GetRequest.CONFIG)
        answer = self._call(self._stub.Get, request)
        found: dict[str, float] = {}
        for notification in answer.notification:
            for update in notification.update:
                kind = update.val.WhichOneof("value")
                found[update.path.elem[-1].name] = float(getattr(update.val, kind))
        if ALPHA not in found or XON_OFFSET not in found:
            raise LiveTuneError(
                f"{self._name}: class {self._class} is not lossless there: start it with a buffer "
                "(`sglb switch --buffers`)"
            )
        return {ALPHA: found[ALPHA], XON_OFFSET: found[XON_OFFSET]}

    def headroom_bytes(self) -> dict[str, int]:
        """By interface. Raises `LiveTuneError`."""
        elements = [
            gnmi.PathElem(name=ROOT),
            gnmi.PathElem(name="interface", key={"name": "*"}),
            gnmi.PathElem(name="class", key={"number": f"{self._class}"}),
            gnmi.PathElem(name="config"),
            gnmi.PathElem(name=HEADROOM),
        ]
        request = gnmi.GetRequest(path=[gnmi.Path(elem=elements)], type=gnmi.GetRequest.CONFIG)
        answer = self._call(self._stub.Get, request)
        return {
            update.path.elem[1].key["name"]: int(update.val.uint_val)
            for notification in answer.notification
            for update in notification.update
        }

    def write(self, wanted: Mapping[str, float]) -> None:
        """Sets leaves and reads them back. Raises `LiveTuneError`."""
        request = gnmi.SetRequest(
            update=[
                gnmi.Update(path=self._path(leaf), val=_typed(leaf, value))
                for leaf, value in sorted(wanted.items())
            ]
        )
        self._call(self._stub.Set, request)
        now = self.read()
        for leaf, value in wanted.items():
            if abs(now[leaf] - value) > _ALPHA_SLACK * value:
                raise LiveTuneError(
                    f"{self._name}: {leaf} was set to {value:g} and reads {now[leaf]:g}: somebody "
                    "else sets it too"
                )

    def _path(self, leaf: str | None = None) -> gnmi.Path:
        elements = [
            gnmi.PathElem(name=ROOT),
            gnmi.PathElem(name="class", key={"number": f"{self._class}"}),
            gnmi.PathElem(name="config"),
        ]
        return gnmi.Path(elem=[*elements, *([gnmi.PathElem(name=leaf)] if leaf else [])])

    def _call(self, call: Any, request: Any) -> Any:
        try:
            return call(request, timeout=_RPC_S)
        except grpc.RpcError as error:
            raise LiveTuneError(f"{self._name}: gNMI: {error.details()}") from error


def _typed(leaf: str, value: float) -> gnmi.TypedValue:
    if leaf == ALPHA:
        return gnmi.TypedValue(double_val=value)
    return gnmi.TypedValue(uint_val=int(value))


@dataclass(frozen=True, slots=True)
class _State:
    """What a switch has in force."""

    marks: Mapping[int, Marks]
    pauses: Mapping[str, float] | None


class SwitchActuator:
    """One switch; `buffers` None: one, like BMv2, that has ECN alone."""

    def __init__(
        self,
        name: str,
        ecn: EcnTable,
        buffers: BufferPaths | None,
        unit_bytes: int,
        towards: Mapping[int, str] | None = None,
    ) -> None:
        """`towards` names what each port leads to."""
        self.name = name
        self._towards = towards or {}
        self._ecn = ecn
        self._buffers = buffers
        self._unit_bytes = unit_bytes

    def state(self) -> _State:
        """What is in force."""
        return _State(self._ecn.read(), None if self._buffers is None else self._buffers.read())

    def in_force(self) -> list[PortSetting]:
        """What each port has, read from the switch. Raises `LiveTuneError`."""
        marks, pauses, rooms = self._ecn.read(), None, {}
        if self._buffers is not None:
            pauses, rooms = self._buffers.read(), self._buffers.headroom_bytes()
        return [
            PortSetting(
                switch=self.name,
                towards=self._towards.get(port, f"port {port}"),
                kmin_bytes=one.kmin * self._unit_bytes,
                kmax_bytes=one.kmax * self._unit_bytes,
                pmax=one.slope * max(1, one.kmax - one.kmin) / _SLOPE_ONE,
                alpha=None if pauses is None else pauses[ALPHA],
                xon_offset_bytes=None if pauses is None else int(pauses[XON_OFFSET]),
                headroom_bytes=rooms.get(f"p{port}"),
            )
            for port, one in sorted(marks.items())
        ]

    def marks(self) -> Mapping[int, Marks]:
        """How each port marks. Raises `LiveTuneError`."""
        return self._ecn.read()

    def marks_of(self, watermarks: Watermarks) -> Marks:
        """What a setting means in this switch's unit of depth."""
        return Marks.of(watermarks, self._unit_bytes)

    def set(self, watermarks: Watermarks, before: _State) -> bool:
        """Puts a setting in force; when that fails, what was `before`. Raises `LiveTuneError`.

        True when somebody else wrote Kmin, Kmax or Pmax at the same time. Of a switch without `buffers`
        these are all: it has nothing that alpha and XON would be of.
        """
        if not before.marks:
            raise LiveTuneError(f"{self.name}: no port has watermarks of this class yet")
        try:
            if self._buffers is not None:
                self._buffers.write(
                    {ALPHA: watermarks.alpha, XON_OFFSET: float(int(watermarks.xon_offset_bytes))}
                )
            return self._ecn.write(dict.fromkeys(before.marks, self.marks_of(watermarks)))
        except LiveTuneError as error:
            self._back(before, error)
            raise

    def restore(self, state: _State) -> None:
        """Puts a state in force again. Raises `LiveTuneError`."""
        self._ecn.write(state.marks)
        if self._buffers is not None and state.pauses is not None:
            self._buffers.write(state.pauses)

    def _back(self, before: _State, cause: LiveTuneError) -> None:
        try:
            self.restore(before)
        except LiveTuneError as error:
            raise LiveTuneError(f"{cause}; not taken back: {error}") from cause


class FabricActuator:
    """All switches of a fabric, set alike.

    `overwritten` counts the times that somebody else, as a controller that takes over, was found to
    have changed how a switch marks.
    """

    def __init__(self, switches: Sequence[SwitchActuator]) -> None:
        self._switches = tuple(switches)
        self._last: Watermarks | None = None
        self.overwritten = 0

    def in_force(self) -> list[PortSetting]:
        """What each port of each switch has. Raises `LiveTuneError`."""
        return [port for one in self._switches for port in one.in_force()]

    def keep(self) -> bool:
        """Whether all switches still mark as was set last; if not, it is set again.

        Raises `LiveTuneError`.
        """
        assert self._last is not None
        if not any(self._changed(one, one.marks()) for one in self._switches):
            return True
        self.set(self._last)
        return False

    def _changed(self, switch: SwitchActuator, marks: Mapping[int, Marks]) -> bool:
        return self._last is not None and set(marks.values()) != {switch.marks_of(self._last)}

    def set(self, watermarks: Watermarks) -> None:
        """Puts a setting in force on all switches, or none. Raises `LiveTuneError`.

        Its text says where taking back has failed, too.
        """
        done = []
        changed = False
        try:
            for one in self._switches:
                before = one.state()
                changed |= self._changed(one, before.marks)
                changed |= one.set(watermarks, before)
                done.append((one, before))
        except LiveTuneError as error:
            left = []
            for one, before in reversed(done):
                try:
                    one.restore(before)
                except LiveTuneError as failed:
                    left.append(str(failed))
            if left:
                raise LiveTuneError(f"{error}; not taken back: {'; '.join(left)}") from error
            raise
        self._last = watermarks
        self.overwritten += changed
