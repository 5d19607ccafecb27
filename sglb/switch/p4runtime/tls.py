"""TLS of the gRPC server: its certificate, and the authority whose clients alone it lets in.

P4Runtime 1.5, section 3.1.1, "Security concerns". Without a client authority everybody may connect and
the channel is encrypted; with one, a client must show a certificate signed by it (mutual TLS).
"""

from __future__ import annotations

import ssl
import stat
from dataclasses import dataclass
from pathlib import Path

import grpc


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: the server's certificate (chain), its key, and whose clients may connect."""

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def credentials(self) -> grpc.ServerCredentials:
        """What gRPC takes.

        Raises ValueError, one line that names the file, for one that cannot be read, is no PEM, or does
        not belong to the others, and for a key that other users may read.
        """
        certificate, key = _read(self.certificate), _read(self.key)
        mode = self.key.stat().st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ValueError(
                f"{self.key}: other users may use this key (mode {stat.S_IMODE(mode):04o}): "
                f"chmod 600 {self.key}"
            )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.certificate, self.key, password="")
        except ssl.SSLError as error:
            raise ValueError(
                f"{self.certificate} and {self.key} are no certificate with its key, both as PEM and "
                f"the key without a password: {_reason(error)}"
            ) from error
        authority = None
        if self.client_ca is not None:
            authority = _read(self.client_ca)
            try:
                context.load_verify_locations(self.client_ca)
            except ssl.SSLError as error:
                raise ValueError(
                    f"{self.client_ca}: no certificates as PEM: {_reason(error)}"
                ) from error
        return grpc.ssl_server_credentials(
            [(key, certificate)],
            root_certificates=authority,
            require_client_auth=authority is not None,
        )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror or error}") from error


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
