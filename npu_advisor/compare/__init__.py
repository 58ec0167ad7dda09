"""Two profiles side by side: what changed between them, where, and what of the step's change that explains."""
