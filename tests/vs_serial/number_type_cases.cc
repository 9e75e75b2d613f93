#include "tests/vs_serial/number_type_cases.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "layers/pointwise/activation_functions.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {
namespace {

using Shape = std::vector<int64_t>;

// [2, 4, 8, ...] cut in its first spatial dim.
NumberTypeInput Image(int spatial) {
  NumberTypeInput input = {{2, 4, 8}, {1, 1, 2}};
  for (int dim = 1; dim < spatial; ++dim) {
    input.shape.push_back(6);
    input.partition.push_back(1);
  }
  return input;
}

NumberTypeInput Channels() { return {{2, 4, 6, 5}, {1, 2, 1, 1}}; }
NumberTypeInput Sequence() { return {{2, 6, 8}, {1, 2, 1}}; }

std::string Windowed(const std::string& op, const std::string& more, const std::string& window) {
  return absl::StrCat(op, " { ", more, " window { ", window, " } }");
}

void AddConvolutions(std::vector<NumberTypeCase>& cases) {
  for (int dims = 1; dims <= 3; ++dims) {
    const std::string in = absl::StrCat(dims, dims == 1 ? " dim" : " dims");
    cases.push_back({"conv",
                     absl::StrCat("padding \"same\", ", in),
                     "conv { out_channels: 6 window { kernel: 3 dilation: 2 padding: \"same\" } }",
                     {Image(dims)}});
    cases.push_back({"conv", in, Windowed("conv", "out_channels: 6 groups: 2", "kernel: 3 pad_lo: 1"), {Image(dims)}});
    cases.push_back({"conv",
                     absl::StrCat("transposed, ", in),
                     Windowed("conv", "out_channels: 6 groups: 2 transposed: true", "kernel: 3 stride: 2"),
                     {Image(dims)}});
  }
}

void AddPools(std::vector<NumberTypeCase>& cases) {
  for (int dims = 1; dims <= 3; ++dims) {
    const std::string in = absl::StrCat(", ", dims, dims == 1 ? " dim" : " dims");
    const auto add = [&](const std::string& variant, const std::string& op) {
      cases.push_back({"pool", variant + in, op, {Image(dims)}});
    };
    const std::string window = "kernel: 3 stride: 2 pad_lo: 1";
    add("max", Windowed("pool", "mode: \"max\"", window));
    add("positions of the max (return_indices)", Windowed("pool", "mode: \"max\" return_indices: true", window));
    add("avg", Windowed("pool", "mode: \"avg\"", window));
    add("lp", Windowed("pool", "mode: \"lp\" lp: 2", "kernel: 2"));
    add("adaptive max", "pool { mode: \"max\" adaptive_size: 2 }");
    add("adaptive avg", "pool { mode: \"avg\" adaptive_size: 2 }");
    add("global max", "pool { mode: \"max\" adaptive_size: 1 }");
    add("global avg", "pool { mode: \"avg\" adaptive_size: 1 }");
    add("adaptive max with unequal windows", "pool { mode: \"max\" adaptive_size: 5 }");
    add("adaptive avg with unequal windows", "pool { mode: \"avg\" adaptive_size: 5 }");
  }
}

void AddUpsamplings(std::vector<NumberTypeCase>& cases) {
  const auto add = [&](const std::string& mode, int dims) {
    cases.push_back({"upsample", mode, absl::StrCat("upsample { mode: \"", mode, "\" scale: 2 }"), {Image(dims)}});
  };
  add("nearest", 3);
  add("nearest-exact", 2);
  add("area", 2);
  add("linear", 1);
  add("bilinear", 2);
  add("trilinear", 3);
  add("bicubic", 2);
}

void AddNorms(std::vector<NumberTypeCase>& cases) {
  cases.push_back({"norm", "batch", "norm { kind: \"batch\" }", {Image(2)}});
  cases.push_back({"norm", "group", "norm { kind: \"group\" groups: 2 }", {Image(2)}});
  cases.push_back({"norm", "instance", "norm { kind: \"instance\" affine: true }", {Image(2)}});
  cases.push_back({"norm", "layer", "norm { kind: \"layer\" }", {Sequence()}});
  // Without eps it would be the distance of two numbers of the type.
  cases.push_back({"norm", "rms", "norm { kind: \"rms\" eps: 1e-5 }", {Sequence()}});
  cases.push_back({"local_response_norm", "", "local_response_norm { size: 3 alpha: 0.5 }", {Channels()}});
}

void AddActivations(std::vector<NumberTypeCase>& cases) {
  for (const ActivationFunction& function : ActivationFunctions()) {
    std::string arguments;
    double next = 0.25;  // bounds are in order
    for (const ActivationArgument& argument : function.arguments) {
      if (!argument.otherwise.has_value()) absl::StrAppend(&arguments, " arg: ", std::exchange(next, 0.75));
    }
    cases.push_back({"activation",
                     function.name,
                     absl::StrCat("activation { fn: \"", function.name, "\"", arguments, " }"),
                     {Image(2)}});
    // Around 0 LibTorch's own derivatives of sinc lose digits, in every type.
    const bool away_from_zero = std::string(function.name) == "sinc";
    cases.back().inputs[0].domain = away_from_zero ? ActivationDomain::kAboveOne : DomainOf(function.name);
  }
}

void AddPointwise(std::vector<NumberTypeCase>& cases) {
  cases.push_back({"softmax", "whole dim", "softmax { dim: 1 }", {Image(2)}});
  cases.push_back({"softmax", "whole dim, log", "softmax { dim: 1 log: true }", {Image(2)}});
  cases.push_back({"softmax", "cut dim", "softmax { dim: 2 }", {Image(2)}});
  cases.push_back({"softmax", "cut dim, log", "softmax { dim: 2 log: true }", {Image(2)}});
  cases.push_back({"add", "", "add {}", {Image(2), Channels()}});
  cases.back().inputs[1].shape = cases.back().inputs[0].shape;
  cases.push_back(cases.back());
  cases.back().kind = "multiply";
  cases.back().op = "multiply {}";
  for (const char* kind : {"add", "multiply"}) {
    cases.push_back({kind, "broadcast", absl::StrCat(kind, " {}"), {Image(2), {{2, 1, 8, 1}, {1, 1, 2, 1}}}});
  }
  cases.push_back({"parameter", "add", "parameter { shape: [8, 1] combine: \"add\" }", {Image(2)}});
  cases.push_back({"parameter", "multiply", "parameter { shape: [8, 1] combine: \"multiply\" }", {Image(2)}});
  cases.push_back(
      {"parameter", "expand", "parameter { shape: [1, 3, 8] combine: \"expand\" }", {{{2, 6, 8}, {2, 1, 1}}}});
  for (const char* kind : {"sum", "mean", "var", "amax", "amin"}) {
    cases.push_back({"reduce", kind, absl::StrCat("reduce { kind: \"", kind, "\" dim: [2, 3] }"), {Image(2)}});
  }
  cases.push_back({"dropout", "", "dropout { p: 0.3 }", {Image(2)}});
  cases.push_back({"noise", "", "noise { std: 0.5 multiplicative: true }", {Image(2)}});
}

void AddSequences(std::vector<NumberTypeCase>& cases) {
  cases.push_back({"linear", "", "linear { out_features: 5 }", {Sequence()}});
  cases.push_back({"matmul", "", "matmul {}", {{{2, 4, 6}, {1, 1, 2}}, {{2, 6, 5}, {1, 2, 1}}}});
  cases.push_back({"attention", "sequence cut", "attention { heads: 2 }", {Sequence()}});
  cases.push_back({"attention", "heads cut", "attention { heads: 2 }", {{{2, 6, 8}, {1, 1, 2}}}});
  cases.push_back({"attention", "of two inputs", "attention { heads: 2 }", {Sequence(), {{2, 4, 8}, {1, 2, 1}}}});
  cases.push_back({"attention",
                   "of three inputs",
                   "attention { heads: 2 }",
                   {Sequence(), {{2, 4, 6}, {1, 2, 1}}, {{2, 4, 5}, {1, 2, 1}}}});
  const NumberTypeInput keys = {{2, 4, 8}, {1, 1, 2}}, bias = {{2, 1, 6, 4}, {1, 1, 2, 1}};
  cases.push_back({"attention",
                   "without projections, heads cut",
                   "attention { heads: 2 projections: false scale: 0.5 }",
                   {{{2, 6, 8}, {1, 1, 2}}, keys, {{2, 4, 6}, {1, 1, 2}}}});
  cases.push_back({"attention",
                   "with a bias of the scores, heads cut",
                   "attention { heads: 2 projections: false score_bias: true }",
                   {{{2, 6, 8}, {1, 1, 2}}, keys, keys, bias}});
  cases.push_back({"attention",
                   "with a bias of the scores, sequence cut",
                   "attention { heads: 2 score_bias: true }",
                   {Sequence(), {{2, 4, 8}, {1, 2, 1}}, bias}});
  cases.push_back(
      {"window_attention", "", "window_attention { heads: 2 window: 2 shift: 1 }", {{{2, 4, 4, 8}, {1, 2, 1, 1}}}});
  cases.push_back({"embedding", "", "embedding { num_embeddings: 7 dim: 3 }", {{{2, 6}, {1, 2}, 7}}});
  cases.push_back({"position", "learned", "position { kind: \"learned\" }", {Sequence()}});
  cases.push_back({"position", "sinusoidal", "position { kind: \"sinusoidal\" }", {Sequence()}});
  cases.push_back({"tokens", "", "tokens { count: 3 }", {{{2, 6, 8}, {2, 1, 1}}}});
}

void AddShapes(std::vector<NumberTypeCase>& cases) {
  const auto add = [&](const std::string& kind, const std::string& arg) {
    cases.push_back({kind, "", absl::StrCat(kind, " { ", arg, " }"), {Image(2)}});
  };
  add("crop", "arg: [1, 0, 2, 1]");
  add("pad", "arg: [1, 0, 2, 1]");
  add("flatten", "arg: [2]");
  add("flip", "arg: [2]");
  add("index_select", "arg: [2, 1, 1, 7]");
  add("permute", "arg: [0, 2, 3, 1]");
  add("pixel_shuffle", "arg: 2");
  add("pixel_unshuffle", "arg: 2");
  cases.push_back({"repartition", "", "y: \"moved\" repartition {}", {Image(2)}});
  add("repeat", "arg: [1, 1, 2, 1]");
  add("reshape", "arg: [4, 8, 2, 3]");
  add("roll", "arg: [2, 3]");
  cases.push_back({"expand", "", "expand { arg: [-1, 5, -1, -1] }", {{{2, 1, 8, 6}, {1, 1, 2, 1}}}});
  cases.push_back({"concat", "", "concat { arg: 1 }", {Image(2), Image(2)}});
}

// What is computed in float32 inside and rounded once: sums of bfloat16 would lose what they add, or LibTorch lacks the
// kernel. Where ranks add what they have of one number, it is rounded more than once.
void MarkFloat32(NumberTypeCase& of) {
  const bool function = of.variant == "mish" || of.variant == "relu6" || of.variant == "hardtanh";
  const bool average = absl::StartsWith(of.variant, "avg") || absl::StartsWith(of.variant, "adaptive avg");
  of.float32_backward = of.kind == "norm" || of.kind == "embedding" || (of.kind == "activation" && function) ||
                        (of.kind == "pool" && absl::StartsWith(of.variant, "lp"));
  of.float32_forward = of.float32_backward || of.kind == "local_response_norm" || of.kind == "upsample" ||
                       (of.kind == "pool" && average) ||
                       (of.kind == "conv" && absl::StartsWith(of.variant, "transposed"));
}

std::string FieldText(const std::string& name, const Shape& shape, bool whole_numbers) {
  return absl::StrCat("  field { name: \"", name, "\" shape: ", ListText(Shape(shape.begin() + 1, shape.end())),
                      whole_numbers ? " dtype: \"int64\"" : "", " idx { path: \"x\" } }\n");
}

}  // namespace

