"""The host/device event graph: links, source lines, steps, idle owners."""
