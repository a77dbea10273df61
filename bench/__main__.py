"""``make bench``: the figures of docs/reference/performance.md, each a count or a ratio of one run."""

from __future__ import annotations

import asyncio
import sys

from bench import latency, memory, requests, throughput


def main() -> int:
    """Prints every figure."""
    throughput.main()
    memory.main()
    asyncio.run(requests.main())
    asyncio.run(latency.main())
    return 0


if __name__ == "__main__":
    sys.exit(main())
