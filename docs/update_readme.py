"""Write the generated parts of README.md: the table of schemes, and the output of `make check`.

python docs/update_readme.py                 the table of schemes
python docs/update_readme.py CHECK_OUTPUT    also the verdicts, from a file with the output
"""

from __future__ import annotations

import sys
from pathlib import Path

from draftproof.conformance.oracle_commands import schemes_markdown

README = Path(__file__).parent.parent / "README.md"


def with_section(text: str, name: str, content: str) -> str:
    """The text with `content` between the two markers of a section."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    head, _, rest = text.partition(begin)
    _, _, tail = rest.partition(end)
    return f"{head}{begin}\n{content}\n{end}{tail}"


def main() -> None:
    text = with_section(README.read_text(encoding="utf-8"), "schemes", schemes_markdown())
    if len(sys.argv) > 1:
        lines = Path(sys.argv[1]).read_text(encoding="utf-8").rstrip().splitlines()
        shown = "\n".join(("    " + line.rstrip()).rstrip() for line in lines)
        text = with_section(text, "check", shown)
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
