"""Each scenario goes alike on the embedded cluster and on the real control plane: differences are defects.

Runs with ``--real`` alone, since it needs both. What is left out knowingly stands in ``docs/guides/local-cluster.md``.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from airflow_dispatch.localcluster import LocalCluster
from airflow_dispatch.localcluster.thread import ClusterThread
from tests.support.comparison import Line, differences
from tests.support.gang import Scenario
from tests.support.nodescenarios import TOUCH_NODES
from tests.support.scenarios import LEAVE_NODES_ALONE, LEFT_OUT, LEFT_OUT_ANYWHERE
from tests.support.stage import stage

AT_ONCE: Final = 3
"""With more, two cores are so busy that heartbeats come late and Nodes count as lost."""

NODES: Final = ("node-0", "node-1", "node-2")

_NAMESPACE: Final = re.compile(r"\bcompare-\d+\b")

_numbers = itertools.count(1)


class Both(NamedTuple):
    """The two clusters."""

    embedded: ClusterThread
    real: ClusterThread


class Played(NamedTuple):
    """Both recordings of one scenario, and where they are kept; the error that ended it, if one did."""

    embedded: list[Line]
    real: list[Line]
    folder: Path
    error: BaseException | None


@pytest.fixture(scope="module")
def both(request: pytest.FixtureRequest) -> Iterator[Both]:
    """The real control plane, and the embedded cluster with its kubelets as far from the API server."""
    if not request.config.getoption("--real"):
        pytest.skip("compares both clusters, so it needs --real")
    real: ClusterThread = request.getfixturevalue("cluster")
    with LocalCluster.in_thread(kubelets_over_http=True) as embedded:
        yield Both(embedded, real)


@pytest.fixture(scope="module")
def side_by_side(
    request: pytest.FixtureRequest, both: Both, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[Scenario, Played]:
    """Those of the chosen scenarios that leave Nodes alone, some played at once."""
    chosen = [item.callspec.params.get("scenario") for item in request.session.items if hasattr(item, "callspec")]
    scenarios = [scenario for scenario in LEAVE_NODES_ALONE if scenario in chosen]
    return asyncio.run(_play_all(scenarios, both, tmp_path_factory.mktemp("recordings")))


async def _play_all(scenarios: Sequence[Scenario], both: Both, folder: Path) -> dict[Scenario, Played]:
    room = asyncio.Semaphore(AT_ONCE)

    async def play(scenario: Scenario) -> Played:
        async with room:
            return await _play(scenario, both, folder)

    played = await asyncio.gather(*(play(scenario) for scenario in scenarios))
    return dict(zip(scenarios, played, strict=True))


async def _play(scenario: Scenario, both: Both, folder: Path) -> Played:
    """Plays a scenario on both clusters at once, and keeps the recordings however it ends."""
    namespace = f"compare-{next(_numbers)}"
    lines: dict[str, list[Line]] = {}

    async def play(name: str, cluster: ClusterThread) -> None:
        async with stage(cluster, namespace) as made:
            lines[name] = made.lines
            try:
                await scenario(made)
            finally:
                head = {"scenario": scenario.__name__, "mode": "plain", "about": scenario.__doc__}
                made.write(folder / f"{scenario.__name__}-{name}.jsonl", head)

    ended = await asyncio.gather(play("embedded", both.embedded), play("real", both.real), return_exceptions=True)
    errors = [each for each in ended if each is not None]
    return Played(lines.get("embedded", []), lines.get("real", []), folder, errors[0] if errors else None)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenario", LEAVE_NODES_ALONE, ids=lambda scenario: scenario.__name__)
def test_a_life_goes_alike_on_both_clusters(
    scenario: Scenario, side_by_side: Mapping[Scenario, Played], both: Both, tmp_path: Path
) -> None:
    _compare(scenario, side_by_side[scenario], both, tmp_path)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("scenario", TOUCH_NODES, ids=lambda scenario: scenario.__name__)
def test_a_fault_of_a_node_goes_alike_on_both_clusters(scenario: Scenario, both: Both, tmp_path: Path) -> None:
    _compare(scenario, asyncio.run(_play(scenario, both, tmp_path)), both, tmp_path)


def _compare(scenario: Scenario, played: Played, both: Both, folder: Path) -> None:
    """What differs is played once more: real controllers race each other, and only what differs again is no luck."""
    found = _found(scenario, played)
    if not found:
        return
    again = asyncio.run(_play(scenario, both, folder))
    found = [each for each in found if each in _found(scenario, again)]
    if found:
        words = f"{len(found)} differences; both recordings are in {again.folder}"
        pytest.fail("\n".join([words, *found]), pytrace=False)


def _found(scenario: Scenario, played: Played) -> list[str]:
    """The differences of one play, without what tells its namespace from another play's."""
    if played.error is not None:
        raise played.error
    left_out = (*LEFT_OUT_ANYWHERE, *LEFT_OUT.get(scenario, ()))
    return [_NAMESPACE.sub("compare", each) for each in differences(played.embedded, played.real, left_out)]
