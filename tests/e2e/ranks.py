"""What the ranks of the tests' jobs run: steps, until a file in the folder says how to end.

``finish`` ends every rank with 0, ``exit-<rank>`` that rank with the code that it contains. Rank 0 keeps the number of
its last step in ``checkpoint``, and goes on from there.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

PAUSE = 0.25


def main() -> int:
    """One rank's life; returns its exit code."""
    folder = Path(sys.argv[1])
    rank = int(os.environ["PET_NODE_RANK"])
    checkpoint, finish, code = folder / "checkpoint", folder / "finish", folder / f"exit-{rank}"
    step = int(checkpoint.read_text()) if rank == 0 and checkpoint.exists() else 0
    print(
        f"rank {rank} epoch {os.environ['DISPATCH_EPOCH']}: {'resuming after' if step else 'at'} step {step}",
        flush=True,
    )
    while not finish.exists():
        if code.exists():
            print(f"exiting with {code.read_text()}", file=sys.stderr, flush=True)
            return int(code.read_text())
        step += 1
        if rank == 0:
            partial = folder / f".checkpoint-{os.getpid()}"
            partial.write_text(str(step))
            partial.replace(checkpoint)
            print(f"step {step}", flush=True)
        time.sleep(PAUSE)
    print("done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
