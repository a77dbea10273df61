"""Trainer, the JobSet and Job controllers and the garbage collector, each of which may be late."""

from __future__ import annotations

from collections.abc import Iterator

from tests.core.cessation.model.world import (
    ACTIVE,
    FRESH,
    NEVER,
    RANKS,
    TERMINATING,
    Machine,
    Owner,
    Pod,
    Stage,
    Submission,
    Wish,
    World,
)

Moves = Iterator[tuple[str, World]]


def with_submission(world: World, number: int, submission: Submission) -> World:
    listed = list(world.submissions)
    listed[number] = submission
    return world._replace(submissions=tuple(listed))


def with_pods(world: World, pods: list[Pod]) -> World:
    return world._replace(pods=tuple(sorted(pods)))


def moves(world: World, *, late_after_deletion: bool) -> Moves:
    """Every step of a controller; ``late_after_deletion``: also on what it has read of an object that is gone."""
    for number, submission in enumerate(world.submissions):
        name = f"s{number + 1}"
        for label, changed in _submission_moves(submission, late_after_deletion=late_after_deletion):
            yield f"{name}: {label}", with_submission(world, number, changed)
        for label, after in _job_controller(world, number, submission):
            yield f"{name}: {label}", after


def caught_up(world: World) -> World:
    """The same after Trainer and the JobSet controller have done all that there is for them."""
    for number, at in enumerate(world.submissions):
        found = at
        while True:
            if (wish := trainer_wish(found)) is not None:
                found = _write_jobset(found, wish)
            elif (wish := jobset_wish(found)) is not None:
                found = _write_job(found, wish)
            else:
                break
        if found is not at:
            world = with_submission(world, number, found)
    return world


def is_behind(world: World, number: int, submission: Submission) -> tuple[bool, bool, bool]:
    """Trainer, JobSet controller, Job controller: has something in hand, or to take in hand."""
    return (
        submission.trainer is not None or trainer_wish(submission) is not None,
        submission.jobset_controller is not None or jobset_wish(submission) is not None,
        submission.job_controller is not None or job_wish(world, number, submission) is not None,
    )


def _submission_moves(at: Submission, *, late_after_deletion: bool) -> Iterator[tuple[str, Submission]]:
    if at.trainer is None:
        wish = trainer_wish(at)
        if wish is not None:
            yield "Trainer reads the TrainJob", at._replace(trainer=wish)
    else:
        yield "Trainer writes the JobSet", _write_jobset(at, at.trainer)
    if at.jobset_controller is None:
        wish = jobset_wish(at)
        if wish is not None:
            yield "the JobSet controller reads the JobSet", at._replace(jobset_controller=wish)
    else:
        yield "the JobSet controller writes the Job", _write_job(at, at.jobset_controller)
    if at.trainjob is None:
        if at.jobset is not None:
            if late_after_deletion or (at.trainer is None and at.jobset_controller is None):
                yield "the JobSet is garbage", at._replace(jobset=None)
        elif at.job is not None and (late_after_deletion or at.job_controller is None):
            yield "the Job is garbage", at._replace(job=None)


# ---------------------------------------------------------------- Trainer


def trainer_wish(at: Submission) -> Wish | None:
    """Trainer leaves a JobSet alone when neither it nor the TrainJob is suspended (cluster facts, 1.6)."""
    if at.trainjob is None or (at.jobset is not None and at.jobset.failed):
        return None
    wish = Wish(*at.trainjob)
    if at.jobset is None:
        return wish
    if not wish.suspend and not at.jobset.suspend:
        return None
    return None if wish == (at.jobset.admission, at.jobset.suspend) else wish


def _write_jobset(at: Submission, wish: Wish) -> Submission:
    at = at._replace(trainer=None)
    if at.jobset is None:
        return at._replace(jobset=Owner(*wish))
    if at.jobset.failed or (not at.jobset.suspend and not wish.suspend):
        return at  # JobSet's webhook lets a running template be
    return at._replace(jobset=at.jobset._replace(admission=wish.admission, suspend=wish.suspend))


# ---------------------------------------------------------------- JobSet


def jobset_wish(at: Submission) -> Wish | None:
    jobset, job = at.jobset, at.job
    if jobset is None or jobset.failed:
        return None
    wish = Wish(jobset.admission, jobset.suspend)
    if job is None or job.failed or job.suspend != jobset.suspend or (jobset.suspended != NEVER) != jobset.suspend:
        return wish
    return None


