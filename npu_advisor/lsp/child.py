"""The process that analyses for the server: ``python -m npu_advisor.lsp.child`` answers the question on its stdin.

It may take long and much memory, and it must not disturb what the server says on its stdout. The newest recording
below the path of the settings is analysed, and its report printed as JSON.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from time import time_ns

from npu_advisor.api import analyze
from npu_advisor.base.errors import AdvisorError
from npu_advisor.lsp.reading import NOT_YET, Question
from npu_advisor.readers import RankSource, locate
from npu_advisor.readers.settled import is_whole, signature
from npu_advisor.report.json import render_json
from npu_advisor.report.options import MARK
from npu_advisor.rules.choice import chosen_rules

# Ranks of one recording are written within this time of each other.
_TOGETHER_NS = 120_000_000_000
# A file that has lacked its end for this long will not get it any more.
_GIVEN_UP_NS = 60_000_000_000


def main(question: str) -> int:
    """Print the report; 0, or NOT_YET, or as for the error that is printed to stderr."""
    asked = Question.model_validate_json(question)
    settings, folders = asked.settings, asked.folders
    try:
        chosen, written_ns = newest(locate(settings.watched([Path(folder) for folder in folders])))
        if time_ns() - written_ns < _GIVEN_UP_NS and not all(map(is_whole, chosen)):
            return NOT_YET
        first = Path(folders[0]) if folders else None
        rules = chosen_rules(settings.rules, settings.select, settings.ignore, first)
        report = analyze(
            [source.path for source in chosen],
            rules=rules.dirs,
            params=rules.params,
            select=rules.select,
            ignore=rules.ignore,
            source_root=(*settings.source_root, *folders),
            # The editor's text may differ from the file: fixes are made when they are asked for.
            fixes=False,
        )
    except AdvisorError as error:
        sys.stderr.write(error.what.pick(settings.language))
        return error.exit_code
    sys.stdout.buffer.write(render_json(report).encode())
    return 0


def newest(sources: Sequence[RankSource]) -> tuple[list[RankSource], int]:
    """The ranks of the recording that was written last, and when that was (ns since 1970)."""
    named = [source for source in sources if MARK not in source.path.name] or list(sources)
    timed = [(max((written for _, _, written in signature(source)), default=0), source) for source in named]
    last, latest = max(timed, key=lambda item: item[0])
    # Another recording of the same rank, beside it, is an older one.
    chosen: dict[object, RankSource] = {}
    for written, source in sorted(timed, key=lambda item: item[0]):
        if source.path.parent == latest.path.parent and last - written <= _TOGETHER_NS:
            chosen[source.rank_hint if source.rank_hint >= 0 else source.path] = source
    return list(chosen.values()), last


if __name__ == "__main__":
    # Nothing asked: the server went before it had a question.
    asked = sys.stdin.read()
    sys.exit(main(asked) if asked else 0)
