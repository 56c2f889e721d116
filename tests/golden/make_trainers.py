#!/usr/bin/env python3
"""Writes trainers/: checkpoints of small random models as other trainers keep them, each beside the same model as a
Hugging Face folder, with which the tests compare every weight.

    scripts/setup.sh --peer
    PYTHONPATH=.deps/peer python3 tests/golden/make_trainers.py      # rewrites tests/golden/trainers
    OLD_TORCH=FOLDER ...        # also dcp_2_1, by a torch 2.1 in FOLDER; without it, that folder is left as it is

    llama, gpt2, gpt2_deep      Hugging Face folders: untied with grouped queries; tied; tied, of four layers
    dcp_1                       llama by torch.distributed.checkpoint, one rank, under model.*, with optimizer states
    dcp_2                       llama by FSDP2 on two ranks, under state.model.*
    dcp_2_1                     gpt2 by torch 2.1, without a prefix
    titan                       llama under torchtitan's names, as DTensors that two ranks divide by rows and by columns
    torch_dist                  llama by megatron-core's dist_checkpointing, two tensor-parallel ranks, layers stacked
    torch_dist_numbered         gpt2 by the same, one rank, layers numbered
    ranks                       llama in Megatron-LM's older format, TP 2 and PP 2
    ranks_virtual               gpt2_deep in the same, PP 2 with two virtual stages each
    ranks_old                   gpt2 under the names of Megatron-LM's older GPT model, TP 2

Megatron's weights are put into models of megatron-core, whose parameters say along which dimension ranks divide them;
with one rank per model, the logits are compared with those of transformers.
"""
import argparse
import contextlib
import enum
import os
import pathlib
import random
import shutil
import subprocess
import sys
import unittest.mock
import warnings

import numpy
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

FOLDER = pathlib.Path("trainers")  # relative, since files hold the path under which they were written
VOCAB, PADDED = 21, 24
LLAMA = dict(hidden_size=12, num_attention_heads=4, num_key_value_heads=2, head_dim=6, intermediate_size=10,
             num_hidden_layers=2, max_position_embeddings=16, rms_norm_eps=1e-4, rope_theta=500.0,
             tie_word_embeddings=False)
GPT2 = dict(n_embd=6, n_head=2, n_inner=14, n_layer=2, n_positions=8, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            layer_norm_epsilon=1e-4)


# -- the models, by transformers

def hf_config(name):
    import transformers
    ids = dict(vocab_size=VOCAB, bos_token_id=None, eos_token_id=None)
    if name == "llama":
        return transformers.LlamaConfig(**LLAMA, **ids)
    deep = dict(n_layer=4, n_embd=4, n_inner=6) if name == "gpt2_deep" else {}
    return transformers.GPT2Config(**GPT2 | deep, **ids)


def make_models():
    import transformers
    transformers.logging.set_verbosity_error()
    generator = torch.Generator().manual_seed(5)
    for name in ("llama", "gpt2", "gpt2_deep"):
        model = transformers.AutoModelForCausalLM.from_config(hf_config(name), dtype=torch.float32)
        for key, parameter in model.named_parameters():
            is_norm = parameter.dim() == 1 and key.endswith("weight")
            parameter.data.copy_(0.2 * torch.randn(parameter.shape, generator=generator) + (1 if is_norm else 0))
        model.save_pretrained(FOLDER / name)
        (FOLDER / name / "generation_config.json").unlink(missing_ok=True)


def load_model(name):
    import transformers
    return transformers.AutoModelForCausalLM.from_pretrained(FOLDER / name, dtype=torch.float32).eval()


def copy_config(model, target):
    shutil.copy(FOLDER / model / "config.json", FOLDER / target)


# -- torch.distributed.checkpoint

def make_dcp_1(rank):
    weights = load_model("llama").state_dict()
    adam = {f"state.{key}.exp_avg": torch.ones(2) for key in list(weights)[:2]}
    dcp.save({"model": weights, "optimizer": adam, "step": 7, "note": {"text": "x"}}, checkpoint_id=FOLDER / "dcp_1")
    copy_config("llama", "dcp_1")


