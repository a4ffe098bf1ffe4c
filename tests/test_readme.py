"""What README.md says is what the project does."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

_spec = importlib.util.spec_from_file_location("update_readme", ROOT / "docs" / "update_readme.py")
assert _spec is not None
assert _spec.loader is not None
update_readme = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(update_readme)


def test_the_table_of_schemes_is_the_catalogue() -> None:
    table = update_readme.schemes_markdown()
    assert update_readme.with_section(README, "schemes", table) == README
    stale = table.replace("yes", "no", 1)
    assert update_readme.with_section(README, "schemes", stale) != README


def test_linked_files_exist() -> None:
    links = [part.split(")")[0] for part in README.split("](")[1:]]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_its_python_example_runs() -> None:
    example = README.split("```python\n")[1].split("```")[0]
    scope: dict[str, object] = {}
    exec(example.replace("max_new_tokens=200", "max_new_tokens=4"), scope)
    run = scope["run"]
    assert len(run.generations[0].tokens) == 4  # type: ignore[attr-defined]
