"""Each scenario goes alike on the embedded cluster and on the real control plane: differences are defects.

Runs with ``--real`` alone, since it needs both. What is left out knowingly stands in ``docs/guides/local-cluster.md``.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_dispatch.localcluster import LocalCluster
from airflow_dispatch.localcluster.thread import ClusterThread
from tests.support.comparison import Line, differences
from tests.support.scenarios import LEFT_OUT, SCENARIOS, Scenario
from tests.support.stage import stage

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def real(request: pytest.FixtureRequest) -> ClusterThread:
    """The real control plane."""
    if not request.config.getoption("--real"):
        pytest.skip("compares both clusters, so it needs --real")
    found: ClusterThread = request.getfixturevalue("cluster")
    return found


@pytest.fixture(scope="module")
def embedded(real: ClusterThread) -> Iterator[ClusterThread]:
    """The embedded cluster, its kubelets as far from the API server as the real one's."""
    del real
    with LocalCluster.in_thread(kubelets_over_http=True) as cluster:
        yield cluster


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_scenario_goes_alike_on_both_clusters(
    scenario: Scenario, embedded: ClusterThread, real: ClusterThread, tmp_path: Path
) -> None:
    namespace = f"compare-{next(_numbers)}"

    async def play(name: str, cluster: ClusterThread) -> list[Line]:
        async with stage(cluster, namespace) as made:
            try:
                await scenario(made)
            finally:
                head = {"scenario": scenario.__name__, "mode": "plain", "about": scenario.__doc__}
                made.write(tmp_path / f"{name}.jsonl", head)
        return made.lines

    async def main() -> tuple[list[Line], list[Line]]:
        ours, theirs = await asyncio.gather(play("embedded", embedded), play("real", real))
        return ours, theirs

    ours, theirs = asyncio.run(main())
    found = differences(ours, theirs, LEFT_OUT.get(scenario, ()))
    if found:
        pytest.fail(f"{len(found)} differences; both recordings are in {tmp_path}\n" + "\n".join(found), pytrace=False)
