"""``confirm_ceased``: an operator's word that pods which vanished have ended (contract, section 12)."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow_dispatch.adapter.retrying import retrying
from airflow_dispatch.adapter.target import Target
from airflow_dispatch.core import names
from airflow_dispatch.core.errors import Refused
from airflow_dispatch.core.identity import parse_job_id, parse_name
from airflow_dispatch.core.ledger import Confirmation
from airflow_dispatch.kube import ledgers

__all__ = ["confirm_ceased"]


async def confirm_ceased(target: Target, job: str, who: str, reason: str) -> tuple[str, ...]:
    """Confirms every entry of the job's ledger that nobody has confirmed; entries that come later block as ever.

    ``job`` is a JobID or the name of one of its TrainJobs, which may be gone. Answers ``<pod> on <node>`` of each.
    Raises :class:`InvalidJob` when it is neither, and :class:`Refused` without a name or a reason, or when there is
    nothing to confirm.
    """
    submission = parse_name(job)
    job_id = submission.job_id if submission is not None else parse_job_id(job)
    if not (who.strip() and reason.strip()):
        raise Refused("a confirmation needs who gives it, and how they know")

    by = Confirmation(who=who.strip(), why=reason.strip(), at=datetime.now(UTC))

    async def once() -> tuple[str, ...]:
        return await ledgers.confirm(target.client, target.namespace, job_id, by)

    done = await retrying(once)
    if not done:
        raise Refused(f"{target.ref(names.ledger_name(job_id))}: there is nothing to confirm: no pod is held there")
    return done
