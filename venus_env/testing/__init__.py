"""Conformance checks for what others bring: tools, corpora, beliefs, judges, policies, environments, tasks.

Each check returns a :class:`Report`; in a test::

    from venus_env.testing import check_tool

    def test_my_tool() -> None:
        check_tool(MyTool()).raise_if_failed()

The same checks are at ``python -m venus_env check``. They also work where an event loop is running, as in Jupyter.
"""

from venus_env.testing.belief import check_belief
from venus_env.testing.corpus import check_corpus
from venus_env.testing.env import check_research_env
from venus_env.testing.judge import check_judge
from venus_env.testing.policy import check_policy
from venus_env.testing.report import Check, ConformanceError, Report
from venus_env.testing.tasks import check_tasks
from venus_env.testing.tool import check_tool

__all__ = [
    "Check",
    "ConformanceError",
    "Report",
    "check_belief",
    "check_corpus",
    "check_judge",
    "check_policy",
    "check_research_env",
    "check_tasks",
    "check_tool",
]