def make_dcp_2(rank):
    from torch.distributed.checkpoint.state_dict import get_model_state_dict
    from torch.distributed.fsdp import fully_shard
    mesh = dist.init_device_mesh("cpu", (2,))
    model = load_model("llama").bfloat16()
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    dcp.save({"state": {"model": get_model_state_dict(model)}}, checkpoint_id=FOLDER / "dcp_2")


def make_dcp_2_1(rank):
    """Run by an older torch, which has no transformers; the weights come from a file."""
    state = torch.load(os.environ["WEIGHTS"])
    warnings.simplefilter("ignore")
    dcp.save_state_dict(state, storage_writer=dcp.FileSystemWriter(FOLDER / "dcp_2_1"))


def make_titan(rank):
    from torch.distributed.tensor import Shard, distribute_tensor
    mesh = dist.init_device_mesh("cpu", (2,))
    state, head = {}, LLAMA["head_dim"]
    names = {"model.embed_tokens.": "tok_embeddings.", "model.": "", "lm_head.": "output.", "self_attn.": "attention.",
             "q_proj": "wq", "k_proj": "wk", "v_proj": "wv", "o_proj": "wo", "mlp.": "feed_forward.", "gate_proj": "w1",
             "down_proj": "w2", "up_proj": "w3", "input_layernorm": "attention_norm",
             "post_attention_layernorm": "ffn_norm"}
    for index, (key, value) in enumerate(load_model("llama").state_dict().items()):
        if "q_proj" in key or "k_proj" in key:  # the inverse of the permutation in transformers' conversion from Meta's
            rows, columns = value.shape
            value = value.view(rows // head, 2, head // 2, columns).transpose(1, 2).reshape(rows, columns)
        for old, new in names.items():
            key = key.replace(old, new)
        shard = Shard(1 if value.dim() == 2 and index % 2 else 0)
        state[key] = distribute_tensor(value.contiguous(), mesh, [shard])
    state["freqs_cis"] = torch.zeros(2)
    dcp.save(state | {"train_state": {"step": torch.tensor(3)}}, checkpoint_id=FOLDER / "titan")
    copy_config("llama", "titan")


# -- Megatron-LM

class Backend(enum.Enum):  # arguments hold enumerators of classes that no reader has
    auto = 5


def megatron_args(name, tp, pp):
    common = dict(padded_vocab_size=PADDED, tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp,
                  params_dtype=torch.float32, attention_backend=Backend.auto, num_experts=None, qk_layernorm=False,
                  data_path=["0.5", "a"], lr=1e-4, hidden_dropout=0.0, attention_dropout=0.0, init_method_std=0.02,
                  consumed_train_samples=3200, num_floating_point_operations_so_far=10**21, softmax_type="vanilla")
    if name == "llama":
        return argparse.Namespace(
            num_layers=2, hidden_size=12, ffn_hidden_size=10, num_attention_heads=4, group_query_attention=True,
            num_query_groups=2, kv_channels=6, max_position_embeddings=16, position_embedding_type="rope",
            rotary_base=500, rotary_percent=1.0, rotary_interleaved=False, use_rope_scaling=False,
            normalization="RMSNorm", norm_epsilon=1e-4, swiglu=True, bias_gelu_fusion=False, add_bias_linear=False,
            untie_embeddings_and_output_weights=True, **common)
    config = hf_config(name)
    return argparse.Namespace(
        num_layers=config.n_layer, hidden_size=config.n_embd, ffn_hidden_size=config.n_inner,
        num_attention_heads=config.n_head, group_query_attention=False, num_query_groups=1,
        kv_channels=config.n_embd // config.n_head, max_position_embeddings=config.n_positions,
        position_embedding_type="learned_absolute", normalization="LayerNorm", norm_epsilon=1e-4, swiglu=False,
        bias_gelu_fusion=True, add_bias_linear=True, untie_embeddings_and_output_weights=False, **common)


def megatron_weights(name):
    """Whole tensors by the names of megatron-core's GPTModel with its local layers."""
    state, whole = load_model(name).state_dict(), {}

    def grouped(q, k, v, groups):
        """For each group of query heads: its queries, its key, its value."""
        parts = [part.view(groups, -1, *part.shape[1:]) for part in (q, k, v)]
        return torch.cat(parts, 1).reshape(-1, *q.shape[1:])

    def padded(table):
        return torch.cat([table, torch.full((PADDED - VOCAB, table.shape[1]), 9.0)])

    if name == "llama":
        whole["embedding.word_embeddings.weight"] = padded(state["model.embed_tokens.weight"])
        whole["output_layer.weight"] = padded(state["lm_head.weight"])
        whole["decoder.final_layernorm.weight"] = state["model.norm.weight"]
        for l in range(LLAMA["num_hidden_layers"]):
            hf, core = f"model.layers.{l}.", f"decoder.layers.{l}."
            whole[core + "input_layernorm.weight"] = state[hf + "input_layernorm.weight"]
            whole[core + "pre_mlp_layernorm.weight"] = state[hf + "post_attention_layernorm.weight"]
            whole[core + "self_attention.linear_qkv.weight"] = grouped(
                *(state[f"{hf}self_attn.{part}_proj.weight"] for part in "qkv"), LLAMA["num_key_value_heads"])
            whole[core + "self_attention.linear_proj.weight"] = state[hf + "self_attn.o_proj.weight"]
            whole[core + "mlp.linear_fc1.weight"] = torch.cat(
                [state[hf + "mlp.gate_proj.weight"], state[hf + "mlp.up_proj.weight"]])
            whole[core + "mlp.linear_fc2.weight"] = state[hf + "mlp.down_proj.weight"]
        return whole
    config = hf_config(name)
    whole["embedding.word_embeddings.weight"] = padded(state["transformer.wte.weight"])
    whole["embedding.position_embeddings.weight"] = state["transformer.wpe.weight"]
    for kind in ("weight", "bias"):
        whole[f"decoder.final_layernorm.{kind}"] = state[f"transformer.ln_f.{kind}"]
        for l in range(config.n_layer):
            hf, core = f"transformer.h.{l}.", f"decoder.layers.{l}."
            linear = lambda part: state[f"{hf}{part}.{kind}"].T.contiguous()  # Conv1D is [in, out]
            whole[f"{core}input_layernorm.{kind}"] = state[f"{hf}ln_1.{kind}"]
            whole[f"{core}pre_mlp_layernorm.{kind}"] = state[f"{hf}ln_2.{kind}"]
            whole[f"{core}self_attention.linear_qkv.{kind}"] = grouped(*linear("attn.c_attn").chunk(3), config.n_head)
            whole[f"{core}self_attention.linear_proj.{kind}"] = linear("attn.c_proj")
            whole[f"{core}mlp.linear_fc1.{kind}"] = linear("mlp.c_fc")
            whole[f"{core}mlp.linear_fc2.{kind}"] = linear("mlp.c_proj")
    return whole


def megatron_model(name, tp, pp, vp=None):
    """This rank's models of megatron-core, one per virtual stage, with their part of the weights."""
    from megatron.core import parallel_state
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer import TransformerConfig
    from megatron.core.transformer.transformer_layer import get_transformer_layer_offset
    parallel_state.initialize_model_parallel(tp, pp, vp)
    args, llama = megatron_args(name, tp, pp), name == "llama"
    config = TransformerConfig(
        num_layers=args.num_layers, hidden_size=args.hidden_size, num_attention_heads=args.num_attention_heads,
        num_query_groups=args.num_query_groups if llama else None, kv_channels=args.kv_channels,
        ffn_hidden_size=args.ffn_hidden_size, normalization=args.normalization, layernorm_epsilon=args.norm_epsilon,
        gated_linear_unit=args.swiglu, activation_func=torch.nn.functional.silu if llama else torch.nn.functional.gelu,
        bias_activation_fusion=args.bias_gelu_fusion, add_bias_linear=args.add_bias_linear, hidden_dropout=0.0,
        attention_dropout=0.0, use_cpu_initialization=True, persist_layer_norm=False, tensor_model_parallel_size=tp,
        pipeline_model_parallel_size=pp, virtual_pipeline_model_parallel_size=vp, pipeline_dtype=torch.float32)
    spec = get_gpt_layer_local_spec(normalization=args.normalization)
    whole, rank = megatron_weights(name), parallel_state.get_tensor_model_parallel_rank()
    models = []
    for v in range(vp or 1):
        stage = {} if vp is None else {"vp_stage": v}
        with unittest.mock.patch.object(torch.Tensor, "cuda", lambda self: self):  # of the tied table
            model = GPTModel(config, spec, vocab_size=PADDED, max_sequence_length=args.max_position_embeddings,
                             pre_process=parallel_state.is_pipeline_first_stage(ignore_virtual=False, **stage),
                             post_process=parallel_state.is_pipeline_last_stage(ignore_virtual=False, **stage),
                             position_embedding_type=args.position_embedding_type, rotary_base=500,
                             share_embeddings_and_output_weights=not llama, **stage)
        first = get_transformer_layer_offset(config, v if vp else None)
        for key, parameter in model.named_parameters():
            source = key
            if key.startswith("decoder.layers."):
                parts = key.split(".")
                source = ".".join(parts[:2] + [str(int(parts[2]) + first)] + parts[3:])
            if key == "output_layer.weight" and not llama:  # the last stage's copy of the tied table
                source = "embedding.word_embeddings.weight"
            full = whole[source]
            if getattr(parameter, "tensor_model_parallel", False):
                halves = full.chunk(2) if llama and "linear_fc1" in key else [full]
                full = torch.cat([half.chunk(tp, parameter.partition_dim)[rank] for half in halves],
                                 parameter.partition_dim)
            with torch.no_grad():
                parameter.copy_(full)
        models.append(model)
    return models, args


def compare_logits(name, model):
    """The model with all of its weights computes what transformers does."""
    tokens = torch.arange(7)[None] * 3 % VOCAB
    length = tokens.shape[1]
    mask = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)[None, None]
    from megatron.core import tensor_parallel
    tracker = tensor_parallel.get_cuda_rng_tracker()
    # megatron-core asks for the GPU of its rotary table and of dropout, also on the CPU and without dropout.
    with (torch.no_grad(), unittest.mock.patch.object(torch.cuda, "current_device", lambda: "cpu"),
          unittest.mock.patch.object(type(tracker), "fork", lambda self: contextlib.nullcontext())):
        found = model.eval()(tokens, torch.arange(length)[None], mask)[..., :VOCAB]
        expected = load_model(name)(tokens).logits
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    print(f"{name}: logits of megatron-core are those of transformers within {(found - expected).abs().max():.1e}")


