"""The glossary is sorted, has each term once, and lists only kohort terms that the code uses."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "glossary.md").read_text()
ROW = re.compile(r"^\| (.+?) \| (Kafka|kohort|Spark|sarama) \| (.+) \|$", re.MULTILINE)
ROWS = ROW.findall(TEXT)
WORDS = [word for word, _, _ in ROWS]
SECTIONS = [ROW.findall(section) for section in TEXT.split("\n## ")[1:]]


def used_words() -> str:
    """Return all sources and their file names, with blanks for underscores and hyphens."""
    files = sorted(path for folder in ("src", "lab/src") for path in (ROOT / folder).rglob("*.py"))
    text = "\n".join(f"{path.stem}\n{path.read_text()}" for path in files)
    return re.sub(r"[_\-\s]+", " ", text).lower()


def test_glossary_sections_are_sorted_by_term():
    assert 60 < len(ROWS) <= 100
    for section in SECTIONS:
        words = [word for word, _, _ in section]
        assert sorted(words, key=str.lower) == words


def test_glossary_terms_are_unique_and_meanings_end_with_a_period():
    assert len(set(WORDS)) == len(WORDS)
    assert [word for word, _, meaning in ROWS if not meaning.endswith((".", ")"))] == []


def test_kohort_terms_of_glossary_are_used_in_code():
    text = used_words()
    ours = [word for word, origin, _ in ROWS if origin == "kohort"]
    plain = {word: re.sub(r"[\s-]+", " ", word).lower() for word in ours}
    assert [word for word in ours if not re.search(rf"\b{plain[word]}", text)] == []
