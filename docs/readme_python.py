"""Run the Python of a Markdown file, as one program: `python docs/readme_python.py README.md`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

if __name__ == "__main__":
    program = "\n".join(re.findall(r"```python\n(.*?)```", Path(sys.argv[1]).read_text(), re.DOTALL))
    exec(compile(program, sys.argv[1], "exec", dont_inherit=True), {})
