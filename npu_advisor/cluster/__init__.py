"""Jobs of many ranks: each rank becomes a small summary on its own, and the job is judged by the summaries."""
