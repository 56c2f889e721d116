"""What transformers, PEFT and PyTorch make of small random models: the other side of compare_hf.py.

Every function takes the model in float32 with plain attention. Token lists are Python lists; a document is one list,
an example a pair (prompt, completion) of lists.
"""
import copy
import json
import logging
import pathlib
import random
import shutil
import warnings

import peft
import tokenizers
import torch
import torch.nn.functional as F
import transformers
from transformers.convert_slow_tokenizer import bytes_to_unicode

warnings.filterwarnings("ignore")
logging.getLogger("transformers").setLevel(logging.ERROR)
transformers.logging.disable_progress_bar()

END_OF_DOCUMENT = "<|endoftext|>"
VOCABULARY = 307  # more than the tokenizer has
POSITIONS = 256
WORDS = "river stone light of the and walked over mountain slowly again".split()


def gpt2(**settings):
    return transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=POSITIONS, n_embd=48, n_layer=3, n_head=4,
                                   resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None,
                                   eos_token_id=None, **settings)


def llama(**settings):
    return transformers.LlamaConfig(vocab_size=VOCABULARY, max_position_embeddings=POSITIONS, num_hidden_layers=3,
                                    intermediate_size=72, bos_token_id=None, eos_token_id=None, **settings)


MODELS = {
    "GPT-2": gpt2(),
    "GPT-2, untied head": gpt2(n_inner=80, tie_word_embeddings=False),
    "Llama": llama(hidden_size=48, num_attention_heads=4, num_key_value_heads=4),
    "Llama, GQA, tied head": llama(hidden_size=48, num_attention_heads=6, num_key_value_heads=2,
                                   tie_word_embeddings=True),
    "Llama 3, GQA, wide heads, scaled rotation": llama(
        hidden_size=42, num_attention_heads=6, num_key_value_heads=3, head_dim=12,
        rope_parameters={"rope_type": "llama3", "rope_theta": 100.0, "factor": 8.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 2.0, "original_max_position_embeddings": 16}),
}
LORA_TARGETS = {
    "gpt2": ["c_attn", "c_proj", "c_fc"],
    "llama": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
}


def text(count, seed):
    """Documents of a few made-up words."""
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=generator.randint(3, 40))) + "." for _ in range(count)]


def prompts(count, seed):
    """Prompts with completions that say them backwards; lengths differ much."""
    generator = random.Random(seed)
    pairs = []
    for _ in range(count):
        words = generator.choices(WORDS, k=generator.randint(1, 9))
        pairs.append({"prompt": " ".join(words) + " ->", "completion": " " + " ".join(reversed(words))})
    return pairs


class Tokenizer:
    def __init__(self, path):
        self.tokenizer = tokenizers.Tokenizer.from_file(str(path))
        self.end = self.tokenizer.token_to_id(END_OF_DOCUMENT)
        self.byte_of = {character: byte for byte, character in bytes_to_unicode().items()}

    def encode(self, string):
        return self.tokenizer.encode(string, add_special_tokens=False).ids

    def document(self, string):
        return self.encode(string) + [self.end]

    def example(self, pair):
        return self.encode(pair["prompt"]), self.encode(pair["completion"]) + [self.end]

    def bytes(self, ids):
        """What the ids stand for, which need not be valid UTF-8; ids that the tokenizer has not stand for nothing."""
        pieces = [self.tokenizer.id_to_token(i) or "" for i in ids]
        return b"".join(bytes(self.byte_of[c] for c in piece) for piece in pieces)


def make_model(config, folder, dtype=torch.float32, seed=0):
    """A model with random values that leave nothing zero or one, saved into the folder."""
    model = transformers.AutoModelForCausalLM.from_config(copy.deepcopy(config), dtype=torch.float32)
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        is_norm = parameter.dim() == 1 and name.endswith("weight")
        values = 0.1 * torch.randn(parameter.shape, generator=generator)
        parameter.data.copy_(values + 1 if is_norm else values)
    model.to(dtype).save_pretrained(folder)


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager",
                                                             dtype=torch.float32).eval()


def add_special_tokens(folder, end):
    """What a published folder holds next to its tokenizer: special tokens, a chat template, two ids that end a text."""
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"),
                                                     eos_token="<|endoftext|>", bos_token="<|endoftext|>")
    tokenizer.chat_template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    tokenizer.save_pretrained(folder)
    generation = transformers.GenerationConfig(bos_token_id=end, eos_token_id=stop_ids(end))
    generation.save_pretrained(folder)


