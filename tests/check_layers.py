#!/usr/bin/env python3
"""Checks that each layer includes only itself and the layers that CMakeLists.txt lists for it, which stand above it.

  tests/check_layers.py [FOLDER]        # of the repository; exit code 1 and a line for every slip
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)

# partita_layer(NAME [TORCH] [LAYERS ...] [LIBRARIES ...]), in order.
listed: dict[str, set[str]] = {}
slips = []
for call in re.findall(r"^partita_layer\(([^)]*)\)", (root / "CMakeLists.txt").read_text(), re.MULTILINE):
    name, *words = call.split()
    layers = words[words.index("LAYERS") + 1:] if "LAYERS" in words else []
    layers = layers[:layers.index("LIBRARIES")] if "LIBRARIES" in layers else layers
    slips += [f"CMakeLists.txt: {name} lists {layer}, which does not stand above it"
              for layer in layers if layer not in listed]
    listed[name] = set(layers)
if not listed:
    sys.exit(f"{root}/CMakeLists.txt: no partita_layer(...) found")

includes = 0
for path in sorted((root / "src/partita").rglob("*")):
    if path.suffix not in (".h", ".cc", ".cu", ".cuh"):
        continue
    own = path.relative_to(root / "src/partita").parts[0]
    if own in ("partita.h", "torch_modules.h"):  # stand above all layers
        continue
    if own not in listed:
        slips.append(f"{path.relative_to(root)}: CMakeLists.txt has no partita_layer({own})")
        continue
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if match := re.match(r'\s*#\s*include\s*[<"]partita/(\w+)/', line):
            includes += 1
            if match[1] != own and match[1] not in listed[own]:
                slips.append(f"{path.relative_to(root)}:{number}: {own} includes {match[1]}, which CMakeLists.txt does "
                             f"not list for it: {', '.join(sorted(listed[own])) or 'nothing'}")
if includes == 0:
    sys.exit(f"{root}/src/partita: no include found")
print("\n".join(slips) or f"{includes} includes of {len(listed)} layers go upwards in the list only")
sys.exit(1 if slips else 0)
