"""The command line: ``npu-advisor PATH...`` analyses; ``compare``, ``fix``, ``lsp``, ``rules``, ``schema``, ``verify``,
``watch`` and ``whatif`` are commands of their own.

Everything heavy is imported inside the commands, so that ``--help`` needs neither pandas nor networkx.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from npu_advisor.__main__ import COMMANDS, INTERRUPTED
from npu_advisor.base.errors import AdvisorError
from npu_advisor.base.lang import Lang, choose_language
from npu_advisor.base.messages import say
from npu_advisor.cli.notices import error_text, usage_text
from npu_advisor.cli.output import note

if TYPE_CHECKING:
    from npu_advisor.cli.compare import CompareSide, RuleOptions

PROGRAM = "npu-advisor"
SHOWN = ("kernels", "operators", "memory", "steps", "communication", "timeline")
KINDS = "terminal|html|json|sarif|markdown|github|trace"
# typer carries its own copy of click's exceptions or uses click's, depending on its version.
_CommandLineError = cast("type[Exception]", typer.BadParameter.__mro__[2])

Paths = Annotated[list[str] | None, typer.Argument(metavar="PATH", show_default=False)]
Rules = Annotated[list[str] | None, typer.Option("--rules", metavar="DIR", show_default=False)]
Select = Annotated[list[str] | None, typer.Option("--select", metavar="ID", show_default=False)]
Ignore = Annotated[list[str] | None, typer.Option("--ignore", metavar="ID", show_default=False)]
SourceRoot = Annotated[list[str] | None, typer.Option("--source-root", metavar="OLD=NEW|DIR", show_default=False)]
FailOn = Annotated[str | None, typer.Option("--fail-on", metavar="high|medium|low|info", show_default=False)]
Cache = Annotated[str | None, typer.Option("--cache", metavar="DIR|auto", show_default=False)]
LangOption = Annotated[str, typer.Option("--lang", metavar="en|zh|auto")]

Output = Annotated[list[str] | None, typer.Option("--output", "-o", metavar="[KIND=]FILE", show_default=False)]
Base = Annotated[str, typer.Argument(metavar="BASE", show_default=False)]
New = Annotated[str, typer.Argument(metavar="NEW", show_default=False)]
Numbers = list[int] | None
BaseRank = Annotated[Numbers, typer.Option("--base-rank", metavar="N", show_default=False)]
NewRank = Annotated[Numbers, typer.Option("--new-rank", metavar="N", show_default=False)]
BaseStep = Annotated[Numbers, typer.Option("--base-step", metavar="N", show_default=False)]
NewStep = Annotated[Numbers, typer.Option("--new-step", metavar="N", show_default=False)]

analysis = typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)
commands = typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)
rules_app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
schema_app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
cache_app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
commands.add_typer(cache_app, name="cache")
commands.add_typer(rules_app, name="rules")
commands.add_typer(schema_app, name="schema")


@analysis.command()
def analyze(
    paths: Paths = None,
    form: Annotated[str, typer.Option("--format", "-f", metavar=KINDS)] = "terminal",
    output: Output = None,
    lang: LangOption = "auto",
    select: Select = None,
    ignore: Ignore = None,
    rules: Rules = None,
    source_root: SourceRoot = None,
    rank: Annotated[list[int] | None, typer.Option("--rank", metavar="N", show_default=False)] = None,
    step: Annotated[list[int] | None, typer.Option("--step", metavar="N", show_default=False)] = None,
    show_all: Annotated[bool, typer.Option("--all", show_default=False)] = False,
    fail_on: FailOn = None,
    baseline: Annotated[str | None, typer.Option("--baseline", metavar="FILE", show_default=False)] = None,
    budget: Annotated[str | None, typer.Option("--budget", metavar="FILE", show_default=False)] = None,
    strict: Annotated[bool, typer.Option("--strict", show_default=False)] = False,
    parse: Annotated[bool, typer.Option("--parse", show_default=False)] = False,
    merge: Annotated[bool, typer.Option("--merge", show_default=False)] = False,
    cache: Cache = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", show_default=False)] = False,
    version: Annotated[bool, typer.Option("--version", is_eager=True, show_default=False)] = False,
) -> int:
    """Analyse profiles."""
    if version:
        from npu_advisor import __version__
        from npu_advisor.readers.trace_compiled import scanner

        typer.echo(f"{PROGRAM} {__version__}")
        note(scanner().pick(_language(lang)) + "\n")
        return 0
    from npu_advisor.cli.analyze import Request, run

    return run(
        Request(
            paths=tuple(paths or ()),
            form=form,
            outputs=tuple(output or ()),
            lang=lang,
            select=tuple(select or ()),
            ignore=tuple(ignore or ()),
            rules=tuple(rules or ()),
            source_root=tuple(source_root or ()),
            ranks=tuple(rank or ()),
            steps=tuple(step or ()),
            show_all=show_all,
            fail_on=fail_on,
            baseline=baseline,
            budget=budget,
            strict=strict,
            parse=parse,
            merge=merge,
            cache=cache,
            quiet=quiet,
        )
    )


@commands.command("watch")
def watch(
    folder: Annotated[str, typer.Argument(metavar="DIR")],
    forms: Annotated[list[str] | None, typer.Option("--format", "-f", metavar="KIND", show_default=False)] = None,
    once: Annotated[bool, typer.Option("--once", show_default=False)] = False,
    timeout: Annotated[float, typer.Option("--timeout", metavar="SECONDS")] = 0.0,
    fail_on: FailOn = None,
    rules: Rules = None,
    source_root: SourceRoot = None,
    lang: LangOption = "auto",
) -> int:
    """Analyse profiles as they appear."""
    from npu_advisor.cli import watch as command

    return command.watch(
        command.Watch(
            folder=folder,
            forms=tuple(forms or command.Watch.forms),
            once=once,
            timeout=timeout,
            lang=lang,
            rules=tuple(rules or ()),
            source_root=tuple(source_root or ()),
            fail_on=fail_on,
        )
    )


@commands.command()
def whatif(
    paths: Paths = None,
    edit: Annotated[list[str] | None, typer.Option("--edit", "-e", metavar="EDIT", show_default=False)] = None,
    form: Annotated[str, typer.Option("--format", "-f", metavar="terminal|json")] = "terminal",
    output: Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", show_default=False)] = None,
    lang: LangOption = "auto",
    select: Select = None,
    ignore: Ignore = None,
    rules: Rules = None,
    rank: Annotated[list[int] | None, typer.Option("--rank", metavar="N", show_default=False)] = None,
    step: Annotated[list[int] | None, typer.Option("--step", metavar="N", show_default=False)] = None,
    show_all: Annotated[bool, typer.Option("--all", show_default=False)] = False,
    cache: Cache = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", show_default=False)] = False,
) -> int:
    """Re-time a step with edits applied."""
    from npu_advisor.cli.whatif import Question, run

    return run(
        Question(
            paths=tuple(paths or ()),
            edits=tuple(edit or ()),
            form=form,
            output=output,
            lang=lang,
            select=tuple(select or ()),
            ignore=tuple(ignore or ()),
            rules=tuple(rules or ()),
            ranks=tuple(rank or ()),
            steps=tuple(step or ()),
            show_all=show_all,
            cache=cache,
            quiet=quiet,
        )
    )


@commands.command()
def fix(
    paths: Paths = None,
    diff: Annotated[bool, typer.Option("--diff", show_default=False)] = False,
    apply: Annotated[bool, typer.Option("--apply", show_default=False)] = False,
    unsafe: Annotated[bool, typer.Option("--unsafe", show_default=False)] = False,
    select: Select = None,
    ignore: Ignore = None,
    rules: Rules = None,
    source_root: SourceRoot = None,
    lang: LangOption = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", show_default=False)] = False,
) -> int:
    """Change the code as findings advise."""
    from npu_advisor.cli.fix import FixRequest, run

    return run(
        FixRequest(
            paths=tuple(paths or ()),
            diff=diff,
            apply=apply,
            unsafe=unsafe,
            lang=lang,
            select=tuple(select or ()),
            ignore=tuple(ignore or ()),
            rules=tuple(rules or ()),
            source_root=tuple(source_root or ()),
            quiet=quiet,
        )
    )


@commands.command("open")
def open_(
    paths: Paths = None,
    serve: Annotated[bool, typer.Option("--serve", show_default=False)] = False,
    port: Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535)] = 0,
    lang: LangOption = "auto",
    rules: Rules = None,
    source_root: SourceRoot = None,
    rank: Annotated[list[int] | None, typer.Option("--rank", metavar="N", show_default=False)] = None,
    step: Annotated[list[int] | None, typer.Option("--step", metavar="N", show_default=False)] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", show_default=False)] = False,
) -> int:
    """Show the HTML report in a browser."""
    from npu_advisor.cli import open as command

    return command.open_report(
        command.Open(
            paths=tuple(paths or ()),
            serve=serve,
            port=port,
            lang=lang,
            rules=tuple(rules or ()),
            source_root=tuple(source_root or ()),
            ranks=tuple(rank or ()),
            steps=tuple(step or ()),
            quiet=quiet,
        )
    )


@commands.command("show")
def show(
    what: Annotated[str, typer.Argument(metavar="|".join(SHOWN), show_default=False)],
    paths: Paths = None,
    group_by: Annotated[str, typer.Option("--group-by", metavar="COLUMN,...", show_default=False)] = "",
    sort: Annotated[str, typer.Option("--sort", metavar="[-]COLUMN,...", show_default=False)] = "",
    top: Annotated[int | None, typer.Option("--top", metavar="N", min=0, show_default=False)] = None,
    where: Annotated[str | None, typer.Option("--where", metavar="CONDITION", show_default=False)] = None,
    form: Annotated[str, typer.Option("--format", "-f", metavar="table|json|csv|parquet")] = "table",
    output: Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", show_default=False)] = None,
    lang: LangOption = "auto",
    rank: Annotated[list[int] | None, typer.Option("--rank", metavar="N", show_default=False)] = None,
    step: Annotated[list[int] | None, typer.Option("--step", metavar="N", show_default=False)] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", show_default=False)] = False,
) -> int:
    """List a table of a profile."""
    from npu_advisor.cli import show as command

    return command.show(
        command.Show(
            what=what,
            paths=tuple(paths or ()),
            by=_names(group_by),
            sort=_names(sort),
            where=where,
            top=top,
            form=form,
            output=output,
            lang=lang,
            ranks=tuple(rank or ()),
            steps=tuple(step or ()),
            quiet=quiet,
        )
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


@commands.command("lsp")
def language_server(
    path: Annotated[str, typer.Option("--path", metavar="PATH")] = "result",
    rules: Rules = None,
    select: Select = None,
    ignore: Ignore = None,
    source_root: SourceRoot = None,
    lang: LangOption = "auto",
) -> int:
    """Serve an editor."""
    from npu_advisor.cli import lsp as command

    return command.serve(path, source_root or [], rules or [], select or [], ignore or [], lang)


@commands.command()
def cluster(
    paths: Paths = None,
    summaries: Annotated[str | None, typer.Option("--summaries", metavar="DIR", show_default=False)] = None,
    memory: Annotated[str, typer.Option("--memory", metavar="SIZE")] = "2GB",
    workers: Annotated[int | None, typer.Option("--workers", metavar="N", min=1, show_default=False)] = None,
    engine: Annotated[str, typer.Option("--engine", metavar="local|dask")] = "local",
    scheduler: Annotated[str | None, typer.Option("--scheduler", metavar="URL", show_default=False)] = None,
    form: Annotated[str, typer.Option("--format", "-f", metavar=f"{KINDS}|parquet")] = "terminal",
    output: Annotated[
        list[str] | None, typer.Option("--output", "-o", metavar="[KIND=]FILE", show_default=False)
    ] = None,
    lang: LangOption = "auto",
    select: Select = None,
    ignore: Ignore = None,
    rules: Rules = None,
    show_all: Annotated[bool, typer.Option("--all", show_default=False)] = False,
    fail_on: FailOn = None,
    strict: Annotated[bool, typer.Option("--strict", show_default=False)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", show_default=False)] = False,
) -> int:
    """Analyse a job of many ranks."""
    from npu_advisor.cli.cluster import Job, run

    return run(
        Job(
            paths=tuple(paths or ()),
            summaries=summaries,
            memory=memory,
            workers=workers,
            engine=engine,
            scheduler=scheduler,
            form=form,
            outputs=tuple(output or ()),
            lang=lang,
            select=tuple(select or ()),
            ignore=tuple(ignore or ()),
            rules=tuple(rules or ()),
            show_all=show_all,
            fail_on=fail_on,
            strict=strict,
            quiet=quiet,
        )
    )


@commands.command()
def compare(
    base: Base,
    new: New,
    form: Annotated[str, typer.Option("--format", "-f", metavar="terminal|html|json|markdown")] = "terminal",
    output: Output = None,
    base_rank: BaseRank = None,
    new_rank: NewRank = None,
    base_step: BaseStep = None,
    new_step: NewStep = None,
    lang: LangOption = "auto",
    select: Select = None,
    ignore: Ignore = None,
    rules: Rules = None,
    source_root: SourceRoot = None,
    show_all: Annotated[bool, typer.Option("--all", show_default=False)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", show_default=False)] = False,
) -> int:
    """Compare two profiles."""
    from npu_advisor.cli import compare as command

    sides = _sides(base, new, (base_rank, base_step), (new_rank, new_step))
    shown = command.Shown(form, tuple(output or ()), lang, show_all, quiet)
    return command.compare(sides, shown, _rule_options(rules, select, ignore, source_root))


@commands.command()
def verify(
    base: Base,
    new: New,
    ledger: Annotated[str | None, typer.Option("--ledger", metavar="FILE", show_default=False)] = None,
    form: Annotated[str, typer.Option("--format", "-f", metavar="terminal|json")] = "terminal",
    output: Output = None,
    base_rank: BaseRank = None,
    new_rank: NewRank = None,
    base_step: BaseStep = None,
    new_step: NewStep = None,
    lang: LangOption = "auto",
    select: Select = None,
    ignore: Ignore = None,
    rules: Rules = None,
    source_root: SourceRoot = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", show_default=False)] = False,
) -> int:
    """Compare predictions with what came."""
    from npu_advisor.cli import compare as command

    sides = _sides(base, new, (base_rank, base_step), (new_rank, new_step))
    shown = command.Shown(form, tuple(output or ()), lang, False, quiet)
    return command.verify(sides, shown, _rule_options(rules, select, ignore, source_root), ledger)


@cache_app.command("info")
def cache_info(cache: Cache = None, lang: LangOption = "auto") -> int:
    """Say what the cache holds."""
    from npu_advisor.cli import cache as command

    return command.info(cache, _language(lang))


@cache_app.command("clear")
def cache_clear(cache: Cache = None, lang: LangOption = "auto") -> int:
    """Empty the cache."""
    from npu_advisor.cli import cache as command

    return command.clear(cache, _language(lang))


@rules_app.command("list")
def rules_list(rules: Rules = None, lang: LangOption = "auto") -> int:
    """List the rules."""
    from npu_advisor.cli import rules as command

    return command.list_rules(rules or [], _language(lang))


@rules_app.command("explain")
def rules_explain(
    rule: Annotated[str | None, typer.Argument(metavar="ID", show_default=False)] = None,
    how: Annotated[str | None, typer.Option("--how", metavar="TOPIC", show_default=False)] = None,
    every: Annotated[bool, typer.Option("--all", show_default=False)] = False,
    form: Annotated[str, typer.Option("--format", metavar="text|markdown")] = "text",
    rules: Rules = None,
    lang: LangOption = "auto",
) -> int:
    """Explain one rule, all of them, or how something works."""
    from npu_advisor.cli import rules as command

    if how is not None:
        return command.explain_how(how, _language(lang))
    if every:
        return command.explain_all(rules or [], _language(lang), form)
    if rule is None:
        raise typer.BadParameter(say("help.option.rule_or_how").pick(_language(lang)))
    return command.explain(rule, rules or [], _language(lang))


@rules_app.command("new")
def rules_new(
    rule: Annotated[str, typer.Argument(metavar="ID")], rules: Rules = None, lang: LangOption = "auto"
) -> int:
    """Write a new rule and its cases to start from."""
    from npu_advisor.cli import rules as command

    return command.new(rule, rules or [], _language(lang))


@rules_app.command("lint")
def rules_lint(rules: Rules = None, lang: LangOption = "auto") -> int:
    """Check rule files."""
    from npu_advisor.cli import rules as command

    return command.lint(rules or [], _language(lang))


@rules_app.command("test")
def rules_test(
    rules: Rules = None,
    select: Select = None,
    ignore: Ignore = None,
    mutate: Annotated[bool, typer.Option("--mutate", show_default=False)] = False,
    lang: LangOption = "auto",
) -> int:
    """Run the cases beside the rules."""
    from npu_advisor.cli import rules as command

    return command.test(rules or [], select or [], ignore or [], _language(lang), mutate=mutate)


@schema_app.command("report")
def schema_report() -> int:
    """Print the JSON Schema of the JSON report."""
    from npu_advisor.cli import schemas

    return schemas.report()


@schema_app.command("whatif")
def schema_whatif() -> int:
    """Print the JSON Schema of the answer to a what-if question."""
    from npu_advisor.cli import schemas

    return schemas.whatif()


@schema_app.command("comparison")
def schema_comparison() -> int:
    """Print the JSON Schema of a comparison."""
    from npu_advisor.cli import schemas

    return schemas.comparison()


@schema_app.command("rule")
def schema_rule() -> int:
    """Print the JSON Schema of a rule file."""
    from npu_advisor.cli import schemas

    return schemas.rule()


@schema_app.command("tables")
def schema_tables() -> int:
    """List the tables and columns that rules can use."""
    from npu_advisor.cli import schemas

    return schemas.tables()


def _sides(
    base: str, new: str, of_base: tuple[Numbers, Numbers], of_new: tuple[Numbers, Numbers]
) -> tuple[CompareSide, CompareSide]:
    from npu_advisor.cli.compare import CompareSide

    (base_rank, base_step), (new_rank, new_step) = of_base, of_new
    return (
        CompareSide(base, tuple(base_rank or ()), tuple(base_step or ())),
        CompareSide(new, tuple(new_rank or ()), tuple(new_step or ())),
    )


def _rule_options(
    rules: list[str] | None, select: list[str] | None, ignore: list[str] | None, source_root: list[str] | None
) -> RuleOptions:
    from npu_advisor.cli.compare import RuleOptions

    return RuleOptions(tuple(rules or ()), tuple(select or ()), tuple(ignore or ()), tuple(source_root or ()))


def _language(option: str) -> Lang:
    from npu_advisor.cli.choices import LANGUAGES, choice

    return choose_language(choice("--lang", option, LANGUAGES), os.environ)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    lang = choose_language(_asked_language(arguments), os.environ)
    app = commands if arguments[:1] and arguments[0] in COMMANDS else analysis
    command = typer.main.get_command(app)
    _describe(command, "analyze" if app is analysis else "commands", lang)
    try:
        return int(command.main(arguments, prog_name=PROGRAM, standalone_mode=False) or 0)
    except AdvisorError as error:
        note(error_text(error, lang))
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except _CommandLineError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            note(str(error) + "\n")
        else:
            note(usage_text(cast("Any", error).format_message(), lang))
        return 2


def _asked_language(arguments: list[str]) -> str | None:
    """The value of ``--lang``, before the command line is parsed: help and usage errors need it too."""
    for index, argument in enumerate(arguments):
        if argument.startswith("--lang="):
            return argument.partition("=")[2]
        if argument == "--lang":
            return arguments[index + 1] if index + 1 < len(arguments) else None
    return None


def _describe(command: object, name: str, lang: Lang) -> None:
    """Give a command, its parameters and its sub-commands their help in one language, from ``help.*`` messages."""
    command.help = say(f"help.{name}").pick(lang)  # type: ignore[attr-defined]
    command.epilog = say("help.epilog").pick(lang) if name == "analyze" else None  # type: ignore[attr-defined]
    for param in command.params:  # type: ignore[attr-defined]
        param.help = say(f"help.option.{param.name}").pick(lang)
    for child_name, child in getattr(command, "commands", {}).items():
        _describe(child, f"{name}.{child_name}", lang)
        child.short_help = None
