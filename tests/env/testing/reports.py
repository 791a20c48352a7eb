"""What the tests of this room expect of a report."""

import re

from venus_env.testing.report import Report, Status


def assert_first(report: Report, status: Status, name: str, message: str) -> None:
    """What is wrong in one way may break several checks; the first is the one that names it."""
    found = [check for check in report.checks if check.status == status]
    assert found, str(report)
    assert found[0].name == name, str(report)
    assert re.search(message, found[0].message), str(report)


def assert_clean(report: Report) -> None:
    """Everything was looked at, and all is well."""
    assert {check.status for check in report.checks} == {"passed"}, str(report)
