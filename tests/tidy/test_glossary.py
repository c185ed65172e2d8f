"""The glossary: in order, each word once, and our own words are really used."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "glossary.md").read_text()
ROWS = re.findall(r"^\| (.+?) \| (Kafka|kohort|Spark|sarama|ZooKeeper) \| (.+) \|$", TEXT, re.MULTILINE)
WORDS = [word for word, _, _ in ROWS]


def used_words() -> str:
    """All sources and their file names, with blanks for underscores and hyphens."""
    files = sorted(path for folder in ("src", "lab/src") for path in (ROOT / folder).rglob("*.py"))
    text = "\n".join(f"{path.stem}\n{path.read_text()}" for path in files)
    return re.sub(r"[_\-\s]+", " ", text).lower()


def test_words_are_in_the_order_of_the_alphabet():
    assert len(ROWS) > 100
    assert sorted(WORDS, key=str.lower) == WORDS


def test_each_word_stands_once_in_a_line_that_is_a_sentence():
    assert len(set(WORDS)) == len(WORDS)
    assert [word for word, _, meaning in ROWS if not meaning.endswith((".", ")"))] == []


def test_words_of_our_own_are_used_in_the_code():
    text = used_words()
    ours = [word for word, whose, _ in ROWS if whose == "kohort"]
    plain = {word: re.sub(r"[\s-]+", " ", word).lower() for word in ours}
    assert [word for word in ours if not re.search(rf"\b{plain[word]}", text)] == []