def save_torch_dist(target, models, args, **metadata):
    from megatron.core import dist_checkpointing, parallel_state
    if dist.get_rank() == 0:
        (FOLDER / target / "iter_0000100").mkdir(parents=True)
        (FOLDER / target / "latest_checkpointed_iteration.txt").write_text("100")
    dist.barrier()
    metadata["dp_cp_group"] = parallel_state.get_data_parallel_group(with_context_parallel=True)
    with (unittest.mock.patch.object(torch.cuda, "synchronize", lambda: None),
          unittest.mock.patch.object(torch.cuda, "current_device", lambda: "cpu")):
        dist_checkpointing.save({"args": args, "checkpoint_version": 3.0, "iteration": 100,
                                 "model": models[0].sharded_state_dict(metadata=metadata)},
                                str(FOLDER / target / "iter_0000100"))


def make_torch_dist(rank):
    save_torch_dist("torch_dist", *megatron_model("llama", 2, 1))


def make_torch_dist_numbered(rank):
    models, args = megatron_model("gpt2", 1, 1)
    compare_logits("gpt2", models[0])
    save_torch_dist("torch_dist_numbered", models, args, singleton_local_shards=True)


def make_logits(rank):
    models, _ = megatron_model("llama", 1, 1)
    compare_logits("llama", models[0])


