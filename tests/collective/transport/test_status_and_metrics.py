"""What a process says of its transports: status, Prometheus."""

from __future__ import annotations

import json
import os
import socket
import threading
import urllib.request
from pathlib import Path

import pytest
from transport_kit import DictStore, on_all, ranks, settings
from typer.testing import CliRunner

from sglb.cli.app import app
from sglb.collective.transport import SettingsError, Transport
from sglb.collective.transport.observe import ask_all
from sglb.collective.transport.prometheus import escape


def test_ranks_of_one_host_miss_no_channel_on_their_rails(tmp_path: Path) -> None:
    with ranks(2, settings(2, shared_memory=True, runtime_dir=str(tmp_path))) as made:
        rails = {rail.name: rail for rail in made[0].stats().rails}
        assert [rails[name].channels_down for name in ("127.0.0.1", "127.0.0.2")] == [0, 0]
        assert rails["local"].channels_up == 1


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_status_tells_rails_and_bytes_and_ends_with_the_transports(tmp_path: Path) -> None:
    with ranks(2, settings(1, runtime_dir=str(tmp_path), eager_bytes=1000)) as made:
        found = made[1].recv(0, 0, bytearray(5000))
        made[0].send(1, 0, bytes(5000)).wait(10)
        found.wait(10)
        ((pid, groups),) = list(ask_all(tmp_path))
        assert pid == os.getpid()
        assert sorted(group["rank"] for group in groups) == [0, 1]
        by_rank = {group["rank"]: group for group in groups}
        assert by_rank[0]["rails"][0]["sent_bytes"] == 5000
        assert by_rank[1]["rails"][0]["received_bytes"] == 5000
        result = CliRunner().invoke(app, ["collective", "status", "--dir", str(tmp_path)])
        assert result.exit_code == 0
        assert "rank 0 of 2" in result.output
        assert "127.0.0.1" in result.output
        asked = CliRunner().invoke(app, ["collective", "status", "--json", "--dir", str(tmp_path)])
        assert json.loads(asked.output)[str(pid)][0]["size"] == 2
    assert list(ask_all(tmp_path)) == []
    assert not list(tmp_path.glob("*.status"))


def test_prometheus_reads_counters(tmp_path: Path) -> None:
    port = free_port()
    chosen = settings(1, runtime_dir=str(tmp_path), metrics_port=port)
    store = DictStore()
    made = on_all(2, lambda rank: Transport.open(store, rank, 2, settings=chosen, timeout_s=20))
    try:
        # In one process the first transport opens the page for both.
        pages = [page(port + rank) for rank in range(2)]
        text = next(p for p in pages if p)
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        labels = 'group="default",rank="0"'
        assert f"sglb_collective_open{{{labels}}} 1" in lines
        assert f'sglb_collective_rail_channels_up{{{labels},rail="127.0.0.1"}} 1' in lines
        assert f'sglb_collective_failovers_total{{{labels},peer="1"}} 0' in lines
    finally:
        on_all(2, lambda rank: made[rank].close())


def page(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            return answer.read().decode()
    except OSError:
        return ""


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        chosen = settings(1, runtime_dir=str(tmp_path), metrics_port=port)
        with pytest.raises(SettingsError, match=f"RECCL_METRICS_PORT.*127.0.0.1:{port}"):
            Transport.open(DictStore(), 0, 1, settings=chosen, timeout_s=5)


def test_labels_are_escaped() -> None:
    assert escape('a"b\\c\nd') == 'a\\"b\\\\c\\nd'


def test_sockets_of_dead_processes_are_swept_away(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "123.status"))
    assert list(ask_all(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []
    result = CliRunner().invoke(app, ["collective", "status", "--dir", str(tmp_path)])
    assert result.exit_code != 0


@pytest.mark.parametrize("answer", [b"", b"hello", b"{}", b"[1]", b'[{"rank": 0}]'])
def test_a_process_of_another_version_is_named(tmp_path: Path, answer: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / f"{os.getpid()}.status"))
        door.listen()

        def serve() -> None:
            asker, _ = door.accept()
            with asker:
                asker.sendall(answer)

        serving = threading.Thread(target=serve)
        serving.start()
        result = CliRunner().invoke(app, ["collective", "status", "--dir", str(tmp_path)])
        serving.join()
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith(f"pid {os.getpid()}: no answer that this sglb understands")


def test_a_child_of_a_forked_child_closes_nothing_of_its_parents(tmp_path: Path) -> None:
    """Descriptors that a child has closed may be others' when it forks in turn."""
    read, write = os.pipe()
    with ranks(2, settings(1, runtime_dir=str(tmp_path))):
        child = os.fork()
        if child == 0:
            opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(40)]
            if os.fork() == 0:
                shut = [fd for fd in opened if not Path(f"/proc/self/fd/{fd}").exists()]
                os.write(write, repr(shut).encode())
                os._exit(0)
            os.wait()
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(read, 1000) == b"[]"
    os.close(read)
    os.close(write)
