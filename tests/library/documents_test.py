#!/usr/bin/env python3
"""Documents show the examples as they are: the code below a line <!-- examples/FILE --> equals that file.

  tests/library/documents_test.py REPOSITORY      # exit code 1 and a line for each that differs
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
slips, shown = [], set()
for document in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
    text = document.read_text()
    for match in re.finditer(r"<!-- (examples/\S+) -->\n+```\w*\n(.*?)```", text, re.DOTALL):
        shown.add(match[1])
        if match[2] != (root / match[1]).read_text():
            slips.append(f"{document.relative_to(root)}: {match[1]} is shown otherwise than it is")
    if text.count("<!-- examples/") != len(re.findall(r"<!-- examples/\S+ -->\n+```", text)):
        slips.append(f"{document.relative_to(root)}: an <!-- examples/ --> line has no code below it")
examples = {f"examples/{path.name}" for path in (root / "examples").glob("*.cc")}
slips += [f"docs/library.md or README.md: {name} is shown nowhere" for name in sorted(examples - shown)]
print("\n".join(slips) or f"{len(shown)} examples are shown as they are")
sys.exit(1 if slips else 0)