def rng_state():
    return [{"random_rng_state": random.Random(1).getstate(), "np_rng_state": numpy.random.RandomState(1).get_state(),
             "torch_rng_state": torch.zeros(16, dtype=torch.uint8), "rng_tracker_states": {}}]


def save_rank(target, args, entries):
    from megatron.core import parallel_state
    folder = f"mp_rank_{parallel_state.get_tensor_model_parallel_rank():02d}"
    if args.pipeline_model_parallel_size > 1:
        folder += f"_{parallel_state.get_pipeline_model_parallel_rank():03d}"
    path = FOLDER / target / "iter_0000100" / folder
    path.mkdir(parents=True)
    torch.save({"args": args, "checkpoint_version": 3.0, "iteration": 100, **entries, "rng_state": rng_state(),
                "num_floating_point_operations_so_far": 10**21}, path / "model_optim_rng.pt")
    if dist.get_rank() == 0:
        (FOLDER / target / "latest_checkpointed_iteration.txt").write_text("100\n")


def make_ranks(rank):
    models, args = megatron_model("llama", 2, 2)
    save_rank("ranks", args, {"model": models[0].state_dict()})


def make_ranks_virtual(rank):
    models, args = megatron_model("gpt2_deep", 1, 2, 2)
    save_rank("ranks_virtual", args, {f"model{v}": model.state_dict() for v, model in enumerate(models)})


