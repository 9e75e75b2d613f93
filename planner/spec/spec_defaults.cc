#include "planner/spec/spec_defaults.h"

#include <algorithm>
#include <string>

#include <google/protobuf/text_format.h>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace adjoin {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

constexpr char kFloat[] = "float32";
constexpr double kRootOfTwo = 1.4142135623730951;
constexpr uint64_t kMostRanks = 100000;  // of a layout, whose ranks are written out

// Lists of which one value stands for any number of equal ones.
struct PerDim {
  const char* message;
  const char* field;
};
constexpr PerDim kPerDim[] = {{"WindowSpec", "kernel"},
                              {"WindowSpec", "stride"},
                              {"WindowSpec", "dilation"},
                              {"WindowSpec", "pad_lo"},
                              {"WindowSpec", "pad_hi"},
                              {"Conv", "output_padding"},
                              {"Pool", "adaptive_size"},
                              {"Upsample", "size"},
                              {"Upsample", "scale"},
                              {"WindowAttention", "window"},
                              {"WindowAttention", "shift"},
                              {"Transformer", "window"},
                              {"Transformer", "shift"},
                              {"Field", "mean"},
                              {"Field", "std"},
                              {"Loss", "class_weight"},
                              {"Loss", "pos_weight"}};

std::string PrintedValue(const Message& message, const FieldDescriptor* field, int index) {
  std::string text;
  TextFormat::PrintFieldValueToString(message, field, index, &text);
  return text;
}

void JoinEqualValues(Message* message) {
  const Reflection& reflection = *message->GetReflection();
  for (const PerDim& each : kPerDim) {
    if (message->GetDescriptor()->name() != each.message) continue;
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(each.field);
    const int size = field == nullptr ? 0 : reflection.FieldSize(*message, field);
    bool equal = size > 1;
    for (int i = 1; i < size && equal; ++i)
      equal = PrintedValue(*message, field, i) == PrintedValue(*message, field, 0);
    for (int i = 1; i < size && equal; ++i) reflection.RemoveLast(message, field);
  }
}

// Calls `change` with the message and with all that are in it, the innermost first.
template <typename Change>
void ForEachMessage(Message* message, const Change& change) {
  const Reflection& reflection = *message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(*message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) continue;
    if (!field->is_repeated()) {
      ForEachMessage(reflection.MutableMessage(message, field), change);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(*message, field); ++i) {
      ForEachMessage(reflection.MutableRepeatedMessage(message, field, i), change);
    }
  }
  change(message);
}

// ---------------------------------------------------------------------------------------------------------------------
// Defaults that depend on other fields

void FillWindow(bool pools, WindowSpec* window) {
  if (window->stride().empty() && pools) *window->mutable_stride() = window->kernel();
  if (window->stride().empty()) window->add_stride(1);
  if (window->pad_hi().empty()) *window->mutable_pad_hi() = window->pad_lo();
}

void FillNorm(Norm* norm) {
  if (!norm->has_eps() && norm->kind() != "rms") norm->set_eps(1e-5);
  if (!norm->has_affine()) norm->set_affine(norm->kind() != "instance");
}

void FillLayer(Layer* layer) {
  const bool own_home = layer->has_linear() && !layer->w().empty();  // that layout
  if (layer->home() == HOME_DEFAULT && !own_home) layer->set_home(REPLICATED);
  if (layer->has_conv() && layer->conv().has_window()) FillWindow(false, layer->mutable_conv()->mutable_window());
  if (layer->has_pool() && layer->pool().has_window()) FillWindow(true, layer->mutable_pool()->mutable_window());
  if (layer->has_norm()) FillNorm(layer->mutable_norm());
  if (layer->has_flatten() && layer->flatten().arg().empty()) layer->mutable_flatten()->add_arg(1);
  if (layer->has_init() && layer->init().gain() == 0) {
    layer->mutable_init()->set_gain(absl::StartsWith(layer->init().kind(), "kaiming") ? kRootOfTwo : 1);
  }
}

void FillLayout(LayoutSpec* layout) {
  if (!layout->rank().empty()) return;
  uint64_t ranks = 1;
  for (const uint32_t parts : layout->partition()) ranks = std::min(ranks * std::min(parts, 100000u), kMostRanks + 1);
  for (const Axis& axis : layout->mesh()) ranks = std::min(ranks * std::min(axis.size(), 100000u), kMostRanks + 1);
  const bool known = layout->partition_size() + layout->mesh_size() > 0 && ranks <= kMostRanks;
  for (uint32_t rank = 0; known && rank < ranks; ++rank) layout->add_rank(rank);
}

void FillLoss(Loss* loss) {
  if (loss->eps() == 0 && loss->kind() == "poisson_nll") loss->set_eps(1e-8);
  if (loss->eps() == 0 && loss->kind() == "gaussian_nll") loss->set_eps(1e-6);
  const auto& weights = loss->class_weight();
  if (std::all_of(weights.begin(), weights.end(), [](double weight) { return weight == 1; })) {
    loss->clear_class_weight();
  }
}

