"""What an editor may set, as ``initializationOptions`` or under ``npuAdvisor`` in its configuration."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from npu_advisor.base.lang import Lang, choose_language


class Settings(BaseModel):
    """``path`` is the folder (or file) where profiles and reports land, relative to the first workspace folder that
    has it; the other options are those of the command line."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    path: str = "result"
    source_root: list[str] = Field(default_factory=list)
    rules: list[str] = Field(default_factory=list)
    select: list[str] = Field(default_factory=list)
    ignore: list[str] = Field(default_factory=list)
    lang: Literal["en", "zh", "auto"] = "auto"

    @property
    def language(self) -> Lang:
        """``lang``, or what the environment says."""
        return choose_language(self.lang, os.environ)

    def with_options(self, options: object) -> Settings:
        """These settings with what ``options`` (a mapping, in camel case) changes. ValueError for wrong ones."""
        changed = Settings.model_validate(options or {})
        return self.model_copy(update={name: getattr(changed, name) for name in changed.model_fields_set})

    def watched(self, folders: list[Path]) -> Path:
        """Where to look, given the folders that are open."""
        found = [folder / self.path for folder in folders]
        return next((path for path in found if path.exists()), found[0] if found else Path(self.path))
