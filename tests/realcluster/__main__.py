"""``python -m tests.realcluster``: the real control plane in the foreground, served as ``local up`` serves its own."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from airflow_dispatch.cli.local import serve
from demo.services import ServiceError
from tests.realcluster.build import CannotBuildError
from tests.realcluster.cluster import real_cluster


def main() -> int:
    """Runs until it is interrupted, or until ``airflow-dispatch local down --state FILE``."""
    parser = argparse.ArgumentParser(prog="python -m tests.realcluster", description=__doc__)
    parser.add_argument("--nodes", type=int, default=3, metavar="N", help="how many nodes (default %(default)s)")
    parser.add_argument("--kueue", action="store_true", help="with Kueue")
    parser.add_argument("--directory", type=Path, metavar="DIR", help="where logs and pods' files go and stay")
    parser.add_argument("--state", type=Path, required=True, metavar="FILE", help="the state file")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        cluster = real_cluster(options.directory, nodes=options.nodes, kueue=options.kueue)
        asyncio.run(serve(cluster, options.nodes, options.state))
    except (CannotBuildError, ServiceError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
