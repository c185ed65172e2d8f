"""Find texts that readers stumble over: docstrings, comments, messages, help, test names, paragraphs of pages.

    python tools/words.py [PATH ...]         shares of hard texts by kind, and the hardest texts
    python tools/words.py --check            exit code 1 if a kind exceeds its limit
    python tools/words.py --change COMMIT    only the texts that were added since COMMIT

A text is hard if more than 60 % of its words are function words: it then says "what" and "it" in place of nouns. A text
is odd if it contains a word of ``ODD`` or, as a docstring or help, opens with a pronoun. Texts of fewer than five words
do not count.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import ceil
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
PATHS: Final = (
    "src",
    "lab",
    "tests",
    "tools",
    "bench",
    "examples",
    "docs",
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
)
LIMITS: Final = {"docstring": 3.0, "comment": 5.0, "message": 3.0, "help": 0.0, "page": 4.0, "test name": 4.0}
"""Largest share of hard texts of each kind, in percent."""
ODD_LIMIT: Final = 2.0
"""Largest share of odd texts of each kind, in percent."""
ALLOWED: Final = 3
"""Hard or odd texts of each kind that a change of few texts may add, although their share exceeds the limit."""
HARD: Final = 0.6
FEWEST_WORDS: Final = 5
ARTICLES_AND_PREPOSITIONS: Final = """
a an the of to in on at by for with from as up out over off away into onto upon before after since until while and
or but nor if
"""
PRONOUNS: Final = """
it its that which who whom whose what where when how whether this these those here there he she they them their one ones
other others another none nothing nobody anybody somebody something all any each every some such whatever
whoever wherever few many much
"""
AUXILIARIES: Final = """
is are was were be been being has had have having do does did done may might can could must shall should will would
"""
ADVERBS: Final = (
    "not no so than then too also once only even still yet already meanwhile beside again else more most less least"
)
FUNCTION_WORDS: Final = frozenset(f"{ARTICLES_AND_PREPOSITIONS} {PRONOUNS} {AUXILIARIES} {ADVERBS}".split())
ODD: Final = re.compile(
    r"\b(?:told|untold|nobody|who(?:m)?ever|whatever|anew|be it|put out|gives? up|given up|gave up|under way"
    r"|st(?:ands?|anding|ood) still|(?:is|are) wanted|(?:was|is|has) said|of one's own|as it (?:is|was|stands)"
    r"|in vain|by now|by and by|one by one|for good|goes? on|went on|gone on|heard of|hear of|speaks? of"
    r"|(?:is|are) gone|at work|be there|(?:is|are) there)\b",
    re.IGNORECASE,
)
OPENS_ODDLY: Final = re.compile(
    r"(?:what|who|whoever|whose|whether|how|where|of|those|that|since|return (?:what|who|where|how))\b", re.IGNORECASE
)
MARKUP: Final = re.compile(r"\[[^\]]*\]\([^)]*\)|https?://\S+|[`*_#>|]")
LIST_ITEM: Final = re.compile(r"\s*(?:[-*]|\d+\.)\s")
DIRECTIVE: Final = re.compile(r"#\s*(?:noqa|type:|pragma|fmt:|!)")
POSSIBLE_COMMENT: Final = re.compile(r"(?:^|\s)# ?(?!\s*(?:noqa|type:|pragma|fmt:|!))", re.MULTILINE)


class Text(NamedTuple):
    """A text with its file and first line."""

    path: Path
    line: int
    kind: str
    text: str

    @property
    def words(self) -> list[str]:
        return re.findall(r"[a-z][a-z']*", MARKUP.sub(" ", self.text).lower())

    @property
    def share(self) -> float:
        """Share of function words, 0 to 1."""
        words = self.words
        return sum(word in FUNCTION_WORDS for word in words) / len(words)

    @property
    def is_odd(self) -> bool:
        opens = self.kind in ("docstring", "help") and OPENS_ODDLY.match(self.text)
        return bool(opens or ODD.search(self.text))


def literal(node: ast.expr) -> str | None:
    """Return a string literal, with X for each value of an f-string; None for other expressions."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def texts_of_code(path: Path) -> Iterator[Text]:
    """Yield the texts of a Python file."""
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            if isinstance(statement, ast.Expr) and (text := literal(statement.value)) is not None:
                yield Text(path, statement.lineno, "docstring", text.split("\n\n")[0].strip())
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for argument in node.exc.args:
                if (text := literal(argument)) is not None:
                    yield Text(path, argument.lineno, "message", text)
        elif isinstance(node, ast.keyword) and node.arg == "help" and (text := literal(node.value)) is not None:
            yield Text(path, node.value.lineno, "help", text)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield Text(path, node.lineno, "test name", node.name.removeprefix("test_").replace("_", " "))
    yield from comments(path, source)


