"""Stands before the real one: mxnet imports scipy if it is there and does without if not.

The wheel does not ask for it (scikit-learn, which the demo uses, brings it), no test needs it, and
it is a third of what `import mxnet` takes, in each of the five processes of a test.
"""

raise ImportError("the tests run without scipy")
