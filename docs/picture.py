"""Write docs/report.svg, the README's picture: the report of the demo profile, as a terminal shows it."""

from __future__ import annotations

from pathlib import Path

from npu_advisor import analyze
from npu_advisor.report.options import Options
from npu_advisor.report.picture import render_svg

HERE = Path(__file__).resolve().parent
DEMO = HERE.parent / "fixtures" / "demo"


def picture() -> str:
    """The SVG."""
    report = analyze(DEMO, source_root=[f"/home/user/proj={DEMO}"])
    options = Options(lang="en", width=100, color=True, utf8=True, base=str(HERE.parent))
    return render_svg(report, options, title="npu-advisor fixtures/demo --source-root /home/user/proj=fixtures/demo")


if __name__ == "__main__":
    (HERE / "report.svg").write_text(picture(), encoding="utf-8")
