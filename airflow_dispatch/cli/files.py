"""Files that commands read: plain or gzipped, in any encoding of JSON, or standard input."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from pathlib import Path
from typing import Final

from airflow_dispatch.core.errors import InvalidFile

__all__ = ["STDIN", "read_file"]

STDIN: Final = "-"
_GZIP: Final = b"\x1f\x8b"


def read_file(name: str) -> bytes:
    """The content in UTF-8; ``-`` is standard input.

    Windows' shells redirect in UTF-16, and some editors add a byte order mark. Raises :class:`InvalidFile`.
    """
    try:
        content = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
        return content.decode(json.detect_encoding(content)).encode()
    except OSError as error:
        raise InvalidFile(f"{name}: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise InvalidFile(f"{name}: the gzip file is cut off or damaged: {error}") from error
    except UnicodeError as error:
        raise InvalidFile(f"{name}: no text: {error}") from error