std::vector<NumberTypeCase> NumberTypeCases() {
  std::vector<NumberTypeCase> cases;
  AddConvolutions(cases);
  AddPools(cases);
  AddUpsamplings(cases);
  AddNorms(cases);
  AddActivations(cases);
  AddPointwise(cases);
  AddSequences(cases);
  AddShapes(cases);
  for (NumberTypeCase& of : cases) MarkFloat32(of);
  return cases;
}

std::string JobTextOf(const NumberTypeCase& of, const std::string& compute) {
  const int64_t batch = of.inputs[0].shape[0];
  std::string layouts = LayoutText("one", {1, 1}, {0}), inputs, fields;
  for (size_t i = 0; i < of.inputs.size(); ++i) {
    const std::string name = i == 0 ? "x" : absl::StrCat("x", i);
    layouts += LayoutText(name, of.inputs[i].partition, {0, 1});
    absl::StrAppend(&inputs, " input: \"", name, "\" x: \"", name, "\"");
    fields += FieldText(name, of.inputs[i].shape, of.inputs[i].below > 0);
  }
  if (of.kind == "repartition") layouts += LayoutText("moved", {1, 2, 1, 1}, {1, 0});
  fields += FieldText("side", {batch, 1}, false) + FieldText("wanted", {batch, 2}, false);
  return absl::StrCat("name: \"types\" kind: TRAIN ranks: 2 seed: 1 precision { compute: \"", compute, "\" params: \"",
                      compute == "bfloat16" ? "float32" : compute, "\" }\n", layouts, "layer { name: \"y\"", inputs,
                      " ", of.op, " }\n",
                      "layer { name: \"other\" input: \"side\" x: \"one\" linear { out_features: 2 } }\n"
                      "loss { kind: \"mse\" input: \"other\" target: \"wanted\" }\n"
                      "dataset { name: \"data\"\n",
                      fields, "}\ntrain { dataset: \"data\" batch: ", batch,
                      " steps: 1 optimizer { sgd { lr: 0.1 } } }\noutput_dir: \"out\"\n");
}

}  // namespace adjoin
