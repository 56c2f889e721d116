#!/usr/bin/env python3
"""Turns the King James Bible, as Debian's `bible` prints it, into JSON lines: a document a chapter.

  bible -f gen1:1-rev22:21 | scripts/bible_to_jsonl.py > kjv.jsonl

Every input line is a verse, "1Sm3:10 And the LORD came, ...". The label is dropped and the verses of a chapter are
joined to prose: {"text": "In the beginning God created ..."}. Any other line is an error, as is an input of none.
"""
import itertools
import json
import re
import sys

VERSE = re.compile(r"(?P<chapter>\d?[A-Za-z]+\d+):\d+ +(?P<text>\S.*)")


def verses(lines):
    """Yields (chapter, text) of each line."""
    for number, line in enumerate(lines, 1):
        match = VERSE.fullmatch(line.strip())
        if not match:
            sys.exit(f"bible_to_jsonl: line {number}: expected a verse, 'Ge1:1 In the beginning', found {line!r}")
        yield match["chapter"], match["text"]


def main():
    documents = 0
    for _, chapter in itertools.groupby(verses(sys.stdin), key=lambda verse: verse[0]):
        print(json.dumps({"text": " ".join(text for _, text in chapter)}))
        documents += 1
    if documents == 0:
        sys.exit("bible_to_jsonl: no verse in the input: is the package bible-kjv-text installed?")


if __name__ == "__main__":
    main()
