"""A SONiC switch's Redis: its addresses, its databases, and errors that name both.

SONiC keeps CONFIG_DB in Redis database 4, COUNTERS_DB in 2, APPL_DB in 0 and STATE_DB in 6
(sonic-swss-common, schema.h). Its Redis listens on the loopback and on a Unix socket, so a tuner
elsewhere comes by an SSH tunnel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from sglb.watermark.sonic.errors import SonicConnectionError, SonicDataError, SonicError

try:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry
except ImportError as missing:  # an extra, so that nobody needs it who has no SONiC switch
    raise SonicError("redis is not installed: pip install 'sglb[sonic]'") from missing

_PORT = 6379
_HOST = re.compile(
    r"\[(?P<v6>[0-9A-Fa-f:.]+)\](:(?P<p6>\d+))?|(?P<host>[^\[\]:]+)(:(?P<port>\d+))?"
)


class Db(IntEnum):
    """Numbers of the databases."""

    APPL = 0
    COUNTERS = 2
    CONFIG = 4
    STATE = 6


@dataclass(frozen=True, slots=True)
class Address:
    """Where a Redis listens: a Unix socket, or a host and a port."""

    host: str = ""
    port: int = _PORT
    unix: str = ""

    @classmethod
    def parse(cls, text: str) -> Address:
        """Reads `HOST`, `HOST:PORT`, `[IPV6]:PORT` or `unix:PATH`. Raises SonicError."""
        if text.startswith("unix:") and len(text) > len("unix:"):
            return cls(unix=text[len("unix:") :])
        found = _HOST.fullmatch(text)
        if found is None:
            raise SonicError(
                f"{text!r} is no switch: it is HOST, HOST:PORT, [IPV6]:PORT or unix:PATH"
            )
        port = int(found["port"] or found["p6"] or _PORT)
        if not 0 < port < 1 << 16:
            raise SonicError(f"{text!r}: a port is 1 to 65535")
        return cls(host=found["host"] or found["v6"], port=port)

    def __str__(self) -> str:
        if self.unix:
            return f"unix:{self.unix}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Database:
    """A switch's databases. Every call may raise SonicConnectionError; a closed one is opened anew.

    `timeout_s` bounds a connect, and every answer.
    """

    def __init__(
        self, address: Address, timeout_s: float = 5.0, password: str | None = None
    ) -> None:
        self.address = address
        self._clients = {
            db: redis.Redis(
                host=address.host or "localhost",
                port=address.port,
                unix_socket_path=address.unix or None,
                db=int(db),
                password=password,
                socket_timeout=timeout_s,
                socket_connect_timeout=timeout_s,
                retry=Retry(NoBackoff(), 0),
            )
            for db in Db
        }

    def close(self) -> None:
        """Lets go of all connections."""
        for client in self._clients.values():
            client.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- reading ---

    def hash(self, db: Db, key: str) -> dict[str, str]:
        """A hash's fields, none where there is no such key. Raises SonicDataError for another type."""
        return self._text(key, self._call(key, lambda: self._clients[db].hgetall(key)))

    def hashes(self, db: Db, keys: Sequence[str]) -> list[dict[str, str]]:
        """Several hashes in one round trip."""

        def read() -> list[Any]:
            pipe = self._clients[db].pipeline(transaction=False)
            for key in keys:
                pipe.hgetall(key)
            return pipe.execute()

        found = self._call(", ".join(keys[:3]), read) if keys else []
        return [self._text(key, value) for key, value in zip(keys, found, strict=True)]

    def table(self, name: str) -> dict[str, dict[str, str]]:
        """A table of CONFIG_DB: fields by what follows `NAME|` in the key, in order."""
        start = f"{name}|"
        client = self._clients[Db.CONFIG]
        pattern = f"{start}*"
        raw = self._call(pattern, lambda: list(client.scan_iter(match=pattern, count=1000)))
        keys = sorted({self._decode(name, key) for key in raw})
        found = zip(keys, self.hashes(Db.CONFIG, keys), strict=True)
        return {key[len(start) :]: fields for key, fields in found}

    # --- for locks and writes ---

    def evaluate(self, what: str, script: str, args: Iterable[str]) -> list[str]:
        """Runs a script in the server, all of it or nothing; gives the strings that it returns."""
        given = list(args)
        client = self._clients[Db.CONFIG]
        result = self._call(what, lambda: client.eval(script, 0, *given))
        return [self._decode(what, part) for part in result]

    def _call(self, what: str, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except (redis.AuthenticationError, redis.exceptions.NoPermissionError) as error:
            raise SonicConnectionError(f"{self.address}: {error}") from error
        except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
            raise SonicConnectionError(f"{self.address}: no answer from Redis: {error}") from error
        except redis.RedisError as error:
            raise SonicDataError(f"{self.address}: {what}: {error}") from error

    def _text(self, key: str, fields: dict[bytes, bytes]) -> dict[str, str]:
        found = {self._decode(key, n): self._decode(key, v) for n, v in fields.items()}
        # What SONiC writes into a hash that has no fields.
        found.pop("NULL", None)
        return found

    def _decode(self, key: str, raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise SonicDataError(f"{self.address}: {key}: not text: {raw[:40]!r}") from error
