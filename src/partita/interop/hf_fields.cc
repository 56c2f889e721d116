#include "partita/interop/hf_fields.h"

#include <array>
#include <vector>

#include "partita/interop/generation_config.h"

namespace partita::internal {
namespace {

constexpr FieldUse kRead = FieldUse::read, kHarmless = FieldUse::harmless, kOnly = FieldUse::only;
constexpr std::string_view kQuantized = "quantized weights are not read: dequantize them with transformers first";
constexpr std::string_view kOtherModel = "this is a feature of another kind of model";

// Common fields: transformers' base class, and what tools write into any config.json.
constexpr auto kCommon = std::to_array<KnownField>({
    {"model_type", kRead},
    {"architectures", kRead},
    {"vocab_size", kRead},
    {"initializer_range", kRead},
    {"tie_word_embeddings", kRead},
    {"bos_token_id", kRead},
    {"eos_token_id", kRead},
    {"pad_token_id", kRead},
    // Bookkeeping, training and execution settings, other heads.
    {"transformers_version", kHarmless},
    {"torch_dtype", kHarmless},  // each tensor has its own
    {"dtype", kHarmless},
    {"use_cache", kHarmless},
    {"gradient_checkpointing", kHarmless},
    {"return_dict", kHarmless},
    {"output_attentions", kHarmless},
    {"output_hidden_states", kHarmless},
    {"output_past", kHarmless},
    {"torchscript", kHarmless},
    {"use_bfloat16", kHarmless},
    {"id2label", kHarmless},
    {"label2id", kHarmless},
    {"num_labels", kHarmless},
    {"problem_type", kHarmless},
    {"finetuning_task", kHarmless},
    {"task_specific_params", kHarmless},
    {"tokenizer_class", kHarmless},
    {"prefix", kHarmless},
    {"sep_token_id", kHarmless},
    {"attn_implementation", kHarmless},
    {"_attn_implementation", kHarmless},
    {"_attn_implementation_autoset", kHarmless},
    {"experts_implementation", kHarmless},
    {"chunk_size_feed_forward", kHarmless},  // the same matmul in chunks
    {"tie_last_hidden_states", kHarmless},   // concerns the returned list of hidden states
    {"tie_encoder_decoder", kHarmless},      // no encoder here
    {"auto_map", kHarmless},
    {"_name_or_path", kHarmless},
    {"name_or_path", kHarmless},
    {"_commit_hash", kHarmless},
    {"is_decoder", kHarmless},
    {"transformers.js_config", kHarmless},
    {"unsloth_version", kHarmless},
    {"unsloth_fixed", kHarmless},
    {"is_llama_config", kHarmless},
    // Fields that would change the model's function.
    {"is_encoder_decoder", kOnly, "false", kOtherModel},
    {"add_cross_attention", kOnly, "false", kOtherModel},
    {"cross_attention_hidden_size", kOnly, "null", kOtherModel},
    {"pruned_heads", kOnly, "false", "pruned heads are not built"},
    {"quantization_config", kOnly, "false", kQuantized},
    {"compression_config", kOnly, "false", kQuantized},
    {"quantization", kOnly, "false", kQuantized},  // MLX
    {"per_layer_config", kOnly, "false", "all layers have one shape here"},
    {"sliding_window", kOnly, "false", "attention to a window is not built"},
    {"use_sliding_window", kOnly, "false", "attention to a window is not built"},
    {"attention_chunk_size", kOnly, "false", "attention within chunks is not built"},
    {"layer_types", kOnly, "false", kOtherModel},
    {"attention_multiplier", kOnly, "1.0", kOtherModel},
    {"embedding_multiplier", kOnly, "1.0", kOtherModel},
    {"residual_multiplier", kOnly, "1.0", kOtherModel},
    {"logits_scaling", kOnly, "1.0", kOtherModel},
    {"logit_scale", kOnly, "1.0", kOtherModel},
    {"logit_softcap", kOnly, "null", kOtherModel},
    {"final_logit_softcapping", kOnly, "null", kOtherModel},
    {"attn_logit_softcapping", kOnly, "null", kOtherModel},
    {"query_pre_attn_scalar", kOnly, "null", kOtherModel},
    {"num_local_experts", kOnly, "null", kOtherModel},
    {"num_experts", kOnly, "null", kOtherModel},
    {"n_routed_experts", kOnly, "null", kOtherModel},
    {"moe_intermediate_size", kOnly, "null", kOtherModel},
    {"no_rope_layers", kOnly, "false", kOtherModel},
    {"use_qk_norm", kOnly, "false", kOtherModel},
    {"qk_layernorm", kOnly, "false", kOtherModel},
    {"use_parallel_residual", kOnly, "false", kOtherModel},
    {"alibi", kOnly, "false", kOtherModel},
    {"multi_query", kOnly, "false", kOtherModel},
});

constexpr auto kGpt2 = std::to_array<KnownField>({
    {"n_positions", kRead},
    {"n_embd", kRead},
    {"n_layer", kRead},
    {"n_head", kRead},
    {"n_inner", kRead},
    // Aliases of the four above (transformers' attribute_map).
    {"max_position_embeddings", kRead},
    {"hidden_size", kRead},
    {"num_hidden_layers", kRead},
    {"num_attention_heads", kRead},
    {"activation_function", kRead},
    {"resid_pdrop", kRead},
    {"embd_pdrop", kRead},
    {"attn_pdrop", kRead},
    {"layer_norm_epsilon", kRead},
    {"scale_attn_weights", kOnly, "true", "scores are divided by the root of the head's size here"},
    {"scale_attn_by_inverse_layer_idx", kOnly, "false", "it divides the scores of each layer by its number"},
    // Attention in fp32 under mixed precision. Probabilities are fp32 here too, but the order of operations differs.
    {"reorder_and_upcast_attn", kOnly, "false", "attention is computed in another order here"},
    // Size of the causal mask in old versions; summary head of another model.
    {"n_ctx", kHarmless},
    {"summary_type", kHarmless},
    {"summary_use_proj", kHarmless},
    {"summary_activation", kHarmless},
    {"summary_first_dropout", kHarmless},
    {"summary_proj_to_labels", kHarmless},
    {"predict_special_tokens", kHarmless},
});

constexpr auto kLlama = std::to_array<KnownField>({
    {"max_position_embeddings", kRead},
    {"hidden_size", kRead},
    {"num_hidden_layers", kRead},
    {"num_attention_heads", kRead},
    {"num_key_value_heads", kRead},
    {"head_dim", kRead},
    {"intermediate_size", kRead},
    {"hidden_act", kRead},
    {"attention_dropout", kRead},
    {"rms_norm_eps", kRead},
    {"rope_theta", kRead},
    {"rope_scaling", kRead},
    {"rope_parameters", kRead},
    {"attention_bias", kOnly, "false", "Llama's linears have no bias here"},
    {"mlp_bias", kOnly, "false", "Llama's linears have no bias here"},
    {"partial_rotary_factor", kOnly, "1.0", "whole heads are rotated here"},
    {"rope_interleaved", kOnly, "false", "the two halves of a head are rotated here, as in transformers"},
    // Slicing of matmuls for tensor parallelism, with the same result; an older max_position_embeddings.
    {"pretraining_tp", kHarmless},
    {"max_sequence_length", kHarmless},
});

constexpr auto kRope = std::to_array<KnownField>({
    {"rope_type", kRead},
    {"type", kRead},  // name of rope_type until transformers 4.43
    {"rope_theta", kRead},
    {"factor", kRead},
    {"low_freq_factor", kRead},
    {"high_freq_factor", kRead},
    {"original_max_position_embeddings", kRead},
    {"partial_rotary_factor", kOnly, "1.0", "whole heads are rotated here"},
    {"attention_factor", kOnly, "null", "it is of the rope_type yarn or longrope"},
    {"beta_fast", kOnly, "null", "it is of the rope_type yarn"},
    {"beta_slow", kOnly, "null", "it is of the rope_type yarn"},
    {"mscale", kOnly, "null", "it is of the rope_type yarn"},
    {"mscale_all_dim", kOnly, "null", "it is of the rope_type yarn"},
    {"truncate", kOnly, "null", "it is of the rope_type yarn"},
    {"mrope_section", kOnly, "null", "it is of models that see pictures"},
    {"short_factor", kOnly, "null", "it is of the rope_type longrope"},
    {"long_factor", kOnly, "null", "it is of the rope_type longrope"},
});

// Old files also hold the fields of generation_config.json, which transformers 5 ignores.
std::vector<KnownField> with_generation(std::span<const KnownField> own) {
  std::vector<KnownField> fields(own.begin(), own.end());
  fields.insert(fields.end(), kCommon.begin(), kCommon.end());
  for (const KnownField& field : generation_fields())
    if (find_field(fields, field.name) == nullptr) fields.push_back({field.name, kHarmless});
  return fields;
}

}  // namespace

std::span<const KnownField> hf_fields(ModelKind kind) {
  static const std::vector<KnownField> gpt2 = with_generation(kGpt2), llama = with_generation(kLlama);
  return kind == ModelKind::gpt2 ? gpt2 : llama;
}

std::span<const KnownField> hf_rope_fields() { return kRope; }

}  // namespace partita::internal
