"""Prints what TensorBoard itself reads from event files, as JSON: {"scalars": {tag: [[step, value]...]},
"texts": {tag: [[step, text]...]}, "plugins": {tag: name}}.

    python3 tests/train/read_tensorboard.py RUN/tensorboard

Exits with 77 where the package tensorboard is missing (`make test` installs it into .deps/python where it can).
"""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / ".deps" / "python"))
try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as error:
    print(f"no tensorboard: {error}", file=sys.stderr)
    sys.exit(77)


def main() -> None:
    events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    tags = events.Tags()
    scalars = {tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in tags["scalars"]}
    texts = {
        tag: [[e.step, e.tensor_proto.string_val[0].decode()] for e in events.Tensors(tag)] for tag in tags["tensors"]
    }
    plugins = {tag: events.SummaryMetadata(tag).plugin_data.plugin_name for tag in tags["tensors"]}
    print(json.dumps({"scalars": scalars, "texts": texts, "plugins": plugins}))


main()
