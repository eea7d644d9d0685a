"""The page about the rules, made from their docstrings."""

from __future__ import annotations

from chipwise.check.rules import RULES

_HEAD = """# Rules

`chipwise check MODEL --target T` holds a model against a target and prints one finding a line. An **error** means that
the build cannot go on, a **warning** that it can, at a cost or after a rewrite, an **info** is a remark. The command
ends with 1 if there is an error.

The limits are data of the target, `chipwise targets NAME` shows them with their sources. A limit that nobody stated is
not checked.
"""


def render() -> str:
    """The page in Markdown."""
    parts = [_HEAD, "## All rules\n", "| rule | what it finds |", "|---|---|"]
    parts += [f"| [{one.id}](#{one.id}) | {one.message} |" for one in RULES]
    for one in RULES:
        parts += [
            f"\n## {one.id}\n",
            f"{one.message}\n",
            f"**Why.** {one.why}\n",
            f"**Limit.** {one.limit}\n",
            f"**Remedy.** {one.remedy}",
        ]
    return "\n".join(parts) + "\n"
