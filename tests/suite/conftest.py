"""One suite for both clusters: the embedded one, and with ``--real`` the real control plane."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.localcluster import LocalCluster
from airflow_dispatch.localcluster.client import HttpApi
from airflow_dispatch.localcluster.thread import ClusterThread
from tests.suite.workspace import Workspace
from tests.support.accounts import Accounts, Authority, EmbeddedAuthority, RbacAuthority
from tests.support.namespaces import create_namespace

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[ClusterThread]:
    """The cluster of this run."""
    if request.config.getoption("--real"):
        from tests.realcluster.cluster import real_cluster  # noqa: PLC0415 (needs Go's module cache)

        thread = ClusterThread(real_cluster)
    else:
        thread = LocalCluster.in_thread()
    with thread as running:
        yield running


@pytest.fixture(scope="session")
def authority(cluster: ClusterThread, request: pytest.FixtureRequest) -> Authority:
    """Who decides on this cluster what a service account may do."""
    real = request.config.getoption("--real")
    return RbacAuthority(cluster.kubeconfig) if real else EmbeddedAuthority(cluster)


@pytest.fixture
def workspace(
    cluster: ClusterThread, authority: Authority, request: pytest.FixtureRequest, tmp_path: Path
) -> Workspace:
    """A fresh namespace, with the service accounts that the guide on permissions describes."""
    name = f"test-{next(_numbers)}-{abs(hash(request.node.name)) % 10_000}"
    return new_workspace(cluster, authority, name, tmp_path)


def new_workspace(cluster: ClusterThread, authority: Authority, name: str, folder: Path) -> Workspace:
    """A namespace of this name, for one test or more."""
    config = ClusterConfig(kubeconfig=str(cluster.kubeconfig))

    async def create() -> Accounts:
        await _create_namespace(config, name)
        return await Accounts.create(authority, name, cluster.kubeconfig, folder)

    return Workspace(config, name, cluster.faults, asyncio.run(create()))


async def _create_namespace(config: ClusterConfig, name: str) -> None:
    async with await HttpApi.connect(str(config.kubeconfig)) as api:
        await create_namespace(api, name)
