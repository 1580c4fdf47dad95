"""A worker of ours asks a stock scheduler for batches; scheduler and server are the wheel's."""

import os

if os.environ["DMLC_ROLE"] == "worker":
    from pslite import lbbsp
    from pslite.node import Node
    from pslite.store import Store
    from refused import refused

    with Node() as node, Store(node):  # The store tells the stock server when all is over.
        print(refused(lambda: lbbsp.Session(node, length=10, total=5)), flush=True)
else:
    import mxnet  # noqa: F401  Serves, and ends the process.
