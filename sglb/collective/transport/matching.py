"""Which message meets which receive: message n of (peer, stream) the n-th posted for it."""

from __future__ import annotations

from collections import deque

from sglb.collective.transport.messages import Inbound, Receive


class Matching:
    """Posted receives and messages that none has met yet, of all peers."""

    def __init__(self) -> None:
        self._posted: dict[tuple[int, int], deque[Receive]] = {}
        self._early: dict[tuple[int, int], deque[Inbound]] = {}
        self._any: dict[int, deque[Receive]] = {}
        self._count = 0

    def next_order(self) -> int:
        """The number of the next receive or message, in order of their coming."""
        self._count += 1
        return self._count

    def post(self, peer: int, receive: Receive) -> Inbound | None:
        """The message that this receive meets; None: it waits."""
        key = (peer, receive.stream)
        queue = self._early.get(key)
        if queue is not None:
            return self._pop_early(key, queue)
        self._posted.setdefault(key, deque()).append(receive)
        return None

    def post_any(self, receive: Receive) -> tuple[int, Inbound] | None:
        """(peer, message) that came first on the receive's stream; None: it waits."""
        waiting = [(q[0].order, key) for key, q in self._early.items() if key[1] == receive.stream]
        if waiting:
            key = min(waiting)[1]
            return key[0], self._pop_early(key, self._early[key])
        self._any.setdefault(receive.stream, deque()).append(receive)
        return None

    def _pop_early(self, key: tuple[int, int], queue: deque[Inbound]) -> Inbound:
        message = queue.popleft()
        if not queue:
            del self._early[key]
        return message

    def peek(self, peer: int, stream: int) -> Receive | None:
        """The receive that a message now meets, unless it is one for any peer."""
        queue = self._posted.get((peer, stream))
        if queue is None:
            return None
        other = self._any.get(stream)
        return None if other is not None and other[0].order < queue[0].order else queue[0]

    def take(self, peer: int, message: Inbound) -> Receive | None:
        """The receive that this message meets; None: the message waits."""
        key = (peer, message.stream)
        receive = self.peek(peer, message.stream)
        if receive is not None:
            queue = self._posted[key]
            queue.popleft()
            if not queue:
                del self._posted[key]
            return receive
        other = self._any.get(message.stream)
        if other is not None:
            receive = other.popleft()
            if not other:
                del self._any[message.stream]
            return receive
        message.order = self.next_order()
        self._early.setdefault(key, deque()).append(message)
        return None

    def waits_for(self, peer: int) -> bool:
        """Whether a receive from this peer is posted."""
        return any(key[0] == peer for key in self._posted)

    def waits_for_any(self) -> bool:
        """Whether a receive from any peer is posted."""
        return bool(self._any)

    def drain(self) -> list[Receive]:
        """Take out every posted receive, and forget the messages."""
        found = [r for queue in (*self._posted.values(), *self._any.values()) for r in queue]
        self._posted.clear()
        self._any.clear()
        self._early.clear()
        return found
