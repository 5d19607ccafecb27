"""The ranks of one process group: numbers their operations and runs them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.util import Finalize
from typing import Any

from torch._C._distributed_c10d import Store

from sglb.collective.algorithms.exchange import Exchange
from sglb.collective.errors import CollectiveError, CollectiveTimeoutError
from sglb.collective.operation import Board, Call, Operation, Scratch, Turns
from sglb.collective.staging import Staged
from sglb.collective.transport import (
    Settings,
    Transfer,
    Transport,
    TransportError,
    WaitTimeoutError,
)
from sglb.collective.work import CollectiveWork, Lane

_KEPT_SCRATCH_BYTES = 128 << 20
_TAGGED = 1 << 63  #: streams of tagged messages; operations use those below

Body = Callable[[Exchange], None]


class Group:
    """Transport, numbers of operations, and the thread for asynchronous ones.

    A failed operation ends the group on every rank: what a rank has sent for it, or for later ones,
    could not be told from what it sends after a recovery.
    """

    def __init__(
        self,
        store: Store,
        rank: int,
        size: int,
        timeout_s: float,
        settings: Settings | None = None,
        global_ranks: Sequence[int] = (),
        name: str = "",
    ) -> None:
        self.rank, self.size = rank, size
        self.timeout_s = timeout_s
        known = list(global_ranks) or list(range(size))
        self._name = f"rank {rank}"
        if known[rank] != rank:
            self._name += f" (rank {known[rank]} of all)"
        try:
            chosen = settings or Settings.from_env()
            if name:
                chosen = replace(chosen, group=f"{chosen.group}/{name}")
            self.transport = Transport.open(store, rank, size, settings=chosen, timeout_s=timeout_s)
        except TransportError as error:
            raise CollectiveError(f"reccl, {self._name} of {size}: {error}") from error
        self._board = Board(store, self.transport.place, rank, size)
        self._scratch = Scratch(_KEPT_SCRATCH_BYTES)
        self.number = 0  #: of the operation that was called last
        self._last: Call | None = None
        self._process = os.getpid()
        self._numbering = threading.Lock()
        self._turns = Turns()
        self._lane = Lane(f"reccl-{rank}")
        # A program that ends without destroy_process_group still delivers what it has sent. Unlike
        # atexit this also works in processes that multiprocessing has forked.
        self._at_exit = Finalize(None, self.transport.close, exitpriority=1)

    def start(
        self, call: Call, body: Body, result: list[Any], *, sync: bool, timeout_s: float | None
    ) -> CollectiveWork:
        """Runs `body` as the next operation: here if `sync`, else on the group's thread, in turn.

        Raises the operation's error if `sync`; otherwise the `wait` of what it returns does. Raises
        CollectiveError in a process that was forked from the group's, as `send` and `recv` do.
        """
        self._check_process()
        with self._numbering:
            self.number += 1
            call = self._last = call.after(self._last)
            self._turns.begin(self.number)
            operation = Operation(
                self.transport,
                self._scratch,
                self._board,
                self._turns,
                self.number,
                call,
                self.timeout_s if timeout_s is None else timeout_s,
            )
        work = CollectiveWork(operation.label, result)
        if sync:
            self._run(operation, body, work)
            work.wait()
        else:
            self._lane.add(lambda: self._run(operation, body, work))
        return work

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise CollectiveError(
                f"reccl: this process was forked from {self._name}, whose connections are not its own; "
                "it can make a process group for itself"
            )

    def _run(self, operation: Operation, body: Body, work: CollectiveWork) -> None:
        try:
            body(operation)
        except Exception as error:
            self.fail(work, operation.label(), error)
        except BaseException:  # Ctrl-C: memory of the operation must not be written any more
            self.transport.abort(f"{operation.label()} was interrupted on {self._name}")
            raise
        else:
            operation.close()
            work.finish()
        finally:
            self._turns.end(operation.number)

    def fail(self, work: CollectiveWork, label: str, error: Exception) -> None:
        """Ends the group on all ranks because of `error`, which `work` raises with the circumstances."""
        text = f"{label} failed on {self._name}: {error}"
        kind = type(error) if isinstance(error, CollectiveError) else CollectiveError
        failure = kind(text)
        failure.__cause__ = error
        work.blame(failure)
        self.transport.abort(text)  # first: the memory may be the caller's again only after that
        work.finish()

    def send(self, peer: int, tag: int, staged: Staged, label: str) -> TransferWork:
        """Sends a message with a tag; its memory is in use until the work has ended."""
        self._check_process()
        stream = _TAGGED | tag & 0xFFFFFFFF
        transfer = self.transport.send(
            peer, stream, staged.view, label=label, fingerprint=staged.fingerprint
        )
        return TransferWork(self, transfer, label, [], staged)

    def recv(
        self,
        peer: int | None,
        tag: int,
        staged: Staged,
        label: str,
        result: list[Any],
    ) -> TransferWork:
        """Receives a message of exactly this size and kind, then stores it. No `peer`: from anybody."""
        self._check_process()
        stream = _TAGGED | tag & 0xFFFFFFFF
        fingerprint, view = staged.fingerprint, staged.view
        if peer is None:
            transfer = self.transport.recv_any(stream, view, label=label, fingerprint=fingerprint)
        else:
            transfer = self.transport.recv(peer, stream, view, label=label, fingerprint=fingerprint)
        return TransferWork(self, transfer, label, result, staged)

    def abort(self, reason: str) -> None:
        """Ends the group on all ranks."""
        self.transport.abort(reason)

    def close(self) -> None:
        """Finishes asynchronous operations, then the transport."""
        self._at_exit.cancel()
        self._lane.close()
        self.transport.close()


class TransferWork(CollectiveWork):
    """A tagged message: ends when its transfer does."""

    def __init__(
        self,
        group: Group,
        transfer: Transfer,
        label: str,
        result: list[Any],
        staged: Staged,
    ) -> None:
        super().__init__(lambda: label, result)
        self._group = group
        self._transfer = transfer
        self._staged = staged
        self._storing = threading.Lock()
        self._deadline_s = time.monotonic() + group.timeout_s
        transfer.on_done(self._arrived)

    def source_rank(self) -> int:
        """Who sent what a receive has got."""
        return self._transfer.peer

    def _arrived(self, error: Exception | None) -> None:
        # The thread that waits and the one that drove the transport may both come here.
        if error is not None:
            self._group.fail(self, self._label(), error)
            return
        with self._storing:
            if self.is_completed():
                return
            try:
                self._staged.back()
            except Exception as failed:  # torch cannot write to the tensor
                error = failed
        if error is not None:
            self._group.fail(self, self._label(), error)
        self.finish()

    def _wait_until_ended(self, limit_s: float | None) -> bool:
        if self.is_completed():
            return True
        left_s = max(0.0, self._deadline_s - time.monotonic())
        try:
            self._transfer.wait(left_s if limit_s is None else min(limit_s, left_s))
        except WaitTimeoutError:
            if limit_s is not None and limit_s < left_s:
                return False
            late = CollectiveTimeoutError(
                f"Timed out waiting {self._group.timeout_s:g} s: {self._transfer.progress_bytes} of "
                f"{self._transfer.size_bytes} bytes have arrived"
            )
            self._group.fail(self, self._label(), late)
            return True
        except TransportError:
            pass  # `_arrived` says it with the operation's name
        self._arrived(self._transfer.error)
        return True
