#!/usr/bin/env python3
"""Writes tokenizer_fields.json: the components that a tokenizer.json of the `tokenizers` library may have, with the
fields of each as the library writes them, and the fields of tokenizer_config.json that `transformers` knows.

  PYTHONPATH=.deps/peer python3 tests/golden/make_tokenizer_fields.py     # tokenizers 0.23, transformers 5.24
"""
import inspect
import json
import pathlib

import tokenizers
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

# Arguments of those that have no defaults.
ARGUMENTS = {
    ("normalizers", "Replace"): ("a", "b"),
    ("normalizers", "Prepend"): ("a",),
    ("normalizers", "Sequence"): ([],),
    ("normalizers", "Precompiled"): None,  # needs a table; its only field is precompiled_charsmap
    ("pre_tokenizers", "Split"): ("a", "isolated"),
    ("pre_tokenizers", "CharDelimiterSplit"): ("a",),
    ("pre_tokenizers", "Sequence"): ([],),
    ("decoders", "Replace"): ("a", "b"),
    ("decoders", "Sequence"): ([],),
    ("decoders", "Strip"): (" ", 1, 0),
    ("processors", "BertProcessing"): (("a", 0), ("b", 1)),
    ("processors", "RobertaProcessing"): (("a", 0), ("b", 1)),
    ("processors", "Sequence"): ([],),
}
SECTIONS = {
    "normalizers": (normalizers, "normalizer"),
    "pre_tokenizers": (pre_tokenizers, "pre_tokenizer"),
    "decoders": (decoders, "decoder"),
    "processors": (processors, "post_processor"),
}


def components(module):
    base = {"Normalizer", "PreTokenizer", "Decoder", "PostProcessor", "Model"}
    for name, item in vars(module).items():
        if inspect.isclass(item) and name not in base and item.__module__.startswith("tokenizers"):
            yield name, item


def written(**parts):
    tokenizer = Tokenizer(models.BPE())
    for name, value in parts.items():
        setattr(tokenizer, name, value)
    return json.loads(tokenizer.to_str())


def main():
    out = {"tokenizers": tokenizers.__version__, "transformers": transformers.__version__, "components": {}}
    for section, (module, attribute) in SECTIONS.items():
        found = out["components"][attribute] = {}
        for name, item in components(module):
            arguments = ARGUMENTS.get((section, name), ())
            if arguments is None or name == "DecodeStream":
                continue
            part = written(**{attribute: item(*arguments)})[attribute]
            found[part["type"]] = part
    found = out["components"]["model"] = {}
    for name, item in components(models):
        model = json.loads(Tokenizer(item()).to_str())["model"]
        found[model["type"]] = model
    tokenizer = Tokenizer(models.BPE())
    tokenizer.add_special_tokens(["<s>"])
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding()
    whole = json.loads(tokenizer.to_str())
    out["root"] = sorted(whole)
    out["added_token"] = sorted(whole["added_tokens"][0])
    source = inspect.getsource(PreTrainedTokenizerBase.__init__)
    source += inspect.getsource(transformers.TokenizersBackend.__init__)
    import re
    out["config"] = sorted(set(re.findall(r'kwargs\.(?:pop|get|setdefault)\(\s*"(\w+)"', source))
                           | set(PreTrainedTokenizerBase.SPECIAL_TOKENS_ATTRIBUTES))
    path = pathlib.Path(__file__).with_name("tokenizer_fields.json")
    path.write_text(json.dumps(out, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
