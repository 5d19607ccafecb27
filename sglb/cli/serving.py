"""`sglb switch`: one switch in real time."""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer
from finsy import P4Schema
from finsy.proto import p4r

from sglb.cli import files
from sglb.cli.arguments import Define, Include
from sglb.cli.errors import UserError
from sglb.p4.compiler import CompiledProgram
from sglb.switch.buffer_file import load_buffers
from sglb.switch.buffers import BufferSettings
from sglb.switch.clock import PS_PER_S, PS_PER_US
from sglb.switch.config import SwitchConfig
from sglb.switch.live import LiveSwitch, ServeOptions, serve
from sglb.switch.p4runtime.service import ServiceOptions
from sglb.switch.p4runtime.tls import TlsFiles
from sglb.switch.pktgen import TIMER_PAYLOAD, TimerApp
from sglb.switch.wire.port import InterfacePort

_log = logging.getLogger(__name__)

_RANGE = re.compile(r"([0-9]{1,3})(?:-([0-9]{1,3}))?\Z")
_MAX_PORT = 511
_MAX_ID: Final = (1 << 64) - 1  #: a uint64 of P4Runtime
_ADDRESS = re.compile(r"(?:\[[0-9a-fA-F:.%]+\]|[^\s:\[\]]+):([0-9]{1,5})\Z")
_PORT = re.compile(r"([0-9]{1,3})[:@]([^\s/]{1,15})\Z")
_TIMER = re.compile(r"([1-7]):([0-9]{1,10}(?:\.[0-9]+)?)\Z")
_RATE = re.compile(r"(?:([0-9]{1,3})[:@])?([0-9]+(?:\.[0-9]+)?)([KMGT]?)\Z", re.IGNORECASE)
_MOST_PATH_BYTES: Final = 107
_MAX_TCP_PORT: Final = 65_535
_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
_UNITS: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


