#!/usr/bin/env python3
"""Writes blend.json: blends and their sample orders as megatron-core makes them.

    pip install megatron-core==0.16.1 && tests/golden/make_blend.py        # and torch, numpy
"""
import json
import pathlib
import random
import tempfile

import numpy
import torch
from megatron.core.datasets import helpers
from megatron.core.datasets.blended_megatron_dataset_builder import (
    BlendedMegatronDatasetBuilder, _get_size_per_split_per_dataset)
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
from megatron.core.datasets.utils import normalize


def blend_case(weights, samples):
    """What the builder and BlendedDataset do with weights, without datasets."""
    weights = normalize(weights)
    sizes = [s for s, in _get_size_per_split_per_dataset(weights, [samples])]
    asked = [s for s, in _get_size_per_split_per_dataset(weights, [samples], surplus=0.005)]
    size = sum(sizes)
    dataset, sample = numpy.zeros(size, dtype=numpy.int16), numpy.zeros(size, dtype=numpy.int64)
    helpers.build_blending_indices(dataset, sample, normalize(weights), len(weights), size, False)
    return {"size": size, "asked": asked, "dataset": dataset.tolist(), "sample": sample.tolist()}


class Tokenizer:
    eod, pad, vocab_size = 0, None, 100
    unique_identifiers = {"class": "none"}


def whole_case(folder, lengths, weights, samples, sequence_length, seed, split):
    """Token files of these sequence lengths, through the whole builder."""
    prefixes = []
    for d, of_dataset in enumerate(lengths):
        prefixes.append(str(folder / str(d)))
        builder = IndexedDatasetBuilder(prefixes[-1] + ".bin", dtype=numpy.uint16)
        for length in of_dataset:
            builder.add_document(torch.arange(1, length + 1, dtype=torch.int32), [length])
        builder.finalize(prefixes[-1] + ".idx")
    config = GPTDatasetConfig(
        random_seed=seed, sequence_length=sequence_length, blend=(prefixes, weights), split=split,
        path_to_cache=str(folder / "cache"), tokenizer=Tokenizer(), reset_position_ids=False,
        reset_attention_mask=False, eod_mask_loss=False)
    train = BlendedMegatronDatasetBuilder(GPTDataset, [samples, 0, 0], lambda: True, config).build()[0]
    return {"lengths": lengths, "weights": weights, "samples": samples, "sequence_length": sequence_length,
            "seed": seed, "split": split, "dataset": train.dataset_index.tolist(),
            "sample": train.dataset_sample_index.tolist(),
            "parts": [{"sequences": d.document_index.tolist(), "starts": d.sample_index.flatten().tolist(),
                       "shuffle": d.shuffle_index.tolist()} for d in train.datasets]}


def main():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    random.seed(6)
    blends = [{"weights": w, "samples": n, **blend_case(w, n)}
              for w, n in [([1.0], 7), ([0.7, 0.3], 97), ([1, 1, 1], 50), ([0.1, 0.2, 0.7], 101), ([3.5, 1e-3, 12], 77)]
              + [([random.uniform(0.01, 5) for _ in range(count)], 200) for count in (7, 8, 9, 15, 16, 23, 131)]]
    with tempfile.TemporaryDirectory() as folder:
        lengths = [[random.choice([0, 1, 5, 17, 40]) for _ in range(count)] + [40, 40]
                   for count in (23, 9, 41)]
        wholes = [whole_case(pathlib.Path(folder), lengths, weights, samples, sequence_length, seed, split)
                  for weights, samples, sequence_length, seed, split in [
                      ([0.5, 0.2, 0.3], 100, 7, 1234, "70,30,0"), ([0.05, 0.9, 0.05], 60, 12, 7, "80,20,0"),
                      ([2.0, 1.0, 4.0], 33, 5, 99, "100,0,0")]]
    text = json.dumps({"blends": blends, "wholes": wholes}, separators=(",", ":"))
    (pathlib.Path(__file__).parent / "blend.json").write_text(text.replace('{"weights"', '\n{"weights"') + "\n")


if __name__ == "__main__":
    main()
