"""How a connection proves, both ways, that it is between ranks of one group.

HELLO (who, for which channel) -> CHALLENGE (nonce, proof of the accepting side) -> PROOF ->
WELCOME. A proof is HMAC-SHA256 of the group's secret over a role, the HELLO and both nonces, so that
none can be replayed or mirrored. A side holds no more than one such message before it has the proof.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable

from sglb.collective.transport.errors import RendezvousError, WireError
from sglb.collective.transport.wire import (
    ANSWER_BYTES,
    HELLO_BYTES,
    HELLO_MAGIC,
    NONCE_BYTES,
    VERSION,
    Answer,
    Hello,
    Step,
    pack_answer,
    pack_hello,
    pack_refusal,
    unpack_answer,
    unpack_hello,
)


def _proof(secret: bytes, role: bytes, hello: bytes, nonce: bytes) -> bytes:
    return hmac.new(secret, role + hello + nonce, hashlib.sha256).digest()


def group_id(name: str) -> bytes:
    """What a HELLO carries of a group's name."""
    return hashlib.sha256(name.encode()).digest()[:NONCE_BYTES]


class Outgoing:
    """The side that connects. `need` is how many bytes the next message has, 0 when all is done."""

    def __init__(self, secret: bytes, hello: Hello) -> None:
        self._secret = secret
        self.nonce = secrets.token_bytes(NONCE_BYTES)
        self._hello = pack_hello(hello._replace(nonce=self.nonce))
        self.need = ANSWER_BYTES
        self._proved = False

    def begin(self) -> bytes:
        """The first bytes to send."""
        return self._hello

    def feed(self, message: bytes) -> bytes:
        """Takes `need` bytes; what to send now. Raises WireError, RendezvousError on a refusal."""
        answer = unpack_answer(message)
        if answer.version != VERSION:
            raise RendezvousError(
                f"the other side speaks version {answer.version} of the protocol, this one {VERSION}"
            )
        if answer.kind == Step.REFUSE:
            raise RendezvousError(f"refused: {answer.reason}")
        return self._welcome(answer) if self._proved else self._challenge(answer)

    def _challenge(self, answer: Answer) -> bytes:
        expected = _proof(self._secret, b"accept", self._hello, answer.nonce)
        if answer.kind != Step.CHALLENGE or not hmac.compare_digest(expected, answer.mac):
            raise WireError("the other side does not know the group's secret")
        self._proved = True
        mac = _proof(self._secret, b"connect", self._hello, answer.nonce)
        return pack_answer(Step.PROOF, answer.nonce, mac)

    def _welcome(self, answer: Answer) -> bytes:
        if answer.kind != Step.WELCOME:
            raise WireError("no WELCOME after the proof")
        self.need = 0
        return b""


class Incoming:
    """The side that accepts. `admit` judges the HELLO: why it is refused, or ''."""

    def __init__(self, secret: bytes, admit: Callable[[Hello], str]) -> None:
        self._secret = secret
        self._admit = admit
        self._raw = b""
        self._nonce = b""
        self.hello: Hello | None = None
        self.need = HELLO_BYTES

    def feed(self, message: bytes) -> bytes:
        """Takes `need` bytes; what to send now. Raises WireError, Refused with what to send last."""
        return self._proof(message) if self._raw else self._first(message)

    def _first(self, message: bytes) -> bytes:
        if not message.startswith(HELLO_MAGIC):
            raise WireError("not a reccl connection")
        hello = unpack_hello(message)
        if hello.version != VERSION:
            reason = f"version {VERSION} here, not {hello.version}"
        else:
            reason = self._admit(hello)
        if reason:
            raise RefusedError(reason, pack_refusal(reason))
        self.hello = hello
        self._raw = message
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self.need = ANSWER_BYTES
        mac = _proof(self._secret, b"accept", message, self._nonce)
        return pack_answer(Step.CHALLENGE, self._nonce, mac)

    def _proof(self, message: bytes) -> bytes:
        answer = unpack_answer(message)
        expected = _proof(self._secret, b"connect", self._raw, self._nonce)
        if answer.kind != Step.PROOF or not hmac.compare_digest(expected, answer.mac):
            reason = "wrong secret"
            raise RefusedError(reason, pack_refusal(reason))
        self.need = 0
        return pack_answer(Step.WELCOME, self._nonce, b"\0" * 32)


class RefusedError(WireError):
    """A HELLO was refused; `last` is what to send before the connection is closed."""

    def __init__(self, reason: str, last: bytes) -> None:
        super().__init__(reason)
        self.last = last
