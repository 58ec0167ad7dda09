"""Whether part of the input was lost."""

from __future__ import annotations

from npu_advisor.findings import Report

# Diagnostics that say so whatever their severity: the rest of the file is gone although the run goes on.
LOST = ("trace_truncated", "csv_damaged", "file_unreadable", "db_damaged", "kernels_lost")


def is_damaged(report: Report) -> bool:
    """True when an error was met or a file could be read only in part, or not at all."""
    return any(remark.severity == "error" or remark.code in LOST for remark in report.diagnostics)
