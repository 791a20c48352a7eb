"""Questions: the task format, readers of task files, and the embedded world that both come from by default."""

from venus_env.tasks.loaders import TaskFileError, load_tasks
from venus_env.tasks.task import Evidence, Task

__all__ = ["Evidence", "Task", "TaskFileError", "load_tasks"]
