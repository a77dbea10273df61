"""Random sequences of calls and misfortunes on a whole cluster in virtual time, with invariants after each step.

``DISPATCH_MACHINE_EXAMPLES`` sets how many sequences are tried; beyond the few of an ordinary run they are random.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from airflow_dispatch.adapter.finding import observations
from airflow_dispatch.core import names
from airflow_dispatch.core.errors import DispatchError
from airflow_dispatch.core.identity import TaskKey
from airflow_dispatch.core.observation import CauseKind, Observation, State
from airflow_dispatch.localcluster.resources import PODS, TRAINJOBS
from tests.support.cluster import JOB_ID, NAMESPACE, job
from tests.support.playground import Call, Playground, playground

EXAMPLES = int(os.environ.get("DISPATCH_MACHINE_EXAMPLES", "0"))
NODES = ("node-0", "node-1", "node-2")
ORIGIN = TaskKey("machine", "dag", "run", "task", -1)
RANKS = 2
SUBMISSIONS = 4
"""The highest N that is started."""
PATIENCE = 120.0
"""Seconds after which whatever has not gone on is stuck: longer than any wait of controllers, kubelets or the rule."""

pytestmark = pytest.mark.timeout(0 if EXAMPLES else 300)

picks = st.integers(0, 5)


class Machine(RuleBasedStateMachine):
    """Actors call the verbs without waiting for each other; nodes and pods fail; time moves only by a rule."""

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._folder = tempfile.TemporaryDirectory(prefix="machine-")
        self.nodes = dict.fromkeys(NODES, "up")
        self.held: dict[str, int] = {}
        self.releases: dict[str, list[Call]] = {}
        self.ends: dict[str, CauseKind] = {}
        self.ground: Playground

    @initialize()
    def begin(self) -> None:
        """A job runs."""
        self.ground = self._run(self._stack.enter_async_context(playground(Path(self._folder.name))))
        self.submit("one", 1)
        self.open(0)
        self.wait(5.0)
        assert len(self.ground.live_containers()) == RANKS

    def teardown(self) -> None:
        self._run(self._stack.aclose())
        self._runner.close()
        self._folder.cleanup()

    # ------------------------------------------------------------ calls

    @rule(argv=st.sampled_from(["one", "another"]), number=st.integers(1, SUBMISSIONS))
    def submit(self, argv: str, number: int) -> None:
        """A try of a task: starts, adopts, or replaces a submission of other parameters."""
        wanted = job(argv=[argv], num_nodes=RANKS)
        self._call(f"submit {argv}", self.ground.adapter.submit(wanted, ORIGIN, number))

    @precondition(lambda self: self.trainjobs)
    @rule(pick=picks)
    def open(self, pick: int) -> None:
        name = self._pick(pick)["metadata"]["name"]
        self._call(f"open {name}", self.ground.adapter.open(name))

    @precondition(lambda self: self.trainjobs)
    @rule(pick=picks)
    def hold(self, pick: int) -> None:
        trainjob = self._pick(pick)
        name, instance = trainjob["metadata"]["name"], _hold_instance(trainjob) + 1
        hold = self.ground.adapter.hold(name, instance=instance, who="somebody", reason="a reason")
        self._call(f"hold {name} as {instance}", hold)

    @precondition(lambda self: any(map(_hold_instance, self.trainjobs)))
    @rule(pick=picks)
    def release(self, pick: int) -> None:
        held = [each for each in self.trainjobs if _hold_instance(each)]
        trainjob = held[pick % len(held)]
        name, uid = trainjob["metadata"]["name"], trainjob["metadata"]["uid"]
        release = self.ground.adapter.release(name, instance=_hold_instance(trainjob))
        self.releases.setdefault(uid, []).append(self._call(f"release {name}", release))

    @precondition(lambda self: self.trainjobs)
    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        metadata = self._pick(pick)["metadata"]
        self._call(f"cancel {metadata['name']}", self.ground.adapter.cancel(metadata["name"], uid=metadata["uid"]))

    @precondition(lambda self: self.ends)
    @rule()
    def report(self) -> None:
        """A try takes the verdict of whatever has ended."""
        for seen in self._observed():
            if seen.state is State.ENDED and not seen.foreign:
                name = seen.ref.partition("/")[2]
                self._call(f"report {name}", self.ground.adapter.report(name, seen.uid, seen.cause, "ti"))

    # ------------------------------------------------------------ nodes and pods

    @rule(node=st.sampled_from(NODES))
    def lose(self, node: str) -> None:
        if self.nodes[node] == "up":
            self.nodes[node] = "lost"
            self._run(self.ground.cluster.faults.lose_node(node))

    @rule(node=st.sampled_from(NODES))
    def come_back(self, node: str) -> None:
        if self.nodes[node] == "lost":
            self.nodes[node] = "up"
            self._run(self.ground.cluster.faults.return_node(node))

    @rule(node=st.sampled_from(NODES), said=st.sampled_from(["out-of-service", "deleted"]))
    def switch_off(self, node: str, said: str) -> None:
        """A lost node is off, and then an operator says so, in one way or the other."""
        if self.nodes[node] != "lost":
            return
        self.nodes[node] = said
        for container in self.ground.live_containers():
            if container.spec.node == node:
                container.kill()
        faults = self.ground.cluster.faults
        self._run(faults.out_of_service(node) if said == "out-of-service" else faults.delete_node(node))

    @rule(node=st.sampled_from(NODES))
    def boot(self, node: str) -> None:
        faults = self.ground.cluster.faults
        if self.nodes[node] == "out-of-service":
            self._run(faults.in_service(node))
        self.nodes[node] = "up"
        self._run(faults.reboot_node(node))

    @precondition(lambda self: self.ground.live_containers())
    @rule(pick=picks, how=st.sampled_from(["0", "3", "oom"]))
    def exit(self, pick: int, how: str) -> None:
        live = self.ground.live_containers()
        container = live[pick % len(live)]
        container.end(137 if how == "oom" else int(how), "OOMKilled" if how == "oom" else "")

    @precondition(lambda self: self.pods)
    @rule(pick=picks)
    def force_delete(self, pick: int) -> None:
        pods = self.pods
        self._run(self.ground.cluster.faults.force_delete(pods[pick % len(pods)]["metadata"]["name"]))

    @rule(seconds=st.sampled_from([0.2, 1.0, 5.0, 35.0]))
    def wait(self, seconds: float) -> None:
        self._run(self.ground.advance(seconds))

    @rule()
    def be_patient(self) -> None:
        """What has not gone on by now says why."""
        self._run(self.ground.advance(PATIENCE))
        up = [each for each in self.ground.live_containers() if self.nodes[each.spec.node] == "up"]
        working = Counter(_submission(container) for container in up)
        completed = any(pod["status"]["phase"] == "Succeeded" for pod in self.pods)
        for seen in self._observed():
            idle = seen.state is State.RUNNING and working[seen.submission] < RANKS and not completed
            stuck = seen.state is State.PENDING or idle
            assert not stuck or seen.cause.detail, f"{seen.ref} is {seen.state.value} and does not say why"

    # ------------------------------------------------------------ what always holds

    @invariant()
    def only_one_execution_lives(self) -> None:
        self._run(self.ground.settle())
        live = {
            tuple(container.spec.env[key] for key in (names.ENV_SUBMISSION, *_COUNTERS))
            for container in self.ground.live_containers()
        }
        assert len(live) <= 1, f"submission, A and J of what runs: {sorted(live)}"

    @invariant()
    def every_write_is_guarded(self) -> None:
        assert self.ground.unguarded == []

    @invariant()
    def holds_survive(self) -> None:
        now = {}
        for trainjob in self.trainjobs:
            uid, instance = trainjob["metadata"]["uid"], _hold_instance(trainjob)
            calls = self.releases.get(uid, [])
            before = 0 if any(call.succeeded or not call.done for call in calls) else self.held.get(uid, 0)
            self.releases[uid] = [call for call in calls if not call.done]
            assert instance >= before, f"hold {before} of {trainjob['metadata']['name']} is gone"
            assert not instance or trainjob["spec"]["suspend"]
            now[uid] = instance
        self.held = now

    @invariant()
    def an_end_never_changes(self) -> None:
        for seen in self._observed():
            before = self.ends.get(seen.uid)
            if before is not None:
                assert seen.state is State.ENDED, f"{seen.ref} had ended: {before.value}"
                assert before in (CauseKind.UNKNOWN, seen.cause.kind), f"{seen.ref} had ended: {before.value}"
            if seen.state is State.ENDED and not seen.foreign:
                self.ends[seen.uid] = seen.cause.kind

    # ------------------------------------------------------------ helpers

    @property
    def trainjobs(self) -> list[dict[str, Any]]:
        return list(self.ground.cluster.registry.list(TRAINJOBS, NAMESPACE).items)

    @property
    def pods(self) -> list[dict[str, Any]]:
        return list(self.ground.cluster.registry.list(PODS, NAMESPACE).items)

    def _pick(self, pick: int) -> dict[str, Any]:
        trainjobs = self.trainjobs
        return trainjobs[pick % len(trainjobs)]

    def _observed(self) -> list[Observation]:
        return observations(self.ground.hub.store, JOB_ID)

    def _call(self, words: str, working: Any) -> Call:
        """Starts a call; it goes on while others come, and may be refused in the ways that are documented."""

        async def start() -> Call:
            call = self.ground.call(words, working)
            await self.ground.settle()
            return call

        call: Call = self._run(start())
        assert call.error is None or isinstance(call.error, DispatchError), call.error
        return call

    def _run(self, working: Any) -> Any:
        return self._runner.run(working)


_COUNTERS = (names.ENV_INPUT_ADMISSION, names.ENV_INPUT_RESTART)


def _hold_instance(trainjob: dict[str, Any]) -> int:
    return int(trainjob["metadata"].get("annotations", {}).get(names.ANNOTATION_HOLD_INSTANCE, "0"))


def _submission(container: Any) -> int:
    return int(container.spec.env[names.ENV_SUBMISSION])


Machine.TestCase.settings = settings(
    max_examples=EXAMPLES or 8,
    stateful_step_count=50 if EXAMPLES else 25,
    derandomize=not EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
TestMachine = Machine.TestCase
