"""Stands before the real one: see scipy.py."""

raise ImportError("the tests run without scikit-learn")
