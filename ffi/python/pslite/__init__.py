"""pslite for Python.

`import pslite.preload`, before `import mxnet`, puts pslite under the stock wheel; see there. This
module itself does nothing.
"""

__version__ = "0.1.0"
