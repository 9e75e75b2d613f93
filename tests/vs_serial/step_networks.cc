#include "tests/vs_serial/step_networks.h"

#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layers/rules/layout_proto.h"
#include "primitives/torch_dtype.h"

namespace adjoin {
namespace {

constexpr int kClasses = 3;

// Lines of a job's network, each layer reading the one before it.
class NetworkText {
 public:
  explicit NetworkText(std::string recompute = "") : recompute_(std::move(recompute)) {}

  NetworkText& Add(const std::string& op, const std::vector<std::string>& inputs = {}) {
    const std::string name = absl::StrCat("l", count_++);
    std::vector<std::string> quoted;
    for (const std::string& input : inputs) quoted.push_back(absl::StrCat("\"", input, "\""));
    const bool first = count_ == 1;
    absl::StrAppend(&text_, "layer { name: \"", name, "\" ", first ? "input: \"x\" x: \"grid\" " : "",
                    quoted.empty() ? "" : absl::StrCat("input: [", absl::StrJoin(quoted, ", "), "] "), recompute_, op,
                    " }\n");
    last_ = name;
    return *this;
  }
  NetworkText& Conv(int channels, int kernel = 3, const std::string& more = "") {
    return Add(absl::StrCat("conv { out_channels: ", channels, " bias: false window { kernel: ", kernel,
                            " pad_lo: ", kernel / 2, " ", more, " } }"));
  }
  NetworkText& Norm(const std::string& kind = "batch", const std::string& more = "") {
    return Add(absl::StrCat("norm { kind: \"", kind, "\" ", more, " }"));
  }
  NetworkText& Fn(const std::string& fn) { return Add(absl::StrCat("activation { fn: \"", fn, "\" }")); }
  const std::string& last() const { return last_; }
  const std::string& text() const { return text_; }

