"""What goes wrong with any request of any verb: it is repeated after a look at what became of it, or refused whole."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web

from airflow_dispatch.adapter import Adapter, retrying
from airflow_dispatch.core import names
from airflow_dispatch.core.errors import DispatchError, Refused, Unreachable
from airflow_dispatch.core.identity import TaskKey
from airflow_dispatch.core.observation import Cause, CauseKind
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.resources import TRAINING_RUNTIMES, TRAINJOBS
from tests.support.cluster import JOB_ID, NAMESPACE, cluster, job
from tests.support.fakeapi import status
from tests.support.picture import picture
from tests.support.proxy import UNANSWERED, UNSENT, CountingProxy, counting_proxy

NAME = names.object_name(JOB_ID, 1)
ORIGIN = TaskKey("tests", "dag", "run", "task", -1)

Act = Callable[["Place"], Coroutine[Any, Any, object]]
Fault = web.Response | str


async def start(here: Place) -> None:
    await here.adapter.start(job(), submission=1, attempt=1)


async def submit(here: Place) -> None:
    await here.adapter.submit(job(), ORIGIN, 1)


async def open_it(here: Place) -> None:
    await here.adapter.open(NAME)


async def hold(here: Place) -> None:
    await here.adapter.hold(NAME, instance=1, who="tests", reason="why")


async def release(here: Place) -> None:
    await here.adapter.release(NAME, instance=1)


async def cancel(here: Place) -> None:
    await here.adapter.cancel(NAME)


async def report(here: Place) -> None:
    uid = here.registry.get(TRAINJOBS, NAMESPACE, NAME)["metadata"]["uid"]
    await here.adapter.report(NAME, uid, Cause(kind=CauseKind.UNKNOWN), "ti")


VERBS: Final[dict[str, tuple[tuple[Act, ...], Act]]] = {
    "start": ((), start),
    "submit": ((), submit),
    "adopt": ((submit,), submit),
    "open": ((start,), open_it),
    "hold": ((start,), hold),
    "release": ((start, hold), release),
    "cancel": ((start,), cancel),
    "report": ((start,), report),
}

PASSING: Final[dict[str, Callable[[], Fault]]] = {
    "409": lambda: status(409, "Conflict", "the object has been modified"),
    "410": lambda: status(410, "Expired", "too old resource version"),
    "429": lambda: status(429, "TooManyRequests", "later", Retry_After="0"),
    "500": lambda: status(500, "InternalError", "oh"),
    "504": lambda: status(504, "Timeout", "request did not complete"),
    "unsent": lambda: UNSENT,
    "unanswered": lambda: UNANSWERED,
}
"""What a repetition mends."""

REFUSING: Final[dict[str, Callable[[], Fault]]] = {
    "403": lambda: status(403, "Forbidden", 'admission webhook "x" denied the request'),
    "422": lambda: status(422, "Invalid", "spec: Invalid value"),
}
"""What no repetition mends."""


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "_FIRST_PAUSE", 0.0001)


class Place:
    """A cluster behind a proxy."""

    def __init__(self, registry: Registry, proxy: CountingProxy, adapter: Adapter) -> None:
        self.registry = registry
        self.proxy = proxy
        self.adapter = adapter

    async def fresh(self, before: tuple[Act, ...]) -> None:
        """The cluster as it is before the verb."""
        self.proxy.fault = lambda _: None
        for resource in (TRAINJOBS, TRAINING_RUNTIMES):
            for item in self.registry.list(resource, NAMESPACE).items:
                self.registry.delete(resource, NAMESPACE, item["metadata"]["name"])
        for act in before:
            await act(self)

    def fail_at(self, number: int, fault: Callable[[], Fault]) -> Callable[[], bool]:
        """The request of that number goes wrong; says afterwards whether there was one."""
        seen = 0

        def decide(_: web.Request) -> Fault | None:
            nonlocal seen
            seen += 1
            return fault() if seen == number else None

        self.proxy.fault = decide
        return lambda: seen >= number

    def picture(self) -> list[str]:
        kinds = (TRAINJOBS, TRAINING_RUNTIMES)
        return picture([(each.plural, self.registry.list(each, NAMESPACE).items) for each in kinds], [])


@contextlib.asynccontextmanager
async def place(folder: Path) -> AsyncIterator[Place]:
    async with cluster(folder) as running:
        kubeconfig = Path(str(running.client.config.kubeconfig))
        async with counting_proxy(kubeconfig, folder) as proxy:
            config = ClusterConfig(kubeconfig=str(proxy.kubeconfig))
            async with await KubeClient.connect(config) as client:
                yield Place(running.registry, proxy, Adapter(client, NAMESPACE))


@pytest.mark.parametrize("verb", VERBS)
def test_a_fault_that_passes_at_any_request_is_mended_and_leaves_no_trace(verb: str, tmp_path: Path) -> None:
    before, act = VERBS[verb]

    async def main() -> None:
        async with place(tmp_path) as here:
            await here.fresh(before)
            await act(here)
            expected = here.picture()
            for fault, make in PASSING.items():
                number, hit = 1, True
                while hit:
                    await here.fresh(before)
                    was_hit = here.fail_at(number, make)
                    await act(here)
                    assert here.picture() == expected, (fault, number)
                    number, hit = number + 1, was_hit()
                assert number > 3

    asyncio.run(main())


async def outcome(call: Coroutine[Any, Any, object]) -> DispatchError | None:
    try:
        await call
    except DispatchError as error:
        return error
    return None


@pytest.mark.parametrize("verb", VERBS)
def test_a_refusal_at_any_request_is_raised_at_once_and_the_verb_can_be_repeated(verb: str, tmp_path: Path) -> None:
    before, act = VERBS[verb]

    async def main() -> None:
        async with place(tmp_path) as here:
            await here.fresh(before)
            await act(here)
            expected = here.picture()
            for fault, make in REFUSING.items():
                number, hit = 1, True
                while hit:
                    await here.fresh(before)
                    was_hit = here.fail_at(number, make)
                    refused = await outcome(act(here))
                    hit = was_hit()
                    assert isinstance(refused, Refused) is hit, (fault, number, refused)
                    here.proxy.fault = lambda _: None
                    await act(here)
                    assert here.picture() == expected, (fault, number)
                    number += 1

    asyncio.run(main())


@pytest.mark.parametrize("verb", VERBS)
def test_a_server_that_asks_to_wait_long_is_not_waited_for(verb: str, tmp_path: Path) -> None:
    before, act = VERBS[verb]

    async def main() -> None:
        async with place(tmp_path) as here:
            await here.fresh(before)
            here.fail_at(1, lambda: status(429, "TooManyRequests", "later", Retry_After="60"))
            with pytest.raises(Unreachable) as asked:
                await act(here)
            assert asked.value.retry_after == 60

    asyncio.run(main())
