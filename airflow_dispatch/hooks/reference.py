"""How one task names another task's TrainJob."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from airflow_dispatch.core.errors import InvalidJob
from airflow_dispatch.core.identity import parse_name
from airflow_dispatch.core.observation import Observation

__all__ = ["JobReference"]


@dataclass(frozen=True)
class JobReference:
    """One TrainJob: ``uid`` is empty when whoever named it does not know it."""

    namespace: str
    name: str
    uid: str = ""

    @property
    def ref(self) -> str:
        """``<namespace>/<name>``."""
        return f"{self.namespace}/{self.name}"

    @property
    def job_id(self) -> str:
        """Its JobID, from its name."""
        submission = parse_name(self.name)
        return submission.job_id if submission else ""

    @property
    def submission(self) -> int:
        """Its submission number, from its name."""
        submission = parse_name(self.name)
        return submission.number if submission else 0

    def to_xcom(self) -> dict[str, Any]:
        """As plain JSON values: ``ref``, ``namespace``, ``name``, ``uid``, ``job_id``, ``submission``."""
        return {"ref": self.ref, **asdict(self), "job_id": self.job_id, "submission": self.submission}

    @classmethod
    def of(cls, observation: Observation) -> JobReference:
        """The TrainJob that an observation is of."""
        namespace, _, name = observation.ref.partition("/")
        return cls(namespace=namespace, name=name, uid=observation.uid)

    @classmethod
    def parse(cls, value: str | Mapping[str, Any], namespace: str) -> JobReference:
        """Reads what :meth:`to_xcom` gave, or ``<namespace>/<name>``, or a name in ``namespace``.

        Raises :class:`InvalidJob` for anything else.
        """
        if isinstance(value, Mapping) and isinstance(value.get("ref"), str):
            parsed = cls.parse(value["ref"], namespace)
            return cls(parsed.namespace, parsed.name, str(value.get("uid") or ""))
        if isinstance(value, str):
            before, _, name = value.strip().rpartition("/")
            if parse_name(name) is not None and "/" not in before:
                return cls(before or namespace, name)
        raise InvalidJob(
            f"job {value!r} names no TrainJob: expected <namespace>/dj-<JobID>-s<N>, or what a submit returned"
        )