def _write_job(at: Submission, wish: Wish) -> Submission:
    """The status is written only over the version that was read: a conflict begins anew."""
    jobset, job = at.jobset, at.job
    if job is None:
        job = Owner(*wish)
    elif job.failed:
        jobset = jobset._replace(failed=True) if jobset is not None else None
    elif wish.suspend:
        job = job._replace(suspend=True)
    elif job.suspend:
        job = job._replace(suspend=False, admission=wish.admission)
    if jobset is not None and not jobset.failed and wish == (jobset.admission, jobset.suspend):
        jobset = _confirmed(jobset)
    return at._replace(jobset=jobset, job=job, jobset_controller=None)


def _confirmed(owner: Owner) -> Owner:
    if not owner.suspend:
        return owner._replace(suspended=NEVER)
    return owner if owner.suspended != NEVER else owner._replace(suspended=FRESH)


# ---------------------------------------------------------------- Job


def job_wish(world: World, number: int, at: Submission) -> Wish | None:
    job = at.job
    if job is None or job.failed:
        return None
    pods = [pod for pod in world.pods if pod.submission == number]
    if _has_failed(pods, job) or (job.suspended != NEVER) != job.suspend:
        return Wish(job.admission, job.suspend)
    work = any(pod.stage in ACTIVE for pod in pods) if job.suspend else bool(_missing_ranks(pods))
    return Wish(job.admission, job.suspend) if work else None


def _job_controller(world: World, number: int, at: Submission) -> Moves:
    if at.job_controller is None:
        wish = job_wish(world, number, at)
        if wish is not None:
            yield (
                "the Job controller reads the Job",
                with_submission(world, number, at._replace(job_controller=wish)),
            )
    else:
        yield "the Job controller acts", _act_on_pods(world, number, at, at.job_controller)
    if at.job is None:
        mine = [pod for pod in world.pods if pod.submission == number and pod.stage in (*ACTIVE, Stage.ENDED)]
        for pod in mine:
            yield f"pod {pod.rank} is garbage", replace_pod(world, pod, _deleted(pod))


def _act_on_pods(world: World, number: int, at: Submission, wish: Wish) -> World:
    at = at._replace(job_controller=None)
    pods = [pod for pod in world.pods if pod.submission == number]
    others = [pod for pod in world.pods if pod.submission != number]
    job = at.job
    current = job is not None and wish == (job.admission, job.suspend)
    if job is not None and _has_failed(pods, job):
        left = [after for pod in pods if (after := _deleted(pod) if pod.stage in ACTIVE else pod) is not None]
        if current and not any(pod.stage in TERMINATING for pod in left):
            at = at._replace(job=job._replace(failed=True))
    elif wish.suspend:
        left = [after for pod in pods if (after := _deleted(pod) if pod.stage in ACTIVE else pod) is not None]
    else:
        left = [*pods, *(_created(world, number, wish.admission, rank) for rank in _missing_ranks(pods))]
    if current and at.job is not None and not at.job.failed:
        at = at._replace(job=_confirmed(at.job))
    return with_pods(with_submission(world, number, at), [*others, *left])


def _has_failed(pods: list[Pod], job: Owner) -> bool:
    """A pod of a phase Failed is one failure too many for ``backoffLimit: 0``; a suspended Job does not count."""
    return not job.suspend and any(pod.stage in (Stage.ENDED, Stage.WRITTEN_OFF) for pod in pods)


def _missing_ranks(pods: list[Pod]) -> list[int]:
    """``podReplacementPolicy: Failed``: terminating pods count by number, not by index (recording p08b)."""
    holding = [pod for pod in pods if pod.stage in ACTIVE or pod.stage in TERMINATING]
    taken = {pod.rank for pod in holding}
    return [rank for rank in range(RANKS) if rank not in taken][: max(RANKS - len(holding), 0)]


def _created(world: World, number: int, admission: int, rank: int) -> Pod:
    node = rank if world.machine(rank) is Machine.UP else 0
    return Pod(number, admission, rank, node, Stage.BOUND, alive=False)


def _deleted(pod: Pod) -> Pod | None:
    if pod.stage is Stage.ENDED:
        return None
    return pod._replace(stage=Stage.STOPPING if pod.stage is Stage.RUNNING else Stage.BOUND_DELETED)


def replace_pod(world: World, pod: Pod, after: Pod | None) -> World:
    pods = list(world.pods)
    pods.remove(pod)
    if after is not None:
        pods.append(after)
    return with_pods(world, pods)
