"""Kubelets, the machines under them, and what befalls pods behind a kubelet's back.

Two assumptions of section 12 are built in: a node is tainted out-of-service, or its Node deleted, only once its machine
is off; and somebody watches when a pod vanishes, so that the ledger has it.
"""

from __future__ import annotations

from tests.core.cessation.model.controllers import Moves, replace_pod
from tests.core.cessation.model.world import SEEN_RUNNING, Budget, Entry, Ghost, Machine, Pod, Stage, World

_DELETED = {Stage.BOUND: Stage.BOUND_DELETED, Stage.RUNNING: Stage.STOPPING}


def moves(world: World) -> Moves:
    """Every step of a kubelet, of a machine, and every misfortune that the budget has left."""
    for pod in dict.fromkeys(world.pods):
        name = f"s{pod.submission + 1} pod {pod.rank} of A={pod.admission}"
        for label, after in _pod_moves(world, pod):
            yield f"{name} {label}", after
    yield from _ghosts(world)
    yield from _machine(world)


# ---------------------------------------------------------------- pods


def _pod_moves(world: World, pod: Pod) -> Moves:
    machine, budget = world.machine(pod.node), world.budget
    if machine is Machine.UP:
        yield from _kubelet(world, pod)
    if machine is Machine.LOST and pod.stage in _DELETED:
        yield "is evicted by taint", replace_pod(world, pod, pod._replace(stage=_DELETED[pod.stage]))
    if machine in (Machine.GONE, Machine.OUT_OF_SERVICE):
        yield "is removed by pod garbage collection", replace_pod(world, pod, None)
    if budget.write_offs and machine in (Machine.LOST, Machine.OFF) and pod.stage is Stage.STOPPING:
        spent = _spend(world, budget._replace(write_offs=budget.write_offs - 1))
        yield "is written off as Failed", replace_pod(spent, pod, pod._replace(stage=Stage.WRITTEN_OFF))
    if budget.forced_deletions and pod.stage is not Stage.ENDED:
        yield "is deleted by force", _vanish(_spend(world, _less_forced(budget)), pod)


def _kubelet(world: World, pod: Pod) -> Moves:
    """A process starts and its status is reported in one step, and so do its end and the pod's removal."""
    if pod.stage is Stage.BOUND:
        yield "starts", replace_pod(world, pod, pod._replace(stage=Stage.RUNNING, alive=True))
    elif pod.stage in (Stage.BOUND_DELETED, Stage.STOPPING, Stage.WRITTEN_OFF):
        yield "is stopped and goes", replace_pod(world, pod, None)
    elif pod.stage is Stage.RUNNING and not pod.alive:
        yield "is found dead", replace_pod(world, pod, pod._replace(stage=Stage.ENDED))
    elif pod.stage is Stage.RUNNING and world.budget.exits:
        spent = _spend(world, world.budget._replace(exits=world.budget.exits - 1))
        yield "exits 1", replace_pod(spent, pod, pod._replace(stage=Stage.ENDED, alive=False))


def _vanish(world: World, pod: Pod) -> World:
    """Its object goes at once; a process of it stays, and whoever watches remembers a pod that was seen running."""
    world = replace_pod(world, pod, None)
    if pod.alive:
        ghost = Ghost(pod.submission, pod.admission, pod.node)
        world = world._replace(ghosts=tuple(sorted([*world.ghosts, ghost])))
    if pod.stage in SEEN_RUNNING:
        same_boot = pod.alive or world.machine(pod.node) is not Machine.UP
        entry = Entry(pod.submission, pod.admission, pod.rank, pod.node, same_boot)
        world = world._replace(ledger=tuple(sorted([*world.ledger, entry])))
    return world


def _ghosts(world: World) -> Moves:
    """A kubelet stops what has no pod object any more."""
    for ghost in dict.fromkeys(world.ghosts):
        if world.machine(ghost.node) is Machine.UP:
            left = list(world.ghosts)
            left.remove(ghost)
            yield f"the kubelet of node {ghost.node} stops an orphaned process", world._replace(ghosts=tuple(left))


# ---------------------------------------------------------------- node 1


def _machine(world: World) -> Moves:
    machine, budget = world.node, world.budget
    if machine is Machine.UP and budget.losses:
        spent = _spend(world, budget._replace(losses=budget.losses - 1))
        yield "node 1 is lost", spent._replace(node=Machine.LOST)
    elif machine is Machine.LOST:
        yield "node 1 comes back", world._replace(node=Machine.UP)
        yield "node 1 loses power", _without_processes(world)._replace(node=Machine.OFF)
    elif machine is Machine.OFF:
        yield "node 1 is tainted out-of-service", world._replace(node=Machine.OUT_OF_SERVICE)
        yield "Node 1 is deleted", world._replace(node=Machine.GONE)
    if machine in (Machine.OFF, Machine.OUT_OF_SERVICE, Machine.GONE):
        ledger = tuple(sorted(each._replace(same_boot=each.same_boot and each.node != 1) for each in world.ledger))
        yield "node 1 boots", world._replace(node=Machine.UP, ledger=ledger)


def _without_processes(world: World) -> World:
    pods = tuple(sorted(pod._replace(alive=pod.alive and pod.node != 1) for pod in world.pods))
    return world._replace(pods=pods, ghosts=tuple(ghost for ghost in world.ghosts if ghost.node != 1))


def _spend(world: World, budget: Budget) -> World:
    return world._replace(budget=budget)


def _less_forced(budget: Budget) -> Budget:
    return budget._replace(forced_deletions=budget.forced_deletions - 1)
