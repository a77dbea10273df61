"""Images are not pulled: a table maps the name of an image to an environment on this machine."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

__all__ = ["DEFAULT_IMAGES", "PYTHON_IMAGE", "Image", "ImageNotFound", "ImageTable"]

_SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PYTHON_IMAGE: Final = "localhost/python:3"
"""The image that stands for the interpreter, and the packages, that the cluster itself runs with."""


@dataclass(frozen=True)
class Image:
    """What an image brings into a container.

    Attributes:
        env: Environment variables; a container's own win.
        entrypoint: What runs when the container names no ``command``.
        arguments: What it is given when the container names neither ``command`` nor ``args``.
    """

    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({"PATH": _SYSTEM_PATH}))
    entrypoint: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


def _python() -> Image:
    folder = Path(sys.executable).parent
    return Image(env={"PATH": f"{folder}:{_SYSTEM_PATH}", "PYTHONUNBUFFERED": "1"}, arguments=("python3",))


DEFAULT_IMAGES: Final[Mapping[str, Image]] = MappingProxyType({PYTHON_IMAGE: _python()})


class ImageNotFound(Exception):
    """No image of that name; the message is what a kubelet reports with ``ErrImagePull``."""


class ImageTable:
    """The images that containers may name; more can be added while the cluster runs."""

    def __init__(self, images: Mapping[str, Image] = DEFAULT_IMAGES) -> None:
        self._images = dict(images)

    def add(self, name: str, image: Image) -> None:
        """Makes an image known; pods that wait for it start with their next attempt."""
        self._images[name] = image

    def pull(self, name: str) -> Image:
        """The image.

        Raises:
            ImageNotFound: There is none of that name.
        """
        if name not in self._images:
            known = ", ".join(sorted(self._images))
            raise ImageNotFound(
                f'failed to pull and unpack image "{name}": failed to resolve reference "{name}": '
                f"the local cluster pulls nothing, it knows {known}"
            )
        return self._images[name]
