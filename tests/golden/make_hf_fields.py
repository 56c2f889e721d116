#!/usr/bin/env python3
"""Writes hf_fields.json: every field, with its default, of the configuration files that transformers and PEFT write.

  PYTHONPATH=.deps/peer tests/golden/make_hf_fields.py            # tests/golden/hf_fields.json
  PYTHONPATH=.deps/peer tests/golden/make_hf_fields.py --check    # code 1 if the installed versions have other fields

tests/interop/field_lists_test.cc asserts that each of them is on a list of ours (interop/hf_fields.h, peft_config.h,
generation_config.h), and that a file with all defaults is read without a warning.
"""
import dataclasses
import json
import pathlib
import sys

import peft
import transformers
from transformers.modeling_rope_utils import RopeParameters

FILE = pathlib.Path(__file__).resolve().parent / "hf_fields.json"
# Class attributes that describe the class and are never written into a file.
NOT_WRITTEN = {"base_config_key"}


def config_fields(config_class):
    """Those of a configuration, with what it takes under another name, as a file may hold them."""
    config = config_class()
    fields = {f.name: getattr(config, f.name, None) for f in dataclasses.fields(config_class)} | config.to_dict()
    other_names = {name: fields.get(own) for name, own in config_class.attribute_map.items()}
    return plain({k: v for k, v in (fields | other_names).items() if k not in NOT_WRITTEN})


def generation_fields():
    config = transformers.GenerationConfig()
    return plain({k: v for k, v in vars(config).items()} | config.to_dict())


def peft_fields():
    config = peft.LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj"])
    return plain({f.name: getattr(config, f.name) for f in dataclasses.fields(peft.LoraConfig)} | config.to_dict())


def plain(fields):
    """What json.dumps takes: sets as lists, enumerations as texts, objects as their fields."""
    def convert(value):
        if isinstance(value, (set, frozenset)):
            return sorted(value)
        if dataclasses.is_dataclass(value):
            return dataclasses.asdict(value)
        return str(getattr(value, "value", value))
    return json.loads(json.dumps(fields, default=convert, sort_keys=True, allow_nan=False))


def main():
    found = {
        "versions": {"transformers": transformers.__version__, "peft": peft.__version__},
        "GPT2Config": config_fields(transformers.GPT2Config),
        "LlamaConfig": config_fields(transformers.LlamaConfig),
        "RopeParameters": {name: None for name in RopeParameters.__annotations__},
        "GenerationConfig": generation_fields(),
        "LoraConfig": peft_fields(),
    }
    if sys.argv[1:] != ["--check"]:
        FILE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        return 0
    golden, code = json.loads(FILE.read_text()), 0
    for kind in found:
        if kind == "versions":
            continue
        for name in sorted(found[kind].keys() - golden[kind].keys()):
            print(f"{kind}.{name} is new in {found['versions']}: put it on a list and run {sys.argv[0]}")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
