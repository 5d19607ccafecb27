"""The gRPC server with TLS and mutual TLS, finsy as the client; certificates are made by openssl."""

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import finsy as fy
import grpc
import pytest
from finsy.proto import p4r, p4r_grpc
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from p4runtime_kit import kitchen

from sglb.cli.serving import parse_tls
from sglb.switch.live import LiveSwitch, ServeOptions
from sglb.switch.p4runtime.tls import TlsFiles

COMMAND = (sys.executable, "-c", "from sglb.cli import main; main()")
OPENSSL = shutil.which("openssl")


def openssl(*words):
    return subprocess.run([OPENSSL, *words], check=True, capture_output=True, text=True).stdout


pytestmark = pytest.mark.skipif(
    OPENSSL is None or openssl("version").startswith("OpenSSL 1"),
    reason="there is no openssl 3, which makes the certificates",
)


class Authority:
    """A certificate authority with its files in a folder."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.certificate, self.key = folder / f"{name}.pem", folder / f"{name}.key"
        self._make("-x509", "-subj", f"/CN={name}", out=(self.certificate, self.key))

    def _make(self, *words, out):
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        openssl("req", *curve, "-days", "2", *words, "-keyout", out[1], "-out", out[0])

    def issue(self, name):
        """(certificate, key) of somebody at 127.0.0.1."""
        out = (self.folder / f"{self.name}-{name}.pem", self.folder / f"{self.name}-{name}.key")
        signed = ("-x509", "-CA", self.certificate, "-CAkey", self.key)
        extensions = ("-addext", "subjectAltName=IP:127.0.0.1")
        not_ca = ("-addext", "basicConstraints=critical,CA:FALSE")
        self._make(*signed, "-subj", f"/CN={name}", *extensions, *not_ca, out=out)
        return out


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"), "ca")


@pytest.fixture(scope="module")
def server(authority):
    return authority.issue("server")


@pytest.fixture(scope="module")
def client(authority):
    return authority.issue("client")


def talk(tls, ca, cert=None):
    """What finsy's switch says of its session with a server of these files."""

    async def test():
        options = ServeOptions(grpc="127.0.0.1:0", tls=tls, ports=(1,), device_id=5)
        async with LiveSwitch(kitchen(), options) as live:
            credentials = fy.GRPCCredentialsTLS(
                cacert=ca, cert=cert and cert[0], private_key=cert and cert[1]
            )
            settings = fy.SwitchOptions(device_id=5, channel_credentials=credentials)
            async with fy.Switch("s1", live.address, settings) as switch:
                return switch.is_primary, switch.p4info.actions["drop"].alias

    return asyncio.run(asyncio.wait_for(test(), 60))


def status(tls, credentials):
    """The code of a Capabilities call."""

    async def test():
        options = ServeOptions(grpc="127.0.0.1:0", tls=tls, ports=(1,), device_id=5)
        async with LiveSwitch(kitchen(), options) as live:
            if credentials is None:
                channel = grpc.aio.insecure_channel(live.address)
            else:
                channel = grpc.aio.secure_channel(live.address, credentials)
            async with channel:
                stub = p4r_grpc.P4RuntimeStub(channel)
                try:
                    await stub.Capabilities(p4r.CapabilitiesRequest(), timeout=20)
                except grpc.aio.AioRpcError as error:
                    return error.code().name
        return "OK"

    return asyncio.run(asyncio.wait_for(test(), 60))


def credentials(ca, cert=None):
    return grpc.ssl_channel_credentials(
        ca.certificate.read_bytes(),
        *((cert[1].read_bytes(), cert[0].read_bytes()) if cert else ()),
    )


def test_finsy_over_tls(authority, server):
    assert talk(TlsFiles(*server), authority.certificate) == (True, "drop")


def test_finsy_over_mutual_tls(authority, server, client):
    tls = TlsFiles(*server, authority.certificate)
    assert talk(tls, authority.certificate, client) == (True, "drop")


def test_who_gets_in(authority, server, client, tmp_path):
    stranger = Authority(tmp_path, "stranger")
    one_way = TlsFiles(*server)
    mutual = TlsFiles(*server, authority.certificate)
    seen = {
        "plain text": status(one_way, None),
        "no certificate": status(mutual, credentials(authority)),
        "another authority's": status(mutual, credentials(authority, stranger.issue("client"))),
        "a server not trusted": status(one_way, credentials(stranger)),
        "one of ours": status(mutual, credentials(authority, client)),
    }
    refused = dict.fromkeys(seen, "UNAVAILABLE")
    assert seen == {**refused, "one of ours": "OK"}


def test_the_command_serves_mutual_tls(authority, server, client):
    files = ["--grpc-cert", server[0], "--grpc-key", server[1]]
    files += ["--grpc-client-ca", authority.certificate]
    command = [*COMMAND, "switch", "--grpc", "127.0.0.1:0", "--ports", "1"]
    with subprocess.Popen([*command, *files], stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().split()[2].rstrip(",")
            with grpc.secure_channel(address, credentials(authority, client)) as channel:
                stub = p4r_grpc.P4RuntimeStub(channel)
                answer = stub.Capabilities(p4r.CapabilitiesRequest(), timeout=30)
                assert answer.p4runtime_api_version == "1.5.0"
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_the_command_wants_certificate_and_key():
    for one, missing in (("cert", "key"), ("key", "cert"), ("client-ca", "cert")):
        command = [*COMMAND, "switch", f"--grpc-{one}", "x.pem"]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        assert found.returncode != 0
        assert found.stderr.startswith(f"error: --grpc-{missing} is missing: TLS takes")


@pytest.mark.parametrize(
    ("address", "known_clients", "warned"),
    [
        ("127.0.0.1:9559", False, False),
        ("[::1]:9559", False, False),
        ("0.0.0.0:9559", False, True),
        ("0.0.0.0:9559", True, False),
    ],
)
def test_a_warning_where_anybody_may_connect(address, known_clients, warned, caplog):
    files = [Path("cert.pem"), Path("key.pem"), Path("ca.pem")] if known_clients else [None] * 3
    parse_tls(address, *files)
    assert ["may program the switch" in r.getMessage() for r in caplog.records] == [True] * warned


def refusal(*files):
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as info:
        TlsFiles(*files).credentials()
    return str(info.value)


def test_files_that_will_not_do(authority, server, client, tmp_path):
    certificate, key = server
    missing = tmp_path / "missing"
    assert refusal(missing, key) == f"{missing}: cannot be read: No such file or directory"
    assert refusal(certificate, missing).startswith(f"{missing}: cannot be read")
    assert refusal(certificate, key, missing).startswith(f"{missing}: cannot be read")
    assert refusal(certificate, client[1]).endswith("key values mismatch")
    assert refusal(certificate, key, key).startswith(f"{key}: no certificates as PEM")
    loose = tmp_path / "loose.key"
    loose.write_bytes(key.read_bytes())
    loose.chmod(0o640)
    assert refusal(certificate, loose).startswith(
        f"{loose}: other users may use this key (mode 0640)"
    )
    secret = tmp_path / "secret.key"
    openssl("ec", "-in", key, "-aes128", "-passout", "pass:x", "-out", secret)
    secret.chmod(0o600)
    assert "without a password" in refusal(certificate, secret)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(place=st.integers(0, 2), data=st.binary(max_size=200))
def test_any_bytes_give_one_line(authority, server, tmp_path, place, data):
    files = [*server, authority.certificate]
    files[place] = tmp_path / "odd"
    files[place].write_bytes(data)
    files[place].chmod(0o600)
    assert refusal(*files)