def make_ranks_old(rank):
    models, args = megatron_model("gpt2", 2, 1)
    renamed = {"input_layernorm.": "input_norm.", "pre_mlp_layernorm.": "post_attention_norm.",
               "final_layernorm.": "final_norm.", "linear_qkv.": "query_key_value.", "linear_proj.": "dense.",
               "linear_fc1.": "dense_h_to_4h.", "linear_fc2.": "dense_4h_to_h."}
    embedding, encoder = {"word_embeddings": {}, "position_embeddings": {}}, {}
    for key, value in models[0].state_dict().items():
        if value is None or key.endswith("_extra_state"):
            continue
        parts = key.split(".")
        if parts[0] == "embedding":
            embedding[parts[1]][parts[2]] = value
        elif parts[0] == "decoder":
            for old, new in renamed.items():
                key = key.replace(old, new)
            encoder[key.removeprefix("decoder.")] = value
    save_rank("ranks_old", args, {"model": {"language_model": {"embedding": embedding, "encoder": encoder}}})


# -- ranks

JOBS = {"dcp_1": 1, "dcp_2": 2, "titan": 2, "logits": 1, "torch_dist": 2, "torch_dist_numbered": 1, "ranks": 4,
        "ranks_virtual": 2, "ranks_old": 2}


def main():
    torch.set_num_threads(1)
    script = pathlib.Path(__file__).resolve()
    os.chdir(script.parent)
    if len(sys.argv) > 1:
        dist.init_process_group("gloo")
        globals()[f"make_{sys.argv[1]}"](dist.get_rank())
        dist.destroy_process_group()
        return

    def run(job, ranks, environment):
        port = str(20000 + os.getpid() % 20000 + len(job))
        children = [subprocess.Popen([sys.executable, script, job],
                                     env=environment | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": str(r),
                                                        "WORLD_SIZE": str(ranks), "CUDA_DEVICE_MAX_CONNECTIONS": "1",
                                                        "PYTHONWARNINGS": "ignore"})
                    for r in range(ranks)]
        if any([child.wait() for child in children]):
            sys.exit(f"{job} failed")

    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.iterdir():
        if path.name != "dcp_2_1" or "OLD_TORCH" in os.environ:
            shutil.rmtree(path)
    make_models()
    for job, ranks in JOBS.items():
        run(job, ranks, dict(os.environ))
    if "OLD_TORCH" in os.environ:
        weights = FOLDER / "weights.pt"
        torch.save(load_model("gpt2").transformer.state_dict(), weights)
        run("dcp_2_1", 1, dict(os.environ, PYTHONPATH=os.environ["OLD_TORCH"], WEIGHTS=str(weights)))
        weights.unlink()
        copy_config("gpt2", "dcp_2_1")
    for folder in sorted(FOLDER.iterdir()):
        print(folder.name, sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()), "bytes")


if __name__ == "__main__":
    main()
