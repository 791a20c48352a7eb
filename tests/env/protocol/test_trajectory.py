import pytest
from pydantic import ValidationError

from venus_env.protocol.trajectory import Trajectory, TurnRecord


def test_record_round_trip() -> None:
    turn = TurnRecord(index=0, kind="answer", format_ok=True, message_index=2, reward_terms={"outcome": 1.0})
    trajectory = Trajectory(
        task={"id": "t"}, messages=[{"role": "user", "content": "Q?"}], turns=[turn], end="answered"
    )
    record = trajectory.record()
    assert record["schema"] == "venus.trajectory/1"
    assert "schema_" not in record
    assert Trajectory.model_validate(record) == trajectory


@pytest.mark.parametrize("change", [{"end": "done"}, {"schema": "venus.trajectory/2"}, {"extra": 1}])
def test_other_records_are_refused(change: dict) -> None:
    record = Trajectory(task={}, messages=[], turns=[], end="aborted").record()
    with pytest.raises(ValidationError):
        Trajectory.model_validate(record | change)
