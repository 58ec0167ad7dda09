"""A page as one HTML file that needs nothing else: no network, no server, no fonts.

Both languages are in the file. A content security policy names the one style and the one script of the file by their
hashes, so that nothing that comes out of a profile can run.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from npu_advisor.base.units import format_pct, format_us
from npu_advisor.report.html.markup import both, by_reason, say_both
from npu_advisor.report.options import Options


def document(template: str, options: Options, scripts: Sequence[str] = (), **fields: object) -> str:
    """``template`` filled with ``fields``, with the common script and the further ones that it needs."""
    style, script = _stripped(_environment().get_template("style.css").render()), _script(("report.js", *scripts))
    return (
        _environment()
        .get_template(template)
        .render(
            lang=options.lang,
            policy=_policy(style, script),
            style=Markup(style),
            script=Markup(script),
            **fields,
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("npu_advisor.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(t=say_both)
    environment.filters.update(both=both, by_reason=by_reason, us=format_us, pct=format_pct)
    return environment


def _script(names: Sequence[str]) -> str:
    """The script, as it stands in the file. Kept out of the template language: it holds no data."""
    loader = _environment().loader
    assert loader is not None
    sources = [loader.get_source(_environment(), name)[0] for name in names]
    return "(function () {\n'use strict';\n" + _stripped("\n".join(sources)) + "})();\n"


def _stripped(text: str) -> str:
    """Lines without indentation, comment lines left out: a tenth of the bytes, and still readable."""
    lines = (line.strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("//"))


def _policy(style: str, script: str) -> str:
    """The content security policy: this style, this script, and nothing from anywhere."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
