"""The rule language at work: expressions, stages, checks, runs, prices."""
