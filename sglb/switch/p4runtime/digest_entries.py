"""DigestEntry and digest lists (P4Runtime 1.5, "DigestEntry")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from finsy.proto import p4i, p4r

from sglb.switch.digests import DigestConfig, DigestEngine, DigestList
from sglb.switch.p4runtime.entity import Undo, UpdateType, find
from sglb.switch.p4runtime.p4data import P4DataCodec


class DigestHandler:
    """DigestEntry: INSERT turns a digest on, DELETE off."""

    def __init__(
        self, digests: Mapping[int, p4i.Digest], engine: DigestEngine, codec: P4DataCodec
    ) -> None:
        self._digests = digests
        self._engine = engine
        self._codec = codec

    def object_id(self, entity: p4r.Entity) -> int:
        """The digest's id."""
        return int(entity.digest_entry.digest_id)

    def write(self, update: UpdateType, entity: p4r.Entity) -> Undo:
        """Turns a digest on or off or changes its configuration.

        What is buffered when a digest is turned off is lost, even if the batch is rolled back.
        """
        entry = entity.digest_entry
        digest_id = entry.digest_id
        find(self._digests, "digest", digest_id)
        engine = self._engine
        before = engine.config(digest_id)
        if update is UpdateType.DELETE:
            engine.disable(digest_id)
        else:
            config = DigestConfig(
                entry.config.max_timeout_ns,
                entry.config.max_list_size,
                entry.config.ack_timeout_ns,
            )
            if update is UpdateType.INSERT:
                engine.enable(digest_id, config)
            else:
                engine.modify(digest_id, config)

        def undo() -> None:
            if before is None:
                engine.disable(digest_id)
            elif update is UpdateType.DELETE:
                engine.enable(digest_id, before)
            else:
                engine.modify(digest_id, before)

        return undo

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """The configuration of the digest, or of all, that are on."""
        wanted = entity.digest_entry.digest_id
        if wanted:
            find(self._digests, "digest", wanted)
        for digest_id in self._engine.enabled():
            config = self._engine.config(digest_id)
            if config is not None and wanted in (0, digest_id):
                message = p4r.DigestEntry(digest_id=digest_id)
                # A message field that was sent, even with zeros only, is sent back.
                message.config.max_timeout_ns = config.max_timeout_ns
                message.config.max_list_size = config.max_list_size
                message.config.ack_timeout_ns = config.ack_timeout_ns
                message.config.SetInParent()
                yield p4r.Entity(digest_entry=message)

    def list_message(self, digests: DigestList, timestamp_ns: int) -> p4r.DigestList:
        """The stream message for a list."""
        spec = self._digests[digests.digest_id].type_spec
        return p4r.DigestList(
            digest_id=digests.digest_id,
            list_id=digests.list_id,
            data=[self._codec.encode(spec, values) for values in digests.messages],
            timestamp=timestamp_ns,
        )
