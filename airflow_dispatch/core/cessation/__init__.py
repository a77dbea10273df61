"""May anything of a TrainJob still run? One pure answer for open, release and the next submission (section 12)."""

from airflow_dispatch.core.cessation.leftovers import of_other_submissions
from airflow_dispatch.core.cessation.nodes import ceased
from airflow_dispatch.core.cessation.rule import SECOND_LOOK_SECONDS, Answer, ask

__all__ = ["SECOND_LOOK_SECONDS", "Answer", "ask", "ceased", "of_other_submissions"]