class LogLevel(StrEnum):
    """What is worth a line on standard error."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def parse_ports(text: str) -> tuple[int, ...]:
    """Port numbers of `4` (1 to 4) or `0,2-5`. Raises `UserError`."""
    if not text:
        return ()
    if text.isdecimal() and text.isascii() and 0 < int(text) <= _MAX_PORT:
        return tuple(range(1, int(text) + 1))
    found: set[int] = set()
    for part in text.split(","):
        match = _RANGE.match(part.strip())
        first = int(match[1]) if match else 0
        last = int(match[2] or match[1]) if match else -1
        if not first <= last <= _MAX_PORT:
            raise UserError(
                f"--ports {text}: write how many, or numbers up to {_MAX_PORT} such as 0,2-5"
            )
        found |= set(range(first, last + 1))
    return tuple(sorted(found))


def parse_interfaces(ports: Sequence[str], rates: Sequence[str]) -> tuple[InterfacePort, ...]:
    """Ports of `1:veth0` and their rates of `1:10G`, or `10G` for all. Raises `UserError`."""
    given, default = _parse_rates(rates)
    found: list[InterfacePort] = []
    for text in ports:
        match = _PORT.match(text)
        if match is None or int(match[1]) > _MAX_PORT:
            raise UserError(f"--port {text}: write NUMBER:INTERFACE such as 1:veth0")
        number = int(match[1])
        if any(number == port.number for port in found):
            raise UserError(f"--port {text}: port {number} is given twice")
        found.append(InterfacePort(number, match[2], given.pop(number, default)))
    if given:
        raise UserError(f"--rate {min(given)}:...: there is no --port {min(given)}:INTERFACE")
    if rates and not ports:
        raise UserError("--rate needs --port: only interfaces are shaped")
    return tuple(found)


def parse_timers(timers: Sequence[str]) -> tuple[TimerApp, ...]:
    """Timers of the packet generator of `2:1000` (application, period in us). Raises `UserError`."""
    found: dict[int, TimerApp] = {}
    for text in timers:
        match = _TIMER.match(text)
        period_ps = round(float(match[2]) * PS_PER_US) if match else 0
        if match is None or not PS_PER_US <= period_ps <= 1000 * PS_PER_S:
            raise UserError(
                f"--timer {text}: write APPLICATION:MICROSECONDS such as 2:1000, with an application "
                "from 1 to 7 and at least 1 us"
            )
        found[int(match[1])] = TimerApp(int(match[1]), period_ps, TIMER_PAYLOAD)
    return tuple(found.values())


def _parse_rates(rates: Sequence[str]) -> tuple[dict[int, int], int | None]:
    """Rates in bit/s by port, and that of all others."""
    given: dict[int, int] = {}
    default = None
    for text in rates:
        match = _RATE.match(text)
        rate = round(float(match[2]) * _UNITS[match[3].upper()]) if match else 0
        if match is None or not 1 <= rate <= 10**14:
            raise UserError(
                f"--rate {text}: write bit/s such as 1:10G, or 10G for all ports (up to 100T)"
            )
        if match[1] is None:
            default = rate
        else:
            given[int(match[1])] = rate
    return given, default


def check_address(text: str) -> None:
    """Raises `UserError` unless the text is HOST:PORT or unix:PATH (gRPC takes port 99999)."""
    if text.startswith("unix:"):
        _check_unix("--grpc", text)
        return
    match = _ADDRESS.match(text)
    if match is None or int(match[1]) > _MAX_TCP_PORT:
        raise UserError(
            f"--grpc {text}: write HOST:PORT with a port up to {_MAX_TCP_PORT}, 0 for any, or unix:PATH"
        )


def _check_unix(option: str, text: str) -> None:
    path = Path(text.removeprefix("unix:"))
    if not path.parent.is_dir() or len(os.fsencode(path)) > _MOST_PATH_BYTES:
        raise UserError(
            f"{option} {text}: write unix:PATH of up to {_MOST_PATH_BYTES} bytes in a folder that "
            "there is"
        )


def parse_tls(
    address: str, certificate: Path | None, key: Path | None, client_ca: Path | None
) -> TlsFiles | None:
    """The files of --grpc-cert and its companions. Raises `UserError` for one without another.

    Says so in the log when clients of other machines are let in by name of nobody.
    """
    if client_ca is None and address.rpartition(":")[0] not in (*_LOOPBACK, "unix"):
        _log.warning(
            "--grpc %s: whoever reaches this address may program the switch; --grpc-cert, --grpc-key "
            "and --grpc-client-ca let in known clients only",
            address,
        )
    if certificate is not None and key is not None:
        return TlsFiles(certificate, key, client_ca)
    if certificate is None and key is None and client_ca is None:
        return None
    missing = "--grpc-cert" if certificate is None else "--grpc-key"
    raise UserError(f"{missing} is missing: TLS takes --grpc-cert and --grpc-key together")


def switch_command(
    program: Annotated[
        Path | None,
        typer.Argument(metavar="[PROGRAM.p4]", help="Without one, a controller loads it."),
    ] = None,
    port: Annotated[
        list[str] | None,
        typer.Option(
            "--port",
            metavar="N:INTERFACE",
            help="Port N is this Linux interface (needs CAP_NET_RAW); repeatable.",
        ),
    ] = None,
    rate: Annotated[
        list[str] | None,
        typer.Option(
            "--rate",
            metavar="[N:]RATE",
            help="Shape port N, or all, to bit/s such as 10G; repeatable. [as fast as it takes]",
        ),
    ] = None,
    grpc: Annotated[
        str,
        typer.Option(
            "--grpc",
            metavar="HOST:PORT",
            help="P4Runtime and gNMI here, or at unix:PATH; port 0 picks one.",
        ),
    ] = "127.0.0.1:9559",
    grpc_cert: Annotated[
        Path | None,
        typer.Option("--grpc-cert", metavar="PEM", help="Serve TLS with this certificate."),
    ] = None,
    grpc_key: Annotated[
        Path | None,
        typer.Option("--grpc-key", metavar="PEM", help="The key of --grpc-cert, mode 600."),
    ] = None,
    grpc_client_ca: Annotated[
        Path | None,
        typer.Option(
            "--grpc-client-ca",
            metavar="PEM",
            help="With --grpc-cert: let in only clients with a certificate of this authority.",
        ),
    ] = None,
    entries: Annotated[
        Path | None,
        typer.Option(
            "--entries",
            metavar="FILE",
            help="Hold these entries from the start: a runtime file of the P4 tutorials (.json), or "
            "commands of simple_switch_CLI (.txt).",
        ),
    ] = None,
    capture: Annotated[
        Path | None,
        typer.Option(
            "--pcap",
            metavar="DIR",
            help="With --port: write what port N gets and sends to N_in.pcap and N_out.pcap.",
        ),
    ] = None,
    queue_bytes: Annotated[
        int, typer.Option("--queue-bytes", min=1, metavar="N", help="Limit of each queue.")
    ] = SwitchConfig().queue_limit_bytes,
    buffers: Annotated[
        Path | None,
        typer.Option(
            "--buffers",
            metavar="FILE",
            help="With --port: a shared buffer with lossless classes, which pause their peers (PFC).",
        ),
    ] = None,
    port_events: Annotated[
        bool,
        typer.Option(
            "--port-events", help="Tell the program of ports that go down or up, by a packet."
        ),
    ] = False,
    pcap_dir: Annotated[
        Path | None,
        typer.Option(
            "--pcap-dir",
            metavar="DIR",
            help="In place of interfaces: port N reads DIR/N.pcap (a file or a named pipe) and "
            "writes DIR/N_out.pcap.",
        ),
    ] = None,
    ports: Annotated[
        str,
        typer.Option("--ports", metavar="N", help="Ports 1 to N, or a list such as 0,2-5."),
    ] = "",
    device_id: Annotated[
        int,
        typer.Option(
            "--device-id",
            min=0,
            max=_MAX_ID,
            metavar="N",
            help="P4Runtime forbids 0, which BMv2 takes.",
        ),
    ] = 1,
    cpu_port: Annotated[int, typer.Option("--cpu-port", min=0, max=511, metavar="N")] = 510,
    speed: Annotated[
        float,
        typer.Option(
            "--speed", min=0, metavar="X", help="Replay input X times as fast; 0: at once."
        ),
    ] = 1.0,
    input_delay_s: Annotated[
        float,
        typer.Option("--input-delay", min=0, metavar="S", help="Hold input back for S seconds."),
    ] = 0.0,
    exit_when_done: Annotated[
        bool, typer.Option("--exit-when-done", help="End when all input files are used up.")
    ] = False,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="Seed of the program's random numbers.")
    ] = 0,
    timer: Annotated[
        list[str] | None,
        typer.Option(
            "--timer",
            metavar="APP:MICROSECONDS",
            help="Have the packet generator make a timer packet that often; repeatable.",
        ),
    ] = None,
    realtime: Annotated[
        int,
        typer.Option(
            "--realtime",
            min=0,
            max=99,
            metavar="PRIORITY",
            help="With --port: the data plane is a real-time thread (SCHED_RR).",
        ),
    ] = 0,
    telemetry: Annotated[
        str | None,
        typer.Option(
            "--telemetry",
            metavar="HOST:PORT",
            help="With --port and PROGRAM.p4: report queues, pauses, marks and rates on change, by UDP "
            "or to a datagram socket at unix:PATH.",
        ),
    ] = None,
    telemetry_ms: Annotated[
        float, typer.Option("--telemetry-ms", min=1, metavar="MS", help="Between two reports.")
    ] = 100.0,
    log_level: Annotated[
        LogLevel, typer.Option("--log-level", help="What is worth a line on standard error.")
    ] = LogLevel.WARNING,
    include: Include = None,
    define: Define = None,
) -> None:
    """Run one switch in real time, served by P4Runtime: its ports are Linux interfaces or files.

    Ends with 0 on SIGINT or SIGTERM.
    """
    logging.basicConfig(
        stream=sys.stderr,
        level=log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    check_address(grpc)
    config = replace(
        SwitchConfig(), cpu_port=cpu_port, queue_limit_bytes=queue_bytes, port_events=port_events
    )
    interfaces = parse_interfaces(port or (), rate or ())
    _check_ports(bool(interfaces), pcap_dir, ports, capture, exit_when_done)
    if realtime and not interfaces:
        raise UserError("--realtime needs --port: only interfaces have a data plane thread")
    if interfaces:
        # Its own delays are those of the machine, and what it is told of a port it knows.
        config = replace(
            config,
            ingress_latency_ps=0,
            egress_latency_ps=0,
            port_down_detection_ps=0,
            port_up_detection_ps=0,
        )
    compiled = None if program is None else files.program(program, include, define)
    options = ServeOptions(
        grpc=grpc,
        tls=parse_tls(grpc, grpc_cert, grpc_key, grpc_client_ca),
        interfaces=interfaces,
        capture_dir=capture,
        buffers=_read_buffers(buffers, interfaces, queue_bytes),
        entries=_read_entries(entries, compiled),
        timers=parse_timers(timer or ()),
        realtime=realtime,
        pcap_dir=pcap_dir,
        ports=parse_ports(ports),
        speed=speed,
        input_delay_s=input_delay_s,
        exit_when_done=exit_when_done,
        seed=seed,
        device_id=device_id,
        service=ServiceOptions(allow_device_id_zero=True),
        switch=config,
    )
    if telemetry is None:
        serve_switch(compiled, options)
        return
    if compiled is None or not interfaces:
        raise UserError("--telemetry needs --port and PROGRAM.p4: nothing else counts")
    serve_switch(compiled, options, _reporter(telemetry, telemetry_ms / 1e3))


def _reporter(text: str, interval_s: float) -> Callable[[LiveSwitch], None]:
    """What starts telemetry. Raises as `parse_telemetry`."""
    from sglb.watermark.telemetry.live import Reporter, Reporting

    address = parse_telemetry(text)

    def begin(live: LiveSwitch) -> None:
        Reporter(live, address, Reporting(interval_s))

    return begin


def parse_telemetry(text: str) -> str | tuple[str, int]:
    """The path of `unix:PATH`, or IPv4 address and port of HOST:PORT. Raises `UserError`.

    A name is looked up here, once: later nobody would hear that it is none, and packets would wait.
    """
    if text.startswith("unix:"):
        _check_unix("--telemetry", text)
        return text.removeprefix("unix:")
    match = _ADDRESS.match(text)
    if match is None or not 0 < int(match[1]) <= _MAX_TCP_PORT:
        raise UserError(f"--telemetry {text}: write HOST:PORT or unix:PATH")
    host = text.rpartition(":")[0]
    try:
        found = socket.getaddrinfo(host, int(match[1]), socket.AF_INET, socket.SOCK_DGRAM)
    except OSError as error:
        raise UserError(
            f"--telemetry {text}: no IPv4 address of {host}: {error.strerror}"
        ) from None
    address, number = found[0][4][:2]
    return str(address), int(number)


def _read_entries(path: Path | None, program: CompiledProgram | None) -> tuple[p4r.Update, ...]:
    """The updates of --entries. Raises `UserError` without a program, `RuntimeFileError`."""
    if path is None:
        return ()
    if program is None:
        raise UserError("--entries needs PROGRAM.p4: without it no table is known")
    return tuple(files.entries(path, P4Schema(program.p4info)))


def _read_buffers(
    path: Path | None, interfaces: Sequence[InterfacePort], queue_bytes: int
) -> BufferSettings | None:
    """The buffer of --buffers. Raises `UserError` without interfaces that have rates, `ConfigError`."""
    if path is None:
        return None
    if not interfaces or any(port.rate_bps is None for port in interfaces):
        raise UserError(
            "--buffers needs --port and a --rate for each: pauses are counted in bit times"
        )
    return load_buffers(path, (port.number for port in interfaces), queue_bytes)


def _check_ports(
    interfaces: bool, pcap_dir: Path | None, ports: str, capture: Path | None, until_done: bool
) -> None:
    """Raises `UserError` for options that do not go together."""
    if interfaces and (pcap_dir is not None or ports):
        raise UserError("--port stands alone: no --pcap-dir and no --ports beside it")
    if capture is not None and not interfaces:
        raise UserError("--pcap needs --port; for files as ports there is --pcap-dir")
    if capture is not None and not capture.is_dir():
        raise UserError(f"--pcap {capture}: there is no such folder")
    if until_done and pcap_dir is None:
        raise UserError("--exit-when-done needs --pcap-dir: there is no input to be used up")


def serve_switch(
    program: CompiledProgram | None,
    options: ServeOptions,
    beside: Callable[[LiveSwitch], None] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; `beside` is called once it serves.

    Raises as `sglb.switch.live.serve`, ValueErrors as `UserError`.
    """

    def ready(live: LiveSwitch) -> None:
        if beside is not None:
            beside(live)
        _tell(live)

    try:
        serve(program, replace(options, on_ready=ready))
    except ValueError as error:
        raise UserError(str(error)) from error


def _tell(live: LiveSwitch) -> None:
    # One line on standard output, so that a script can wait for it and read the port.
    ports = [n for n in sorted(live.switch.ports) if n != live.switch.config.cpu_port]
    typer.echo(f"P4Runtime on {live.address}, device {live.switch.device_id}, ports {ports}")
