#include "planner/checks/supported_fields.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "layers/attention/block_expansion.h"
#include "layers/rules/spec_error.h"
#include "planner/spec/file_formats.h"

namespace adjoin {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// By message, the fields that are built. A message that is not listed is its layer's rule's to check.
const std::map<std::string, std::set<std::string>>& SupportedFields() {
  static const auto* fields = new std::map<std::string, std::set<std::string>>{
      {"JobSpec",
       {"name", "kind", "ranks", "seed", "layout", "layer", "loss", "dataset", "train", "predict", "evaluate", "weights",
        "precision", "output_dir", "compare_executions", "verify", "checkpoint", "restart", "resources"}},
      {"LayoutSpec", {"name", "rank", "partition", "mesh", "sbp", "cut"}},
      {"Axis", {"name", "size"}},
      {"Cut", {"dim", "size"}},
      {"Layer", {"name", "input", "x", "w", "y", "home", "owner", "frozen", "init", "recompute"}},
      {"Init", {"kind", "gain", "value", "values"}},
      {"WindowSpec", {"kernel", "stride", "dilation", "pad_lo", "pad_hi", "boundary"}},
      {"Conv", {"window", "out_channels", "groups", "bias", "transposed", "output_padding"}},
      {"Pool",
       {"window", "mode", "ceil_mode", "count_include_pad", "divisor_override", "adaptive_size", "lp",
        "return_indices"}},
      {"Linear", {"out_features", "bias"}},
      {"Dropout", {"p", "channel"}},
      {"Noise", {"std", "multiplicative"}},
      {"Embedding", {"num_embeddings", "dim", "padding_index"}},
      {"Position", {"kind"}},
      {"Tokens", {"count"}},
      {"Upsample", {"mode", "size", "scale", "align_corners"}},
      {"Activation", {"fn", "arg"}},
      {"WindowAttention", {"heads", "window", "shift", "bias", "dropout"}},
      {"Transformer",
       {"heads", "hidden", "norm_first", "activation", "dropout", "causal", "eps", "window", "shift"}},
      {"Attention", {"heads", "causal", "bias", "dropout"}},
      {"Loss",
       {"kind", "input", "target", "weight", "reduction", "class_weight", "ignore_index", "label_smoothing", "delta",
        "pos_weight", "log_input", "full", "eps", "log_target", "smooth"}},
      {"Dataset", {"name", "field", "limit", "shuffle", "blocks", "augment"}},
      {"Field", {"name", "synthetic", "mean", "std", "scale", "dtype", "shape", "remap"}},  // and the data formats
      {"File", {"path", "object"}},
      {"Synthetic", {"kind", "samples", "low", "high"}},
      {"Blocks", {"size", "per_epoch"}},
      {"Train",
       {"dataset", "batch", "epochs", "steps", "microbatches", "drop_last", "clip_norm", "optimizer", "schedule",
        "validate_on", "validate_every", "early_stop"}},
      {"EarlyStop", {"patience", "min_delta", "metric"}},
      {"Optimizer", {"sgd", "adam"}},
      {"Adam", {"lr", "beta1", "beta2", "eps", "weight_decay", "decoupled"}},
      {"Phase", {"shape", "steps", "from", "to"}},
      {"Sgd", {"lr", "momentum", "dampening", "weight_decay", "nesterov"}},
      {"Predict", {"dataset", "input", "format", "batch", "classes"}},
      {"Evaluate", {"dataset", "metric", "batch", "range"}},
      {"Verify", {"ranks", "tolerance", "steps"}},
      {"Weights", {"init_from", "strict", "from_output"}},
      {"Checkpoint", {"dir", "every_steps", "every_minutes", "keep_last", "keep_best", "resume_from"}},
      {"Restart", {"max_restarts", "backoff_s", "on"}},
      {"Resources", {"memory_bytes", "max_ranks_per_node", "node_label", "max_hours"}},
      {"Precision", {"compute", "params"}},
  };
  return *fields;
}

bool IsSupported(const FieldDescriptor& field, const LayerRules& rules) {
  const bool is_layer_op = field.containing_oneof() != nullptr && field.containing_type() == Layer::descriptor();
  // Whether a rule for Custom.type exists is said with the known types' names, elsewhere.
  if (is_layer_op) return field.name() == "custom" || IsBlock(field.name()) || rules.Find(field.name()) != nullptr;
  if (field.containing_type() == Field::descriptor() && FindFileFormat(field.name()) != nullptr) return true;
  const auto known = SupportedFields().find(field.containing_type()->name());
  return known == SupportedFields().end() || known->second.count(field.name()) > 0;
}

// `shown`: the path as an error says it, from the layer, data set, ... on: that one is named before the error.
absl::Status Check(const Message& message, const LayerRules& rules, absl::string_view shown) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string path = absl::StrCat(shown, shown.empty() ? "" : ".", field->name());
    if (!IsSupported(*field, rules)) {
      return AtField(absl::StrCat(field->name(), field->is_repeated() ? "[0]" : ""), NotSupportedYet(path));
    }
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) continue;
    const auto* reflection = message.GetReflection();
    const int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const Message& inner = field->is_repeated() ? reflection->GetRepeatedMessage(message, field, i)
                                                  : reflection->GetMessage(message, field);
      const std::string index = field->is_repeated() ? absl::StrCat("[", i, "]") : "";
      ADJOIN_RETURN_IF_ERROR(AtField(absl::StrCat(field->name(), index),
                                     Check(inner, rules, field->is_repeated() ? "" : absl::string_view(path))));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSupportedFields(const JobSpec& spec, const LayerRules& rules) { return Check(spec, rules, ""); }

}  // namespace adjoin
