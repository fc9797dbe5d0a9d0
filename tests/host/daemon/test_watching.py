"""The status page in a browser, while a query runs, and `muntin top`."""

import html
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from muntin.host.cli import main
from muntin.host.daemon import DaemonClient
from muntin.host.daemon.daemon import Daemon
from muntin.host.daemon.service import Service
from tests.host.daemon.conftest import LEFT, RIGHT, SPEC, open_query, process

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NAME = "bids <i>and</i> asks/0-of-2"


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
    assert shown["query"] == "bids <i>and</i> asks"  # as text: no tag of it is one of the page's
    assert shown["partition"] == "0 of 2"
    assert float(shown["lag, s"]) < 60
    assert int(shown["files"]) > 1
    assert float(shown["ms to sync"]) > 0
    assert int(shown["batch"].replace(",", "")) > 0
    for rate in ("left rows/s", "right rows/s", "out rows/s"):
        assert int(shown[rate].replace(",", "")) > 0
    assert (shown["left window"], shown["right window"]) == ("50", "30")
    assert shown["state"].endswith("B")
    assert "Muntin on cpu" in page
    assert re.search(r"<p id=\"about\"[^>]*>unix:\S+/s, process \d+, up", page)


def test_top_of_several_daemons(directory: Path) -> None:
    """Which daemon has which partition; one of the daemons is gone."""
    daemons = [Daemon("numpy", directory / f"{number}") for number in range(2)]
    addresses = [daemon.addresses[0] for daemon in daemons]
    try:
        for number, address in enumerate(addresses):
            with DaemonClient(address) as client:
                open_query(client, f"join/{number}-of-2")
        asked = ["top", "--times=1", *(f"--daemon={address}" for address in [*addresses, f"unix:{directory}/gone"])]
        result = CliRunner(env={"COLUMNS": "200"}).invoke(main, asked)
    finally:
        for daemon in daemons:
            daemon.stop()
    assert result.exit_code == 0, result.output
    shown = "".join(result.output.split())
    assert f"unix:{directory}/gonedoesnotanswer" in shown
    for number in range(2):
        assert f"│join│{number}of2│" in shown
