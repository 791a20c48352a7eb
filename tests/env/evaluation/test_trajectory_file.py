from __future__ import annotations

import gzip
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from venus_env.evaluation.trajectory_file import (
    TrajectoryFileError,
    TrajectoryWriter,
    read_trajectories,
    replacing_writer,
)
from venus_env.protocol.trajectory import Trajectory, TurnRecord


def episode(number: int, text: str = "Malmö\u2028") -> Trajectory:
    turn = TurnRecord(index=0, kind="answer", format_ok=True, message_index=2, reward_terms={"outcome": 0.1 * number})
    return Trajectory(
        task={"id": f"t{number}", "question": "Q?", "answers": ["A"]},
        messages=[
            {"role": "system", "content": "s"},
            {"role": "user", "content": text},
            {"role": "assistant", "content": "<think></think><answer>A</answer>"},
        ],
        turns=[turn],
        end="answered",
        seed=number,
    )


EPISODES = [episode(number) for number in range(3)]


def lines(episodes: list[Trajectory]) -> list[bytes]:
    return [json.dumps(each.record(), ensure_ascii=False).encode() + b"\n" for each in episodes]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.jsonl"
    with TrajectoryWriter(path) as writer:
        for number, each in enumerate(EPISODES[:2], start=1):
            writer.append(each)
            assert len(list(read_trajectories(path))) == number  # it is on its way to the disk at once
    with TrajectoryWriter(path) as writer:
        writer.append(EPISODES[2])
    assert list(read_trajectories(path)) == EPISODES
    packed = tmp_path / "x.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert list(read_trajectories(packed)) == EPISODES


def test_turns_without_their_messages_are_named(tmp_path: Path) -> None:
    record = EPISODES[0].record()
    record["messages"].pop()
    (tmp_path / "x.jsonl").write_text(json.dumps(record) + "\n")
    with pytest.raises(
        TrajectoryFileError, match=r"line 1: field 'turns.0.message_index' is 2, but there are 2 messages"
    ):
        list(read_trajectories(tmp_path / "x.jsonl"))


def test_half_a_line_at_the_end_is_dropped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "x.jsonl"
    first, second, _ = lines(EPISODES)
    for cut in (1, len(second) // 2, second.index("ö".encode()) + 1, len(second) - 2):
        path.write_bytes(first + second[:cut])
        with pytest.raises(TrajectoryFileError, match=r"x\.jsonl, line 2: the file breaks off within this line"):
            list(read_trajectories(path))
        with caplog.at_level(logging.WARNING), TrajectoryWriter(path) as writer:
            assert path.read_bytes() == first
            writer.append(EPISODES[2])
        assert f"dropped half a line of {cut} bytes" in caplog.text
        assert list(read_trajectories(path)) == [EPISODES[0], EPISODES[2]]


def test_a_very_long_half_line_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    (long,) = lines([episode(1, "x" * 3_000_000)])
    path.write_bytes(long[:-9])
    TrajectoryWriter(path).close()
    assert path.read_bytes() == b""
    path.write_bytes(long + long[:-9])
    TrajectoryWriter(path).close()
    assert path.read_bytes() == long


@pytest.mark.parametrize("tail", [b"", b"no JSON\n", b"\n\n"])
def test_nothing_else_is_dropped(tail: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "x.jsonl"
    content = b"".join(lines(EPISODES)) + tail
    path.write_bytes(content)
    TrajectoryWriter(path).close()
    assert path.read_bytes() == content
    assert caplog.text == ""


def test_a_whole_last_line_without_its_end_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"".join(lines(EPISODES[:2])).rstrip(b"\n"))
    assert list(read_trajectories(path)) == EPISODES[:2]
    with TrajectoryWriter(path) as writer:
        writer.append(EPISODES[2])
    assert list(read_trajectories(path)) == EPISODES


def without(record: dict[str, Any], *path: Any) -> dict[str, Any]:
    inner: Any = record
    for step in path[:-1]:
        inner = inner[step]
    del inner[path[-1]]
    return record


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (without(EPISODES[0].record(), "messages"), "field 'messages': Field required"),
        (without(EPISODES[0].record(), "turns", 0, "kind"), "field 'turns.0.kind': Field required"),
        (EPISODES[0].record() | {"end": "done"}, "field 'end': Input should be 'running', 'answered'"),
        (EPISODES[0].record() | {"more": 1}, "field 'more': Extra inputs are not permitted"),
        (EPISODES[0].record() | {"schema": "venus.task/1"}, "field 'schema' is 'venus.task/1'; this reader knows"),
        (without(EPISODES[0].record(), "schema"), "field 'schema' is missing; it must be 'venus.trajectory/1'"),
        ([1], "expected an object, not list"),
    ],
)
def test_errors_name_line_and_field(record: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    good = lines(EPISODES[:1])[0]
    path.write_bytes(good * 35 + b"\n" + json.dumps(record).encode() + b"\n" + good)
    read = read_trajectories(path)
    assert [next(read) for _ in range(35)] == [EPISODES[0]] * 35
    with pytest.raises(TrajectoryFileError) as caught:
        next(read)
    assert f"{path}, line 37: {message}" in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TrajectoryFileError, match=r"no trajectory file at .*nowhere\.jsonl"):
        read_trajectories(tmp_path / "nowhere.jsonl")
    (tmp_path / "x.csv").touch()
    with pytest.raises(TrajectoryFileError, match=r"must end in \.jsonl or \.jsonl\.gz"):
        read_trajectories(tmp_path / "x.csv")
    (tmp_path / "x.jsonl").write_bytes(b"{]\n")
    with pytest.raises(TrajectoryFileError, match="line 1: not a line of JSON"):
        list(read_trajectories(tmp_path / "x.jsonl"))
    packed = gzip.compress(b"".join(lines(EPISODES)))
    for name, content in {"cut.jsonl.gz": packed[:-20], "plain.jsonl.gz": b"".join(lines(EPISODES))}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(TrajectoryFileError, match=f"cannot read .*{name}"):
            list(read_trajectories(tmp_path / name))


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(TrajectoryFileError, match=r"must end in \.jsonl"):
        TrajectoryWriter(tmp_path / "x.jsonl.gz")
    (tmp_path / "folder.jsonl").mkdir()
    for _ in range(2):  # a failed attempt does not keep the lock
        with pytest.raises(TrajectoryFileError, match=r"cannot write to .*Is a directory"):
            TrajectoryWriter(tmp_path / "folder.jsonl")


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    with TrajectoryWriter(path):
        with pytest.raises(TrajectoryFileError, match="another process is writing to"):
            TrajectoryWriter(path)
        with pytest.raises(TrajectoryFileError, match="another process is writing to"), replacing_writer(path):
            pass
    TrajectoryWriter(path).close()


def test_replacing_is_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    with replacing_writer(path) as writer:
        writer.append(EPISODES[0])
        assert not path.exists()
    assert list(read_trajectories(path)) == EPISODES[:1]

    def fail_half_way() -> None:
        with replacing_writer(path) as writer:
            writer.append(EPISODES[1])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert list(read_trajectories(path)) == EPISODES[:1]
    with replacing_writer(path) as writer:
        writer.append(EPISODES[1])
    assert list(read_trajectories(path)) == EPISODES[1:2]
    assert {file.name for file in tmp_path.iterdir()} == {"x.jsonl", ".x.jsonl.lock"}
