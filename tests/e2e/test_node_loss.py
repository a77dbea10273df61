"""A node is lost in mid-run: the log says so at once, and the retry goes on from the checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from demo.services import wait_for
from tests.support.e2e import Cluster, Run

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize("recovery", ["out-of-service", "reboot"])
def test_a_lost_node_is_explained_at_once_and_the_retry_resumes(
    recovery: str, cluster: Cluster, start: Callable[[str], Run]
) -> None:
    run = start("train_with_retry")
    run.until_logged("rank 0 | step 2")
    node = cluster.pods(run)[1]["spec"]["node_name"]
    began = datetime.now(UTC)
    cluster.local("node", "lose", node)
    try:
        entry = run.until_logged("running: node-lost: ")
        assert f"node {node} Ready=Unknown" in entry["event"]
        assert entry["level"] == "warning"
        unknown = cluster.unknown_at(node, began)
        assert unknown is not None
        assert (datetime.fromisoformat(entry["timestamp"]) - unknown).total_seconds() < 1.0
        run.until_logged(f"nothing restarts until {node} is back, rebooted, deleted or tainted")
        assert run.state() == "deferred"

        # From here on the taint has them evicted; a node that is back before is not the end's cause.
        wait_for("the eviction", lambda: _is_evicted(cluster, run), [cluster.service], 30)
        cluster.local("node", recovery, node)
        run.until_logged("ended: node-lost: ")
        run.until_logged("resuming after step", attempt=2, seconds=90)
        run.until_deferred(attempt=2)
        run.tell("finish")
        run.until("success")
    finally:
        cluster.local("node", "return", node)
        cluster.local("node", "in-service", node)
        wait_for(f"{node} Ready", lambda: cluster.is_ready(node), [cluster.service], 60)
    assert len(cluster.uids_of(run)) == 2


def _is_evicted(cluster: Cluster, run: Run) -> bool:
    conditions = [each for pod in cluster.pods(run) for each in pod["status"]["conditions"] or []]
    return any(each["type"] == "DisruptionTarget" for each in conditions)
