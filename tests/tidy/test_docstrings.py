"""A function's docstring says what it does: it opens with a verb. Properties and modules may say what they are."""

import ast
from pathlib import Path

from support.source_trees import tree_of

ROOT = Path(__file__).parents[2]
NO_VERBS = {
    *("What", "Whether", "Where", "Who", "Whom", "Whose", "How", "When", "Why", "Which"),
    *("The", "A", "An", "Its", "All", "Nobody", "Nothing", "Everything", "As", "In", "From", "To", "Of", "For", "By"),
}


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)


def test_no_function_is_a_riddle():
    riddles = [
        f"{path.relative_to(ROOT)}: {node.name}: {text.splitlines()[0]}"
        for folder in ("src", "lab/src")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (text := ast.get_docstring(node))
        and not is_property(node)
        and text.split()[0].rstrip(",:;.") in NO_VERBS
    ]
    assert riddles == []