void FillRestart(Restart* restart) {
  if (restart->on().empty()) {
    restart->add_on("node_lost");
    restart->add_on("rank_lost");
  }
  std::sort(restart->mutable_on()->begin(), restart->mutable_on()->end());
}

void FillPrecision(Precision* precision) {
  if (precision->compute().empty()) precision->set_compute(kFloat);
  if (precision->params().empty()) precision->set_params(precision->compute());
  if (precision->reduce().empty()) precision->set_reduce(precision->compute());
}

}  // namespace

const std::vector<SpecDefault>& SpecDefaults() {
  static const auto& defaults = *new std::vector<SpecDefault>{
      {"WindowSpec", "dilation", "1"},
      {"WindowSpec", "pad_lo", "0"},
      {"WindowSpec", "boundary", "\"zeros\""},
      {"Conv", "groups", "1"},
      {"Conv", "bias", "true"},
      {"Conv", "output_padding", "0"},
      {"Pool", "count_include_pad", "true"},
      {"Linear", "bias", "true"},
      {"Norm", "momentum", "0.1"},
      {"LocalResponseNorm", "alpha", "1e-4"},
      {"LocalResponseNorm", "beta", "0.75"},
      {"LocalResponseNorm", "k", "1"},
      {"Attention", "causal", "false"},
      {"Attention", "bias", "true"},
      {"Attention", "projections", "true"},
      {"WindowAttention", "shift", "0"},
      {"WindowAttention", "bias", "true"},
      {"Transformer", "norm_first", "true"},
      {"Transformer", "activation", "\"gelu\""},
      {"Transformer", "eps", "1e-5"},
      {"Reduce", "correction", "1"},
      {"Loss", "weight", "1"},
      {"Loss", "reduction", "\"mean\""},
      {"Loss", "delta", "1"},
      {"Loss", "pos_weight", "1"},
      {"Loss", "log_input", "true"},
      {"Loss", "smooth", "1"},
      {"Field", "mean", "0"},
      {"Field", "std", "1"},
      {"Field", "scale", "1"},
      {"Blocks", "by", "\"sample\""},
      {"Train", "microbatches", "1"},
      {"Train", "microbatches_in_flight", "1"},
      {"TraceSteps", "first_step", "1"},
      {"EarlyStop", "metric", "\"loss\""},
      {"Adam", "beta1", "0.9"},
      {"Adam", "beta2", "0.999"},
      {"Adam", "eps", "1e-8"},
      {"RmsProp", "alpha", "0.99"},
      {"RmsProp", "eps", "1e-8"},
      {"Adagrad", "eps", "1e-10"},
      {"Predict", "batch", "1"},
      {"Evaluate", "range", "1"},
      {"Weights", "strict", "true"},
      {"Precision", "loss_scale", "1"},
  };
  return defaults;
}

void FillDefaults(Message* message) {
  const Reflection& reflection = *message->GetReflection();
  for (const SpecDefault& each : SpecDefaults()) {
    if (message->GetDescriptor()->name() != each.message) continue;
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(each.field);
    if (field == nullptr) continue;
    const bool there =
        field->is_repeated() ? reflection.FieldSize(*message, field) > 0 : reflection.HasField(*message, field);
    if (!there) TextFormat::ParseFieldValueFromString(each.value, field, message);
  }
  if (auto* precision = dynamic_cast<Precision*>(message)) FillPrecision(precision);
  if (auto* restart = dynamic_cast<Restart*>(message)) FillRestart(restart);
}

JobSpec WithDefaults(const JobSpec& spec) {
  JobSpec full = spec;
  ForEachMessage(&full, [](Message* message) {
    JoinEqualValues(message);
    FillDefaults(message);
    if (auto* layer = dynamic_cast<Layer*>(message)) FillLayer(layer);
    if (auto* layout = dynamic_cast<LayoutSpec*>(message)) FillLayout(layout);
    if (auto* loss = dynamic_cast<Loss*>(message)) FillLoss(loss);
  });
  for (int i = 1; i < full.layer_size(); ++i) {
    if (full.layer(i).input().empty()) full.mutable_layer(i)->add_input(full.layer(i - 1).name());
  }
  const std::string compute = full.has_precision() ? full.precision().compute() : kFloat;
  for (Dataset& dataset : *full.mutable_dataset()) {
    for (Field& field : *dataset.mutable_field()) {
      if (field.dtype().empty()) field.set_dtype(compute);
    }
  }
  if (full.has_evaluate() && full.evaluate().batch() == 0) {
    full.mutable_evaluate()->set_batch(full.train().batch() > 0 ? full.train().batch() : 1);
  }
  const auto& weights = full.rank_weight();
  if (std::all_of(weights.begin(), weights.end(), [&](double weight) { return weight == weights[0]; })) {
    full.clear_rank_weight();
  }
  return full;
}

}  // namespace adjoin
