#include "tests/verify/random_losses.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

using Shape = std::vector<int64_t>;

class Losses {
 public:
  Losses(RandomJobs& random, NetworkWriter& writer, bool microbatches)
      : random_(random), writer_(writer), microbatches_(microbatches) {}

  void Add(Value x) {
    x = WithClasses(x);
    switch (random_.Between(0, 12)) {
      case 0:
      case 1: return CrossEntropy(x);
      case 2: return Nll(x);
      case 3: return Compared(x, random_.Of<std::string>({"mse", "l1"}), "");
      case 4: return Compared(x, random_.Of<std::string>({"huber", "smooth_l1"}), Some("delta: 0.5"));
      case 5: return Compared(Function(x, "sigmoid"), "bce", "", kUniform);
      case 6: return BceWithLogits(x);
      case 7: return Poisson(x);
      case 8: return Gaussian(x);
      case 9: return KlDiv(x);
      case 10: return Compared(x, "cosine", "");
      default: return Dice(x);
    }
  }

 private:
  static constexpr char kNormal[] = "synthetic { kind: \"normal\" samples: 1000 }";
  static constexpr char kUniform[] = "synthetic { kind: \"uniform\" samples: 1000 low: 0.05 high: 0.95 }";

  std::string Some(const std::string& text) { return random_.OneIn(2) ? " " + text : ""; }
  std::string Reduction() { return Some("reduction: \"sum\""); }
  static std::string Classes(int64_t count) {
    return absl::StrCat("dtype: \"int64\" synthetic { kind: \"index\" samples: 1000 low: 0 high: ", count, " }");
  }
  std::string Factors(const char* field, int64_t count) {
    std::vector<int64_t> factors;
    for (int64_t i = 0; i < count; ++i) factors.push_back(random_.Between(1, 3));
    return absl::StrCat(" ", field, ": ", ListText(factors));
  }

  Value Function(const Value& x, const std::string& name) {
    return writer_.Add("activation", absl::StrCat("{ fn: \"", name, "\" }"), {x}, x.shape);
  }
  Value Softmax(const Value& x, bool log) {
    return writer_.Add("softmax", log ? "{ dim: 1 log: true }" : "{ dim: 1 }", {x}, x.shape);
  }
  // The same with two channels and more.
  Value WithClasses(const Value& x) {
    if (x.shape.size() > 1 && x.shape[1] > 1) return x;
    if (x.shape.size() == 2) {
      return writer_.Add("linear", "{ out_features: 3 }", {x}, {x.shape[0], 3}, {.parameters = true});
    }
    Shape shape = x.shape;
    shape[1] = 2;
    return writer_.Add("concat", "{ arg: 1 }", {x, Function(x, "tanh")}, shape);
  }

  // Ends a loss of `x` and a field of `sample`.
  void Loss(const std::string& kind, const Value& x, const Shape& sample, const std::string& source,
            const std::string& more) {
    const std::string target = absl::StrCat("t", targets_++);
    writer_.Target(target, sample, source);
    writer_.Loss(kind, absl::StrCat("input: \"", x.name, "\" target: \"", target, "\"", more, Some("weight: 0.5")));
  }
  void Compared(const Value& x, const std::string& kind, const std::string& more, const std::string& source = kNormal) {
    Loss(kind, x, {x.shape.begin() + 1, x.shape.end()}, source, more + Reduction());
  }

  void CrossEntropy(const Value& x) {
    const int64_t classes = x.shape[1];
    const std::string smoothing = Some("label_smoothing: 0.25");
    if (random_.OneIn(3)) {
      writer_.Drawn("cross_entropy of probabilities");
      const std::string weights = microbatches_ || random_.OneIn(2) ? "" : Factors("class_weight", classes);
      Loss("cross_entropy", x, {x.shape.begin() + 1, x.shape.end()}, kUniform, smoothing + weights + Reduction());
      return;
    }
    Loss("cross_entropy", x, {x.shape.begin() + 2, x.shape.end()}, Classes(classes),
         smoothing + ClassOptions(classes) + Reduction());
  }
  std::string ClassOptions(int64_t classes) {
    if (microbatches_) return "";
    return (random_.OneIn(2) ? Factors("class_weight", classes) : "") + (random_.OneIn(4) ? " ignore_index: -100" : "");
  }
  void Nll(const Value& x) {
    Loss("nll", Softmax(x, /*log=*/true), {x.shape.begin() + 2, x.shape.end()}, Classes(x.shape[1]),
         ClassOptions(x.shape[1]) + Reduction());
  }
  void BceWithLogits(const Value& x) {
    const std::string weights = random_.OneIn(2) ? Factors("pos_weight", random_.OneIn(2) ? 1 : x.shape[1]) : "";
    Compared(x, "bce_with_logits", weights, kUniform);
  }
  void Poisson(const Value& x) {
    const bool log = random_.OneIn(2);
    Loss("poisson_nll", Function(x, log ? "tanh" : "softplus"), {x.shape.begin() + 1, x.shape.end()},
         "synthetic { kind: \"index\" samples: 1000 low: 0 high: 4 }",
         absl::StrCat(log ? "" : " log_input: false", Some("full: true"), Reduction()));
  }
  void Gaussian(const Value& x) {
    Value variance;
    if (x.shape.size() > 2 && random_.OneIn(2)) {
      Shape shape = x.shape;
      shape.back() = 1;
      variance = writer_.Add("linear", "{ out_features: 1 }", {x}, shape, {.parameters = true});
      variance = Function(variance, "softplus");
    } else {
      variance = Function(x, "softplus");
    }
    Compared(x, "gaussian_nll", absl::StrCat(" variance: \"", variance.name, "\" eps: 0.01", Some("full: true")));
  }
  void KlDiv(const Value& x) {
    const bool log = random_.OneIn(2);
    const std::string reduction = Some(absl::StrCat("reduction: \"", random_.OneIn(2) ? "sum" : "batchmean", "\""));
    Loss("kl_div", Softmax(x, /*log=*/true), {x.shape.begin() + 1, x.shape.end()}, log ? kNormal : kUniform,
         absl::StrCat(log ? " log_target: true" : "", reduction));
  }
  void Dice(const Value& x) {
    if (microbatches_) return Compared(x, "mse", "");
    const Value y = Softmax(x, /*log=*/false);
    const bool classes = random_.OneIn(2);
    Loss("dice", y, {x.shape.begin() + (classes ? 2 : 1), x.shape.end()}, classes ? Classes(x.shape[1]) : kUniform,
         Some("smooth: 0.5"));
  }

  RandomJobs& random_;
  NetworkWriter& writer_;
  const bool microbatches_;
  int targets_ = 0;
};

}  // namespace

void AddLosses(RandomJobs& random, NetworkWriter& writer, const RandomLayers& layers, bool microbatches) {
  Losses losses(random, writer, microbatches);
  losses.Add(layers.last());
  if (random.OneIn(3)) losses.Add(layers.Any());
}

}  // namespace adjoin