def stop_ids(end):
    return [end, VOCABULARY - 1]


def special_tokens(folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    generation = transformers.GenerationConfig.from_pretrained(folder)
    return {"class": type(tokenizer).__name__, "eos_token": tokenizer.eos_token, "bos_token": tokenizer.bos_token,
            "chat": tokenizer.apply_chat_template([{"role": "user", "content": "hello"}], tokenize=False),
            "ids": tokenizer("a river and a stone")["input_ids"], "stop": generation.eos_token_id,
            "start": generation.bos_token_id}


def save_shards(source, folder):
    """In files of at most 60 kB with an index."""
    load(source).save_pretrained(folder, max_shard_size="60KB")


def save_pickle(source, folder):
    """As pytorch_model.bin, where a tied matrix has two names and one storage."""
    folder.mkdir()
    shutil.copy(source / "config.json", folder)
    torch.save(load(source).state_dict(), folder / "pytorch_model.bin")


def freeze(model):
    """Embeddings and the first layer: what our patterns embedding.* and layers.0.* name."""
    for name, parameter in model.named_parameters():
        if any(part in name for part in (".wte.", ".wpe.", ".embed_tokens.", ".h.0.", ".layers.0.")):
            parameter.requires_grad_(False)


def load_adapter(base, adapter, trainable=False):
    return peft.PeftModel.from_pretrained(load(base), adapter, is_trainable=trainable)


def random_tokens(samples, length):
    return torch.randint(VOCABULARY, (samples, length), generator=torch.Generator().manual_seed(5))


@torch.no_grad()
def logits(model):
    return model(random_tokens(3, 50), use_cache=False).logits


def loss_sum(model, inputs, labels):
    """Sum over the labels that are not -1, and their number."""
    output = model(torch.tensor([inputs]), use_cache=False).logits[0]
    labels = torch.tensor(labels)
    return F.cross_entropy(output, labels, ignore_index=-1, reduction="sum"), int((labels >= 0).sum())


def example_parts(example):
    prompt, completion = example
    tokens = prompt + completion
    return tokens[:-1], [-1] * (len(prompt) - 1) + completion


def mean_loss(model, parts):
    sums, counts = zip(*(loss_sum(model, inputs, labels) for inputs, labels in parts))
    return sum(sums) / sum(counts)


@torch.no_grad()
def loss_of_documents(model, documents, window):
    """All documents end to end, cut into windows; mean loss and number of tokens."""
    tokens = [token for document in documents for token in document]
    parts = [(tokens[i:i + window][:len(tokens) - 1 - i], tokens[i + 1:i + 1 + window])
             for i in range(0, len(tokens) - 1, window)]
    return mean_loss(model, parts).item(), len(tokens) - 1


@torch.no_grad()
def loss_of_examples(model, examples):
    """Of the completions."""
    return mean_loss(model, map(example_parts, examples)).item(), sum(len(c) for _, c in examples)


def adamw(model, settings):
    """Decay of matrices and embeddings alone."""
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [{"params": [p for p in trained if p.dim() == 2], "weight_decay": settings["weight_decay"]},
              {"params": [p for p in trained if p.dim() == 1], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=settings["learning_rate"], betas=(settings["beta1"], settings["beta2"]),
                             eps=settings["epsilon"])


def sgd(model, settings):
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=settings["learning_rate"])


def train(model, examples, optimizer, steps, clip):
    """Steps on all examples at once; the loss before each. clip 0: none."""
    model.train()
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = mean_loss(model, map(example_parts, examples))
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], clip)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    return losses


@torch.no_grad()
def greedy(model, prompt, count, ends):
    """Up to `count` ids after the prompt, without the one of `ends` that ended them."""
    output = model.generate(torch.tensor([prompt]), max_new_tokens=count, do_sample=False, eos_token_id=ends,
                            pad_token_id=ends[0])
    ids = output[0, len(prompt):].tolist()
    return ids[:next((i for i, token in enumerate(ids) if token in ends), len(ids))]


def lora_targets(config):
    return LORA_TARGETS[config.model_type]


def write_json_lines(path, rows):
    pathlib.Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))
