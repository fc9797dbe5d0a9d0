"""What a daemon says about a query."""

from muntin.host.daemon import DaemonClient


def newest_query(daemon: object) -> dict:
    """Status of the query that was opened last."""
    with DaemonClient(daemon.address) as client:
        return max(client.status()["queries"].values(), key=lambda query: query["opened_at"])
