"""The status page in a browser, while a query runs, and `muntin top`."""

import datetime as dt
import html
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from muntin import Band, JoinSpec, Watermark, Within
from muntin.host.cli import main
from muntin.host.daemon import DaemonClient
from muntin.host.daemon.daemon import Daemon
from muntin.host.daemon.service import Service
from tests.host.daemon.conftest import LEFT, RIGHT, SPEC, process

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUERY = "0f5fa6a3-7c39-4f0f-9a50-7b1fd3a0c6d5"
NAME = f"{QUERY}/bids <i>and</i> asks/0-of-2"


def browse(url: str, folder: Path, *options: str) -> str:
    """What a browser makes of a page, some seconds of its time after it was opened."""
    assert BROWSER is not None
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    flags += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command = [BROWSER, *flags, f"--user-data-dir={folder}", "--virtual-time-budget=7000", *options, url]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=True).stdout


@pytest.mark.skipif(BROWSER is None, reason="no chromium here")
def test_the_page_shows_a_running_query(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status = Service.status

    def slow(service: Service) -> dict[str, Any]:
        time.sleep(0.3)  # a browser's time goes on as fast as answers come: so that batches come between two of them
        return status(service)

    monkeypatch.setattr(Service, "status", slow)
    daemon = Daemon("cpu", directory / "s", metrics=("127.0.0.1", 0), state=str(tmp_path / "state"))
    begun, ended = threading.Event(), threading.Event()

    def run() -> None:
        with DaemonClient(daemon.addresses[0], timeout=60) as client:
            client.open_query(NAME, SPEC, LEFT, RIGHT)
            number = 0
            while not ended.is_set():
                process(client, number, query=NAME)
                number += 1
                begun.set()
                ended.wait(0.02)

    client = threading.Thread(target=run)
    client.start()
    try:
        assert begun.wait(60)
        page = browse(f"http://127.0.0.1:{daemon.metrics_port}/", tmp_path / "profile", "--dump-dom")
    finally:
        ended.set()
        client.join()
        daemon.stop()
    body = re.search(r"<tbody id=\"queries\">(.*?)</tbody>", page, re.DOTALL)
    assert body is not None
    cells = [
        html.unescape(re.sub("<[^>]*>", "", cell)).strip()
        for cell in re.findall(r"<td[^>]*>(.*?)</td>", body[1], re.DOTALL)
    ]
    heads = re.findall(r"<th>(.*?)</th>", page)
    assert len(cells) == len(heads)
    shown = dict(zip(heads, cells, strict=True))
    # As text: no tag of it is one of the page's.
    assert shown["query"].split("\n") == [QUERY, "bids <i>and</i> asks", "0 of 2"]
    assert float(shown["lag"].removesuffix(" s")) < 60
    assert re.fullmatch(r"\S+ .*B, [\d,]+ files\n[0-9.]+ ms to sync\n[0-9.]+ s to recover", shown["state"])
    assert int(shown["batch"].replace(",", "")) > 0
    assert shown["side"].split("\n") == ["left", "right", "out"]
    rates = [int(rate.replace(",", "")) for rate in shown["rows/s"].split("\n")]
    assert len(rates) == 3
    assert min(rates) > 0
    assert [rows.strip() for rows in shown["window"].split("\n")] == ["50", "30"]
    assert shown["late"].split("\n") == ["0", "0"]
    assert "Muntin on cpu" in page
    assert re.search(r"<p id=\"about\"[^>]*>unix:\S+/s, process \d+, up", page)


def test_top_in_80_columns(directory: Path) -> None:
    """Which daemon has which partition; one of the daemons is gone. The watermark is a time."""
    daemons = [Daemon("numpy", directory / f"{number}") for number in range(2)]
    addresses = [daemon.addresses[0] for daemon in daemons]
    times = pa.schema([("at", pa.timestamp("us"))])
    spec = JoinSpec(
        on=Band("at", "at", "0 s", "0 s"), within=Within("at", "at", 0, 0), watermark=Watermark("1 s", "1 s", lag=0)
    )
    now = int(time.time())
    rows = pa.record_batch([pa.array([(now - 99) * 1_000_000] * 12_345, times.field("at").type)], schema=times)
    try:
        for number, address in enumerate(addresses):
            with DaemonClient(address) as client:
                client.open_query(f"{QUERY}/join/{number}-of-2", spec, times, times, title="bids\x1band asks")
                for batch in (0, 123_456):
                    list(client.process(f"{QUERY}/join/{number}-of-2", batch, [("left", rows), ("right", rows[:1])]))
        asked = ["top", "--times=2", "--seconds=0.1"]
        asked += [f"--daemon={address}" for address in [*addresses, f"unix:{directory}/gone"]]
        result = CliRunner(env={"COLUMNS": "80"}).invoke(main, asked)
    finally:
        for daemon in daemons:
            daemon.stop()
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert max(map(len, lines)) <= 80
    assert f"unix:{directory}/gonedoesnotanswer" in "".join(result.output.split())
    moment = f"{dt.datetime.fromtimestamp(now - 100, dt.UTC):%Y-%m-%d %H:%M:%S}".split()
    for number in range(2):
        (at,) = (at for at, line in enumerate(lines) if line.startswith(f"{number} of 2"))
        left, right, out = (line.split() for line in lines[at - 2 : at + 1])
        assert left[:6] == ["bids?and", "asks", "123456", "0.0", "s", "left"]
        assert left[-5:-2] == ["24.7k", "0", moment[0]]
        assert (right[0], right[-3]) == ("join", moment[1])
        assert re.fullmatch(r"1\d\d s behind|2 min behind", " ".join(out[-5:-2]))