 private:
  std::string recompute_;
  std::string text_;
  std::string last_;
  int count_ = 0;
};

}  // namespace

int RanksOf(const std::string& partition) {
  int ranks = 1;
  for (const char c : partition) {
    if (c >= '1' && c <= '9') ranks *= c - '0';
  }
  return ranks;
}

std::string JobOf(const StepNetwork& c, const std::string& partition, const std::string& optimizer) {
  const bool classes = c.loss == "cross_entropy";
  return absl::StrCat("name: \"n\" kind: TRAIN ranks: ", RanksOf(partition),
                      " layout { name: \"grid\" partition: ", partition, " }\nprecision { compute: \"", c.precision,
                      "\" params: \"", c.precision == "float64" ? "float64" : "float32", "\" }\n", c.layers,
                      "loss { kind: \"", c.loss, "\" input: \"", c.last, "\" target: \"t\" }\n",
                      "dataset { name: \"data\" field { name: \"x\" idx { path: \"v\" }", c.input_type, " shape: [",
                      absl::StrJoin(c.shape, ", "), "] } field { name: \"t\" idx { path: \"l\" }  ",
                      classes ? "dtype: \"int64\"" : "", " shape: [", absl::StrJoin(c.target, ", "), "] } }\n",
                      "train { dataset: \"data\" batch: ", c.batch, " steps: 1 optimizer { ", optimizer, " } }\n");
}

// Fields of random numbers, or classes.
Tensors DataOf(const Plan& plan, const StepNetwork& c) {
  Tensors data;
  for (const ValuePlan& value : plan.program(0).value()) {
    if (value.field().empty()) continue;
    const std::vector<int64_t> shape(value.layout().shape().begin(), value.layout().shape().end());
    const Layout layout = *LayoutFromProto(value.layout());
    data[value.field()] = layout.dtype() == DType::kInt64
                              ? at::randint(c.classes, shape, at::kLong)
                              : at::rand(shape, at::kDouble).to(ScalarTypeOf(layout.dtype()));
  }
  return data;
}

std::vector<StepNetwork> StepNetworks() {
  std::vector<StepNetwork> cases;
  const std::string pool = "pool { mode: \"max\" window { kernel: 2 } }";
  const std::string up = "upsample { mode: \"trilinear\" scale: 2 }";
  const std::vector<std::string> volume_cuts = {"[1, 1, 1, 1, 1]", "[2, 1, 1, 1, 1]", "[1, 1, 2, 1, 1]",
                                                "[1, 1, 1, 2, 1]", "[1, 1, 1, 2, 2]"};
  const std::vector<std::string> image_cuts = {"[1, 1, 1, 1]", "[2, 1, 1, 1]", "[1, 1, 2, 1]", "[1, 1, 1, 2]",
                                               "[1, 1, 2, 2]"};
  for (const char* recompute : {"", "recompute: true "}) {
    NetworkText n(recompute);
    n.Conv(8).Norm().Fn("relu").Conv(8).Norm().Fn("relu");
    const std::string skip1 = n.last();
    n.Add(pool).Conv(16).Norm().Fn("relu").Conv(16).Norm().Fn("relu");
    const std::string skip2 = n.last();
    n.Add(pool).Conv(32).Norm().Fn("relu").Conv(32).Norm().Fn("relu").Add(up);
    n.Add("concat { arg: 1 }", {skip2, n.last()}).Conv(16).Norm().Fn("relu").Conv(16).Norm().Fn("relu").Add(up);
    n.Add("concat { arg: 1 }", {skip1, n.last()}).Conv(8).Norm().Fn("relu").Conv(8).Norm().Fn("relu").Conv(kClasses, 1);
    cases.push_back({absl::StrCat("U-Net 3-D ", recompute),
                     n.text(),
                     n.last(),
                     {1, 16, 64, 64},
                     volume_cuts,
                     "cross_entropy",
                     {16, 64, 64}});
  }
  {
    NetworkText n;
    n.Conv(8, 5).Fn("relu").Add(pool).Conv(16, 5).Fn("relu").Add(pool).Add("flatten { }");
    n.Add("linear { out_features: 64 }").Fn("relu").Add("linear { out_features: 3 }");
    cases.push_back({"LeNet", n.text(), n.last(), {1, 64, 64}, image_cuts, "cross_entropy", {}, 8});
  }
  {
    NetworkText n;
    n.Conv(16, 7, "stride: 2").Norm().Fn("relu").Add("pool { mode: \"max\" window { kernel: 3 stride: 2 pad_lo: 1 } }");
    for (int block = 0; block < 3; ++block) {
      const std::string skip = n.last();
      n.Conv(16).Norm().Fn("relu").Conv(16).Norm();
      n.Add("add { }", {skip, n.last()}).Fn("relu");
    }
    n.Conv(32, 3, "stride: 2").Norm().Fn("relu");
    n.Add("pool { mode: \"avg\" adaptive_size: [1, 1] }").Add("flatten { }").Add("linear { out_features: 3 }");
    cases.push_back({"ResNet", n.text(), n.last(), {3, 128, 128}, image_cuts, "cross_entropy", {}, 4});
  }
  {
    NetworkText n;
    n.Conv(8);
    for (int block = 0; block < 4; ++block) {
      const std::string before = n.last();
      n.Norm().Fn("relu").Conv(8);
      n.Add("concat { arg: 1 }", {before, n.last()});
    }
    n.Conv(kClasses, 1);
    cases.push_back({"DenseNet", n.text(), n.last(), {3, 96, 96}, image_cuts, "cross_entropy", {96, 96}, 4});
  }
  {
    NetworkText n;
    n.Conv(8)
        .Norm("group", "groups: 4")
        .Fn("silu")
        .Add("conv { out_channels: 16 window { kernel: 2 stride: 2 } }")
        .Norm("instance", "affine: true")
        .Fn("leaky_relu");
    n.Add("conv { out_channels: 8 transposed: true window { kernel: 2 stride: 2 } }").Fn("gelu").Conv(1, 1);
    cases.push_back({"autoencoder", n.text(), n.last(), {1, 96, 96}, image_cuts, "mse", {1, 96, 96}, 4});
  }
  {
    NetworkText n;
    n.Add("linear { out_features: 64 }");
    for (int block = 0; block < 2; ++block) {
      const std::string before = n.last();
      n.Norm("layer", "dim: 2").Add("attention { heads: 4 }");
      n.Add("add { }", {before, n.last()});
      const std::string middle = n.last();
      n.Norm("layer", "dim: 2").Add("linear { out_features: 256 }").Fn("gelu").Add("linear { out_features: 64 }");
      n.Add("add { }", {middle, n.last()});
    }
    n.Add("linear { out_features: 8 }");
    cases.push_back({"transformer",
                     n.text(),
                     n.last(),
                     {256, 16},
                     {"[1, 1, 1]", "[2, 1, 1]", "[1, 2, 1]", "[1, 4, 1]", "[2, 2, 1]"},
                     "mse",
                     {256, 8},
                     4});
  }
  {
    // Biases of the scores by position, which are trained; the values of a head are wider than its keys.
    NetworkText n;
    n.Add("linear { out_features: 64 }");
    for (int block = 0; block < 2; ++block) {
      const std::string before = n.last();
      const std::string norm = n.Norm("layer", "dim: 2").last();
      const std::string queries = n.Add("linear { out_features: 64 }", {norm}).last();
      const std::string keys = n.Add("linear { out_features: 64 }", {norm}).last();
      const std::string values = n.Add("linear { out_features: 96 }", {norm}).last();
      n.Add("parameter { shape: [1, 4, 256, 256] combine: \"expand\" }", {norm});
      n.Add("attention { heads: 4 projections: false score_bias: true scale: 1 }", {queries, keys, values, n.last()});
      n.Add("linear { out_features: 64 }").Add("add { }", {before, n.last()});
    }
    n.Add("linear { out_features: 8 }");
    cases.push_back({"attention with biases",
                     n.text(),
                     n.last(),
                     {256, 16},
                     {"[1, 1, 1]", "[2, 1, 1]", "[1, 2, 1]", "[1, 4, 1]", "[2, 2, 1]"},
                     "mse",
                     {256, 8},
                     4});
  }
  {
    NetworkText n;
    n.Add("linear { out_features: 512 }").Fn("tanh").Add("linear { out_features: 512 }").Fn("sigmoid");
    n.Add("dropout { p: 0.5 }").Add("linear { out_features: 8 }");
    cases.push_back(
        {"MLP", n.text(), n.last(), {64}, {"[1, 1]", "[2, 1]", "[4, 1]", "[1, 2]", "[2, 2]"}, "l1", {8}, 512});
  }
  {
    NetworkText n;
    n.Add("conv { out_channels: 16 window { kernel: 3 pad_lo: 1 } }");
    for (int block = 0; block < 3; ++block) {
      const std::string before = n.last();
      const std::string conv = absl::StrCat("conv { out_channels: 16 window { kernel: 3 dilation: ", 1 << block,
                                            " pad_lo: ", 1 << block, " } }");
      n.Add(conv, {before}).Fn("tanh");
      const std::string gate = n.last();
      n.Add(conv, {before}).Fn("sigmoid");
      n.Add("multiply { }", {gate, n.last()}).Add("conv { out_channels: 16 window { kernel: 1 } }");
      n.Add("add { }", {before, n.last()});
    }
    n.Add("conv { out_channels: 3 window { kernel: 1 } }");
    cases.push_back({"WaveNet",
                     n.text(),
                     n.last(),
                     {1, 4096},
                     {"[1, 1, 1]", "[2, 1, 1]", "[1, 1, 2]", "[1, 1, 4]", "[2, 1, 2]"},
                     "cross_entropy",
                     {4096},
                     4});
  }
  for (const char* type : {"float64", "bfloat16"}) {
    NetworkText n;
    n.Conv(8).Norm().Fn("relu").Conv(8).Fn("relu").Add(pool).Conv(16).Fn("relu");
    n.Add("upsample { mode: \"nearest\" scale: 2 }").Conv(1, 1).Fn("sigmoid");
    cases.push_back(
        {absl::StrCat("2-D ", type), n.text(), n.last(), {1, 128, 128}, image_cuts, "mse", {1, 128, 128}, 2, type});
    if (cases.back().precision == "bfloat16") cases.back().below = cases.back().above = 0.2;
  }
  {
    NetworkText n;
    n.Conv(8).Norm().Fn("relu").Conv(4).Add("softmax { dim: 1 }");
    cases.push_back({"dice", n.text(), n.last(), {1, 16, 48, 48}, volume_cuts, "dice", {4, 16, 48, 48}});
  }
  {
    NetworkText n;
    n.Add("embedding { num_embeddings: 64 dim: 32 }").Add("position { kind: \"learned\" }");
    for (int block = 0; block < 2; ++block) {
      const std::string before = n.last();
      n.Norm("layer", "dim: 2").Add("attention { heads: 2 causal: true }").Add("add { }", {before, n.last()});
    }
    n.Add("linear { out_features: 64 }").Add("permute { arg: [0, 2, 1] }");
    cases.push_back({"language model",
                     n.text(),
                     n.last(),
                     {128},
                     {"[1, 1]", "[2, 1]", "[4, 1]", "[1, 2]", "[2, 2]"},
                     "cross_entropy",
                     {128},
                     4,
                     "float32",
                     64,
                     " dtype: \"int64\""});
  }
  const auto swin = [](const std::string& window, const std::string& shift) {
    NetworkText n;
    n.Add("linear { out_features: 32 }");
    for (const std::string& shifted : {std::string(), absl::StrCat("shift: ", shift)}) {
      const std::string before = n.last();
      n.Norm("layer", "dim: 3").Add(absl::StrCat("window_attention { heads: 4 window: ", window, " ", shifted, " }"));
      n.Add("add { }", {before, n.last()});
      const std::string middle = n.last();
      n.Norm("layer", "dim: 3").Add("linear { out_features: 128 }").Fn("gelu").Add("linear { out_features: 32 }");
      n.Add("add { }", {middle, n.last()});
    }
    return n.Add("linear { out_features: 3 }");
  };
  {
    const NetworkText n = swin("[4, 4]", "[2, 2]");
    cases.push_back({"Swin",
                     n.text(),
                     n.last(),
                     {32, 32, 3},
                     {"[1, 1, 1, 1]", "[2, 1, 1, 1]", "[1, 2, 1, 1]", "[1, 1, 2, 1]", "[1, 2, 2, 1]"},
                     "mse",
                     {32, 32, 3},
                     4});
  }
  {
    // Windows reach beyond the last cells, and there are fewer of them than ranks.
    const NetworkText n = swin("[8, 8]", "[4, 4]");
    cases.push_back({"Swin of few windows",
                     n.text(),
                     n.last(),
                     {16, 42, 3},
                     {"[1, 1, 1, 1]", "[2, 1, 1, 1]", "[1, 2, 1, 1]", "[1, 4, 1, 1]", "[1, 2, 2, 1]"},
                     "mse",
                     {16, 42, 3},
                     4});
  }
  {
    NetworkText n;
    n.Conv(16, 3).Fn("relu").Add("local_response_norm { size: 5 }");
    n.Add("pool { mode: \"avg\" window { kernel: 2 } }").Conv(16).Fn("elu").Add("dropout { p: 0.2 channel: true }");
    n.Add("pool { mode: \"lp\" lp: 2 window { kernel: 2 } }").Conv(16, 3, "dilation: 2").Fn("hardswish");
    n.Add("pool { mode: \"max\" adaptive_size: [1, 1] }").Add("flatten { }").Add("linear { out_features: 3 }");
    cases.push_back({"AlexNet", n.text(), n.last(), {3, 96, 96}, image_cuts, "cross_entropy", {}, 4});
  }
  {
    NetworkText n;
    n.Conv(8).Add("noise { std: 0.1 }").Fn("prelu").Add("pad { arg: [2, 2, 2, 2] }").Conv(8).Fn("softsign");
    n.Add("crop { arg: [2, 2, 2, 2] }").Add("pixel_unshuffle { arg: 2 }").Conv(32).Fn("tanhshrink");
    n.Add("pixel_shuffle { arg: 2 }")
        .Add("roll { arg: [2, 3] }")
        .Conv(8, 3, "boundary: \"reflect\"")
        .Fn("log_sigmoid")
        .Add("flip { arg: 3 }");
    n.Add("upsample { mode: \"bicubic\" scale: 2 }")
        .Conv(8)
        .Fn("square")
        .Add("repeat { arg: [1, 2, 1, 1] }")
        .Conv(4)
        .Fn("mish")
        .Add("softmax { dim: 1 log: true }");
    cases.push_back({"other layers", n.text(), n.last(), {1, 48, 48}, image_cuts, "kl_div", {4, 96, 96}, 4});
  }
  {
    NetworkText n;
    n.Conv(8).Fn("softplus").Fn("sqrt").Conv(8).Fn("softplus").Add("activation { fn: \"pow\" arg: 1.5 }").Conv(8);
    n.Add("activation { fn: \"clamp\" arg: [-1, 1] }").Fn("expm1").Add("activation { fn: \"mul\" arg: 0.5 }").Conv(8);
    n.Fn("softplus").Fn("rsqrt").Fn("log1p").Conv(8).Add("reduce { kind: \"amax\" dim: 1 keepdim: true }");
    cases.push_back(
        {"functions of positive numbers", n.text(), n.last(), {1, 96, 96}, image_cuts, "mse", {1, 96, 96}, 4});
  }
  return cases;
}

}  // namespace adjoin
