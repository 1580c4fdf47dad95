"""Runs another program of this folder after `import pslite.mxnet`: arguments: its name and its
own."""

import runpy
import sys
from pathlib import Path

import pslite.mxnet  # noqa: F401

sys.argv = sys.argv[1:]
runpy.run_path(str(Path(__file__).parent / sys.argv[0]), run_name="__main__")
