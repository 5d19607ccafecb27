"""One tuner a switch: a lock in STATE_DB that runs out unless it is renewed.

It is a string with a token and an expiry, under a key of its own; Redis runs a script as a whole, so
taking, renewing and letting go each look at the token and act in one step. Writes look at it too: a
tuner that slept past its lock writes nothing.
"""

from __future__ import annotations

import secrets
import socket
from typing import Final

from sglb.watermark.sonic.database import Database, Db
from sglb.watermark.sonic.errors import SonicConnectionError, SonicLockedError

#: Where the lock is.
LOCK_KEY: Final = "SGLB_TUNER|lock"

_SELECT = f"redis.call('SELECT', {int(Db.STATE)})\n"
_TAKE = (
    _SELECT
    + """
local held = redis.call('GET', ARGV[1])
if held and held ~= ARGV[2] then
    return {'held', held, tostring(redis.call('PTTL', ARGV[1]))}
end
redis.call('SET', ARGV[1], ARGV[2], 'PX', ARGV[3])
return {'ok'}
"""
)
_RELEASE = (
    _SELECT
    + """
if redis.call('GET', ARGV[1]) == ARGV[2] then
    redis.call('DEL', ARGV[1])
    return {'ok'}
end
return {'lost'}
"""
)


class TunerLock:
    """Holds a switch for one tuner. Taken on entry, let go on exit; `renew` it at least every `ttl_s`.

    Raises SonicLockedError when another holds it, which names that one and how long it still may.
    """

    def __init__(self, database: Database, ttl_s: float = 30.0) -> None:
        self._database = database
        self._ttl_ms = max(1, round(ttl_s * 1000))
        # What others are shown, and a part that nobody guesses.
        self.token = f"{socket.gethostname()} {secrets.token_hex(8)}"

    def __enter__(self) -> TunerLock:
        self.renew()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._evaluate(_RELEASE)
        except SonicConnectionError:
            return  # it runs out by itself

    def renew(self) -> None:
        """Takes the lock, or holds it for another `ttl_s`. Raises SonicLockedError."""
        answer = self._evaluate(_TAKE, str(self._ttl_ms))
        if answer[0] == "held":
            owner, left_ms = answer[1].split(" ")[0], int(answer[2])
            until = "" if left_ms < 0 else f"; its lock ends in {left_ms / 1000:.0f} s"
            raise SonicLockedError(
                f"{self._database.address}: a tuner on {owner} holds this switch{until}"
            )

    def _evaluate(self, script: str, *more: str) -> list[str]:
        return self._database.evaluate(LOCK_KEY, script, (LOCK_KEY, self.token, *more))
