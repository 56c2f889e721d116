#!/usr/bin/env python3
"""Writes a source file with the usage example at the top of each header that partita/partita.h and
partita/torch_modules.h include, so that the compiler checks them: tests/library/CMakeLists.txt builds it.

  tests/library/header_examples.py REPOSITORY OUT.cc

An example is the first block of comment lines that are indented by three spaces. Each becomes a function, whose errors
are reported at the lines of the header; the names that it uses and does not declare are in example_context.h.
"""
import pathlib
import re
import sys

root, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
parts = ['#include "tests/library/example_context.h"\n']
count = 0
all_names = "".join((root / "src/partita" / name).read_text() for name in ("partita.h", "torch_modules.h"))
for name in re.findall(r'#include "(partita/[^"]+)"', all_names):
    header = root / "src" / name
    lines = header.read_text().split("#pragma once")[0].splitlines()
    begin = next((i for i, line in enumerate(lines) if line.startswith("//   ")), None)
    if begin is None:
        continue
    end = next((i for i in range(begin, len(lines)) if not lines[i].startswith("//   ")), len(lines))
    body = [line[2:] if not re.fullmatch(r"\.\.\..*", line[2:].strip()) else "" for line in lines[begin:end]]
    text = "\n".join(body)
    function = f"example_{count}"
    if "int main()" in text:
        text = f"#line {begin + 1} \"{header}\"\n" + text.replace("int main()", f"void {function}()")
    else:
        text = f"void {function}() {{\n#line {begin + 1} \"{header}\"\n{text}\n}}"
    parts.append(f'namespace example_of_{re.sub(r"[^a-z0-9]", "_", name)} {{\n{text}\n}}\n')
    count += 1
if count < 20:
    sys.exit(f"{root}/src/partita: {count} headers with an example found, at least 20 expected")
out.write_text("using namespace partita;\n".join([parts[0], "\n".join(parts[1:])]))
