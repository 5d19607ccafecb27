"""`sglb run --on live`: policies one after the other, each on a fabric of its own.

The fabric's supervisor is a fresh interpreter without threads, which loads everything once and forks the
fabric's processes. It ends them, and itself, as soon as this process is gone or says so.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol

from sglb.fabric.advance import Advance, Stop, Tell
from sglb.fabric.bounds import LowerBound
from sglb.fabric.live import namespaces
from sglb.fabric.live.control import (
    LiveControlPlaneFactory,
    LiveView,
    load_live_control_plane,
)
from sglb.fabric.live.errors import LiveError, StartStoppedError
from sglb.fabric.live.fabric import LiveFabric, SwitchTarget
from sglb.fabric.live.figures import summary
from sglb.fabric.live.folders import private_folder
from sglb.fabric.live.targets import Bmv2, Embedded, check_bmv2
from sglb.fabric.report import PolicyReport
from sglb.fabric.scenario import Scenario
from sglb.fabric.workers import JobsInterrupted, WorkerError, packed
from sglb.p4.compiler import CompiledProgram
from sglb.switch.live import LiveSwitch

_MAIN: Final = "from sglb.fabric.live.run import work; work()"
_STOP: Final = b"s"
#: How long a fabric may take to come down, with what it has to report.
_END_S: Final = 30.0
LIVE, BMV2 = "live", "bmv2"


class Beside(Protocol):
    """What runs beside switches and controller, to be sent to the supervisor by pickle."""

    def within(self, view: LiveView, live: LiveSwitch) -> None:
        """Called in each of our switches' processes once it serves."""

    def control(self, inner: LiveControlPlaneFactory) -> LiveControlPlaneFactory:
        """A control plane around the fabric's own one."""


@dataclass(frozen=True, slots=True)
class LiveJob:
    """Everything a supervisor needs. `scenario` is in real time; `ideal_fct_ps` by flow id.

    `logs` is a folder that keeps the logs, `target` what runs the switches (`LIVE`, `BMV2`), `source`
    the program's file, for compilers other than ours. `beside` adds to the fabric's processes.
    """

    scenario: Scenario
    policies: tuple[str, ...]
    program: CompiledProgram
    control_plane: str
    bound: LowerBound
    ideal_fct_ps: tuple[int, ...]
    target: str
    logs: Path | None
    source: Path
    beside: Beside | None = None

    @property
    def policy(self) -> str:
        """The first policy, to be named where something fails before any has begun."""
        return self.policies[0]


def run_job(
    job: LiveJob, progress: Callable[[str, Advance], None] | None = None
) -> list[PolicyReport]:
    """Runs all policies of a job; reports in order.

    Raises `LiveError` for what cannot be had here, `WorkerError` for a policy that failed,
    `JobsInterrupted` on Ctrl-C, once all is taken down.
    """
    why = namespaces.why_not()
    if why:
        raise LiveError(f"--on {job.target}: {why}")
    if job.target == BMV2:
        check_bmv2()
    path = os.pathsep.join(p for p in sys.path if p)
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _MAIN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": path},
        start_new_session=True,  # Ctrl-C is ours to pass on
    )
    assert process.stdin is not None
    assert process.stdout is not None
    reports: list[PolicyReport] = []
    sent = False
    with process:
        try:
            process.stdin.write(packed(job))
            process.stdin.flush()
            sent = True
            _listen(process.stdout, reports, progress)
        except KeyboardInterrupt:
            with suppress(OSError):
                if sent:
                    process.stdin.write(_STOP)
                    process.stdin.flush()
                else:  # or it would wait for the rest of its job for ever
                    process.stdin.close()
            with suppress(WorkerError, LiveError, OSError):
                _listen(process.stdout, reports, None)
            raise JobsInterrupted(reports) from None
        except OSError as error:
            raise LiveError(f"the supervisor ended with status {process.wait()}") from error
        finally:
            with suppress(OSError):
                process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)
            process.kill()
    return reports


def _listen(
    answers: IO[bytes],
    reports: list[PolicyReport],
    progress: Callable[[str, Advance], None] | None,
) -> None:
    while True:
        try:
            answer = pickle.load(answers)
        except (EOFError, pickle.UnpicklingError):
            raise LiveError("the live fabric's supervisor ended without a result") from None
        match answer:
            case ("progress", policy, advance):
                if progress is not None:
                    progress(policy, advance)
            case ("failed", policy, text, details):
                raise WorkerError(policy, text, details)
            case "done":
                return
            case report:
                assert isinstance(report, PolicyReport)
                reports.append(report)


# --- the supervisor -------------------------------------------------------------------------------


def work() -> None:
    """A supervisor's whole life: job in, progress and reports out."""
    answers = os.fdopen(os.dup(1), "wb")
    os.set_inheritable(answers.fileno(), False)
    os.dup2(2, 1)

    def answer(message: object) -> None:
        with suppress(BrokenPipeError):
            pickle.dump(message, answers)
            answers.flush()

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)  # a cut falls when it is recorded
    try:
        job: LiveJob = pickle.load(_Unbuffered(0))
    except (EOFError, pickle.UnpicklingError):
        return  # whoever has the job was interrupted
    policy = job.policy
    stopped = _Stopped()
    try:
        for policy in job.policies:
            if stopped():
                break
            tell: Tell = lambda advance, p=policy: answer(("progress", p, advance))  # type: ignore[misc]  # noqa: E731
            answer(run_policy(job, policy, tell, stopped))
        answer("done")
    except StartStoppedError:
        answer("done")
    except Exception as error:
        details = "".join(traceback.format_exception(error))
        answer(("failed", policy, str(error) or type(error).__name__, details))


class _Unbuffered:
    """Reads a pickle from a descriptor and no byte more."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def read(self, size: int) -> bytes:
        found = b""
        while len(found) < size and (more := os.read(self._fd, size - len(found))):
            found += more
        return found

    def readline(self) -> bytes:
        found = b""
        while not found.endswith(b"\n") and (more := os.read(self._fd, 1)):
            found += more
        return found


class _Stopped:
    """Whether the one who waits for the reports has asked to stop, is gone, or SIGTERM came."""

    def __init__(self) -> None:
        self._stopped = False
        os.set_blocking(0, False)
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        self._stopped = True

    def __call__(self) -> bool:
        with suppress(BlockingIOError):
            os.read(0, 16)  # a word to stop, or the end of the pipe
            self._stopped = True
        return self._stopped


def run_policy(job: LiveJob, policy: str, tell: Tell, stop: Stop) -> PolicyReport:
    """One policy on a fabric of its own, in this process: it must have no threads."""
    control = load_live_control_plane(job.control_plane)
    within = None
    if job.beside is not None:
        control, within = job.beside.control(control), job.beside.within

    async def run(folder: Path) -> PolicyReport:
        target: SwitchTarget
        if job.target == BMV2:
            target = Bmv2(job.scenario, job.source, folder, waited=job.beside is not None)
        else:
            target = Embedded(job.scenario, job.program, within)
        fabric = LiveFabric(job.scenario, policy, folder, target, control, stop)
        async with fabric:
            found = await fabric.run(tell)
        return summary(job.scenario, found, job.bound, job.ideal_fct_ps, job.target, stop())

    with private_folder(None if job.logs is None else job.logs / policy) as folder:
        return asyncio.run(run(folder))
