"""The ``pods/log`` subresource: what clients may ask of a container's log, over a source that a kubelet provides."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from airflow_dispatch.localcluster.apiserver.errors import ApiError, bad_request, invalid
from airflow_dispatch.localcluster.apiserver.objects import Object, parse_time
from airflow_dispatch.localcluster.resources import PODS

__all__ = ["LogLine", "LogOptions", "LogSource", "NoLogs", "container_of", "stream"]


class LogLine(NamedTuple):
    """One line as the container wrote it, without its newline, and when."""

    time: datetime
    text: bytes


class LogSource(Protocol):
    """Where logs come from: the kubelets."""

    def read(self, pod: Object, container: str, *, previous: bool, follow: bool) -> AsyncIterator[LogLine | None]:
        """The container's lines, oldest first.

        With ``follow`` a None stands where what was written so far ends; later lines follow until the container
        ends. Without it the iterator ends there.

        Raises:
            ApiError: 400 when there is no such log, as when the container has not started.
        """
        ...


class NoLogs:
    """The source of a server without kubelets."""

    async def read(self, pod: Object, container: str, *, previous: bool, follow: bool) -> AsyncIterator[LogLine | None]:
        """Refuses every log: nothing runs pods here."""
        del previous, follow
        name = pod["metadata"]["name"]
        raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: ContainerCreating')
        yield None  # makes this a generator, as its protocol wants


@dataclass(frozen=True)
class LogOptions:
    """The query of a log request."""

    container: str = ""
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since: datetime | None = None

    @classmethod
    def parse(cls, query: Mapping[str, str], now: datetime) -> LogOptions:
        """From the query of the request.

        Raises:
            ApiError: 400 for a number or time that is none, 422 for one that makes no sense.
        """
        since = None
        seconds = _number(query, "sinceSeconds", 1)
        if query.get("sinceTime"):
            if seconds is not None:
                message = "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"
                raise _invalid("sinceSeconds", message)
            try:
                since = parse_time(query["sinceTime"])
            except ValueError:
                raise bad_request(f"sinceTime: cannot parse {query['sinceTime']!r} as a time") from None
        elif seconds is not None:
            since = now - timedelta(seconds=seconds)
        return cls(
            container=query.get("container", ""),
            follow=_flag(query, "follow"),
            previous=_flag(query, "previous"),
            timestamps=_flag(query, "timestamps"),
            tail_lines=_number(query, "tailLines", 0),
            limit_bytes=_number(query, "limitBytes", 1),
            since=since,
        )


def _flag(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() in ("true", "1")


def _number(query: Mapping[str, str], name: str, least: int) -> int | None:
    text = query.get(name)
    if not text:
        return None
    try:
        value = int(text)
    except ValueError:
        raise bad_request(f"{name}: cannot parse {text!r} as a number") from None
    if value < least:
        raise _invalid(name, f"Invalid value: {value}: must be greater than or equal to {least}")
    return value


def _invalid(field: str, message: str) -> ApiError:
    error = invalid(PODS, "", [("FieldValueInvalid", field, message)])
    return ApiError(422, "Invalid", f'PodLogOptions "" is invalid: {field}: {message}', error.details)


def container_of(pod: Object, wanted: str) -> str:
    """The container whose log is meant: the named one, or the pod's only one.

    Raises:
        ApiError: 400 when the pod has no such container, or several and none is named.
    """
    name = pod["metadata"]["name"]
    containers = [entry["name"] for entry in pod["spec"].get("containers") or []]
    inits = [entry["name"] for entry in pod["spec"].get("initContainers") or []]
    if wanted:
        if wanted not in containers + inits:
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(containers) == 1:
        return str(containers[0])
    choice = f"choose one of: [{' '.join(containers)}]"
    if inits:
        choice += f" or one of the init containers: [{' '.join(inits)}]"
    raise bad_request(f"a container name must be specified for pod {name}, {choice}")


async def stream(source: LogSource, pod: Object, options: LogOptions) -> AsyncGenerator[bytes, None]:
    """The log as the client asked for it, one line with its newline at a time.

    ``tailLines`` counts the lines that stand when the request comes; what is followed comes on top. ``limitBytes``
    cuts in mid-line, as the real server does. With ``follow`` an empty chunk says that the log is open, so that a
    response can begin before a quiet container writes its next line.
    """
    left = options.limit_bytes
    async for line in _tailed(source, pod, options):
        if line is None:
            yield b""
            continue
        chunk = _written(line, timestamps=options.timestamps)
        if left is not None:
            chunk = chunk[:left]
            left -= len(chunk)
        yield chunk
        if left == 0:
            return


async def _tailed(source: LogSource, pod: Object, options: LogOptions) -> AsyncGenerator[LogLine | None, None]:
    container = container_of(pod, options.container)
    tail: deque[LogLine] | None = None if options.tail_lines is None else deque(maxlen=options.tail_lines)
    lines = source.read(pod, container, previous=options.previous, follow=options.follow)
    async for line in lines:
        if line is None:
            for kept in tail or ():
                yield kept
            tail = None
            yield None
        elif options.since is not None and line.time < options.since:
            continue
        elif tail is not None:
            tail.append(line)
        else:
            yield line
    for kept in tail or ():
        yield kept


def _written(line: LogLine, *, timestamps: bool) -> bytes:
    if not timestamps:
        return line.text + b"\n"
    moment = line.time.astimezone(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f").encode() + b"000Z " + line.text + b"\n"