def comments(path: Path, source: str) -> Iterator[Text]:
    """Yield the comments of a Python file; those of successive lines are one text."""
    if not POSSIBLE_COMMENT.search(source):
        return  # the tokenizer takes a third of the time of this program
    begin, lines, last = 0, list[str](), 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or DIRECTIVE.match(token.string):
            continue
        if lines and token.start[0] != last + 1:
            yield Text(path, begin, "comment", " ".join(lines))
            lines = []
        begin = begin if lines else token.start[0]
        lines.append(token.string.lstrip("# "))
        last = token.start[0]
    if lines:
        yield Text(path, begin, "comment", " ".join(lines))


def texts_of_page(path: Path) -> Iterator[Text]:
    """Yield paragraphs, list items and table cells of a Markdown page, without code blocks and headings."""
    code, begin, paragraph = False, 0, list[str]()
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], 1):
        fence, table = line.lstrip().startswith("```"), line.startswith("|")
        if paragraph and (fence or table or not line.strip() or line.startswith("#") or LIST_ITEM.match(line)):
            yield Text(path, begin, "page", " ".join(paragraph))
            paragraph = []
        code ^= fence
        if table and not code:
            yield from (Text(path, number, "page", cell.strip()) for cell in line.strip("| ").split("|"))
        elif line.strip() and not (code or fence or line.startswith("#")):
            begin = begin if paragraph else number
            paragraph.append(line.strip())


def texts(paths: Iterable[Path]) -> Iterator[Text]:
    """Yield the texts of files and folders that are long enough to be judged."""
    for path in paths:
        files = [path] if path.is_file() else sorted([*path.rglob("*.py"), *path.rglob("*.md")])
        for file in files:
            found = texts_of_code(file) if file.suffix == ".py" else texts_of_page(file)
            yield from (text for text in found if len(text.words) >= FEWEST_WORDS)


def lines_added(since: str) -> dict[Path, set[int]]:
    """Return the lines that the working tree adds to the commit ``since``."""
    command = ["git", "diff", "--unified=0", since, "--", *PATHS]
    diff = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if diff.returncode:
        raise SystemExit(f"--change {since}: {diff.stderr.strip()}")
    added: defaultdict[Path, set[int]] = defaultdict(set)
    file = ROOT
    for line in diff.stdout.splitlines():
        if line.startswith("+++ "):
            file = ROOT / line[6:]
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            added[file].update(range(first, first + count))
    return added


def judge(found: list[Text]) -> bool:
    """Print the shares of each kind; return False if one exceeds its limit.

    A limit above zero allows ``ALLOWED`` texts at least.
    """
    good = True
    for kind, limit in LIMITS.items():
        of_kind = [text for text in found if text.kind == kind]
        hard, odd = sum(text.share > HARD for text in of_kind), sum(text.is_odd for text in of_kind)
        fits = all(
            not count or (most and count <= max(ALLOWED, ceil(most / 100 * len(of_kind))))
            for count, most in ((hard, limit), (odd, ODD_LIMIT))
        )
        good = good and fits
        percent = 100 / max(1, len(of_kind))
        print(
            f"{kind:10} {len(of_kind):6} texts  {hard * percent:5.1f} % hard (at most {limit:g})"
            f"  {odd * percent:5.1f} % odd (at most {ODD_LIMIT:g}){'' if fits else '  TOO MANY'}"
        )
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, help="files and folders [the whole repository]")
    parser.add_argument("--change", metavar="COMMIT", help="judge only texts that were added since this commit")
    parser.add_argument("--check", action="store_true", help="exit with code 1 if a kind exceeds its limit")
    parser.add_argument("--most", type=int, default=25, help="number of hard texts to print [25]")
    options = parser.parse_args()

    if options.change and options.paths:
        parser.error("--change judges the whole repository: give no PATH")
    if options.change:
        added = lines_added(options.change)
        changed = [path for path in added if path.suffix in (".py", ".md") and path.is_file()]
        found = [text for text in texts(changed) if text.line in added[text.path]]
    else:
        found = list(texts(options.paths or [ROOT / name for name in PATHS]))
    good = judge(found)
    if good and options.check:
        return 0
    suspects = sorted((text for text in found if text.share > HARD or text.is_odd), key=lambda text: -text.share)
    for text in suspects[: options.most]:
        print(
            f"  {text.path.resolve().relative_to(ROOT)}:{text.line} [{text.kind}] {' '.join(text.text.split())[:160]}"
        )
    return 1 if options.check and not good else 0


if __name__ == "__main__":
    sys.exit(main())
