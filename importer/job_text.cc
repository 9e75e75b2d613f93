#include "importer/job_text.h"

#include <algorithm>
#include <string>
#include <vector>

#include <google/protobuf/text_format.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "importer/graph/op_graph.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {
namespace {

constexpr int64_t kAnyBatch = 2;  // where the program does not fix it

// Behind the string that begins at text[begin] with its quote.
size_t EndOfString(const std::string& text, size_t begin) {
  size_t i = begin + 1;
  while (i < text.size() && text[i] != text[begin]) i += text[i] == '\\' ? 2 : 1;
  return std::min(i + 1, text.size());
}

// "kernel: 3" for "kernel: [3]". Strings stay as they are.
std::string WithoutBracketsOfOne(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"' || text[i] == '\'') {
      const size_t end = EndOfString(text, i);
      result.append(text, i, end - i);
      i = end - 1;
      continue;
    }
    const size_t end = text[i] == '[' ? text.find_first_of(",]\"'", i) : std::string::npos;
    if (end == std::string::npos || text[end] != ']') {
      result.push_back(text[i]);
    } else {
      result.append(text, i + 1, end - i - 1);
      i = end;
    }
  }
  return result;
}

std::string TextOf(const google::protobuf::Message& message, bool one_line) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(one_line);
  printer.SetUseShortRepeatedPrimitives(true);
  std::string text;
  printer.PrintToString(message, &text);
  text = WithoutBracketsOfOne(text);
  return std::string(absl::StripTrailingAsciiWhitespace(text));
}

// The layer before is what a layer reads without `input`.
std::vector<Layer> WithoutObviousInputs(std::vector<Layer> layers) {
  for (size_t i = layers.size(); i-- > 1;) {
    if (layers[i].input_size() == 1 && layers[i].input(0) == layers[i - 1].name()) layers[i].clear_input();
  }
  return layers;
}

Dataset RandomData(const ImportedModel& model) {
  Dataset data;
  data.set_name("data");
  for (const ImportedInput& input : model.inputs) {
    Field* field = data.add_field();
    field->set_name(input.field);
    for (size_t d = 1; d < input.shape.size(); ++d) field->add_shape(input.shape[d]);
    Synthetic* synthetic = field->mutable_synthetic();
    synthetic->set_samples(input.shape[0] == kAnyExtent ? kAnyBatch : input.shape[0]);
    if (IsFloatingPoint(input.dtype)) {
      synthetic->set_kind("normal");
      continue;
    }
    field->set_dtype("int64");
    synthetic->set_kind("index");
    synthetic->set_high(1);
    for (const Layer& layer : model.layers) {
      const bool reads = std::count(layer.input().begin(), layer.input().end(), input.field) > 0;
      if (reads && layer.has_embedding()) synthetic->set_high(layer.embedding().num_embeddings());
    }
  }
  return data;
}

JobSpec PredictingJob(const ImportedModel& model, const std::string& name) {
  JobSpec job;
  job.set_name(name);
  job.set_kind(PREDICT);
  job.set_ranks(1);
  *job.add_dataset() = RandomData(model);
  job.mutable_predict()->set_dataset("data");
  for (const std::string& output : model.outputs) job.mutable_predict()->add_input(output);
  job.mutable_predict()->set_format("npy");
  job.mutable_predict()->set_batch(static_cast<uint32_t>(job.dataset(0).field(0).synthetic().samples()));
  job.set_output_dir(name);
  return job;
}

// `text` with its lines indented by a "#".
std::string Commented(const std::string& text) { return absl::StrCat("#   ", text, "\n"); }

std::string HowToTrain(const ImportedModel& model) {
  const std::string output = model.outputs.empty() ? "" : model.outputs[0];
  return absl::StrCat(
      "\n# FILL IN to train: kind: TRAIN above, data with a target, and in place of predict { ... }, for example\n",
      Commented(absl::StrCat("loss { kind: \"cross_entropy\" input: \"", output, "\" target: \"label\" }")),
      Commented("train { dataset: \"data\" batch: 8 epochs: 10 optimizer { sgd { lr: 0.01 momentum: 0.9 } } }"));
}

}  // namespace

absl::StatusOr<std::string> JobText(const ImportedModel& model, const JobTextOptions& options) {
  const bool framed = options.frame != nullptr;
  if (framed && options.frame->layer_size() > 0) {
    return absl::InvalidArgumentError(absl::StrCat("the template has a layer, ", options.frame->layer(0).name(),
                                                   "; right would be a job without layers, which the model's become"));
  }
  JobSpec job = framed ? *options.frame : PredictingJob(model, options.name);
  if (!options.weights.empty()) {
    Weights* weights = job.mutable_weights();
    weights->clear_from_output();
    weights->clear_from_job();
    weights->clear_best();
    weights->clear_step();
    weights->set_init_from(options.weights);
  }
  if (model.compute != DType::kFloat32 && job.precision().compute().empty()) {
    job.mutable_precision()->set_compute(ToString(model.compute));
  }
  for (Loss& loss : *job.mutable_loss()) {
    if (loss.input().empty() && !model.outputs.empty()) loss.set_input(model.outputs[0]);
  }
  std::string text = absl::StrCat("# Imported from ", PrintableText(options.archive, 200),
                                  ". Layers and their weights have the names of PyTorch's modules.\n");
  for (const std::string& note : model.notes) absl::StrAppend(&text, "# NOT IMPORTED: ", note, "\n");
  JobSpec head = job;
  head.clear_dataset();
  head.clear_predict();
  head.clear_output_dir();
  absl::StrAppend(&text, TextOf(framed ? job : head, /*one_line=*/false), "\n\n");
  for (const Layer& layer : WithoutObviousInputs(model.layers)) {
    absl::StrAppend(&text, "layer { ", TextOf(layer, /*one_line=*/true), " }\n");
  }
  if (!framed) {
    JobSpec rest;
    *rest.mutable_dataset() = job.dataset();
    *rest.mutable_predict() = job.predict();
    rest.set_output_dir(job.output_dir());
    absl::StrAppend(&text, "\n# FILL IN: where the input comes from. These are random numbers.\n",
                    TextOf(rest, /*one_line=*/false), "\n", HowToTrain(model));
  }
  if (text.size() > kMaxSpecBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the job would have ", text.size(), " bytes; at most ", kMaxSpecBytes, " are allowed"));
  }
  return text;
}

}  // namespace adjoin
