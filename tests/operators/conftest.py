"""A cluster whose objects the test writes; the product reads them over HTTPS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.played import PlayedCluster, played_cluster


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedCluster]:
    with played_cluster(tmp_path, monkeypatch) as cluster:
        yield cluster
