"""Readers: find the profiles under a path and read each rank into the model. No policy here, only repair and labels."""

from npu_advisor.readers.locate import RankSource, locate
from npu_advisor.readers.parse import parse_raw
from npu_advisor.readers.rank import read_rank

__all__ = ["RankSource", "locate", "parse_raw", "read_rank"]
