// Layers of several inputs, and those of sequences.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/verify/random_layers.h"

namespace adjoin {

Value RandomLayers::Another(bool broadcast) {
  if (broadcast && Dims() > 2) {
    Shape shape = x_.shape;
    if (Spatial() <= 3 && random_.OneIn(2)) {
      std::vector<int64_t> sizes;
      for (int64_t dim = 2; dim < Dims(); ++dim) {
        sizes.push_back(random_.OneIn(2) ? 1 : -1);
        if (sizes.back() == 1) shape[dim] = 1;
      }
      return writer_.Add("pool", absl::StrCat("{ mode: \"avg\" adaptive_size: ", ListText(sizes), " }"), {x_}, shape);
    }
    shape.back() = 1;
    return writer_.Add("linear", "{ out_features: 1 }", {x_}, shape, {.parameters = true});
  }
  for (const Value& value : values_) {
    if (value.shape == x_.shape && value.name != x_.name && random_.OneIn(2)) return value;
  }
  return writer_.Add("activation", "{ fn: \"sigmoid\" }", {x_}, x_.shape);
}

bool RandomLayers::Combine() {
  const Value other = Another(random_.OneIn(2));
  std::vector<Value> inputs = {x_, other};
  if (random_.OneIn(4)) inputs.push_back(x_);
  if (random_.OneIn(2)) std::reverse(inputs.begin(), inputs.end());
  const std::string kind = random_.OneIn(2) ? "add" : "multiply";
  x_ = writer_.Add(kind, "{}", inputs, x_.shape);
  values_.push_back(x_);
  return kind == "add" || Put("activation", "{ fn: \"softsign\" }", x_.shape);
}

bool RandomLayers::Concat() {
  const int64_t dim = random_.Between(1, Dims() - 1);
  Shape shape = x_.shape;
  shape[dim] *= 2;
  if (!Fits(shape)) return false;
  x_ = writer_.Add("concat", absl::StrCat("{ arg: ", dim, " }"), {x_, Another(false)}, shape);
  values_.push_back(x_);
  ties_ = true;
  return true;
}

// Parameters, the same for all samples.
Value RandomLayers::ScoreBias(int64_t heads, int64_t queries, int64_t keys) {
  Shape shape = {1, heads, queries, keys};
  for (size_t dim = 1; dim < shape.size(); ++dim) {
    if (random_.OneIn(4)) shape[dim] = 1;
  }
  const std::string arguments = absl::StrCat("{ shape: [", absl::StrJoin(shape, ", "), "] combine: \"expand\" }");
  shape[0] = x_.shape[0];
  return writer_.Add("parameter", arguments, {x_}, shape, {.parameters = true});
}

// What the heads work with are layers' outputs; the values' width is one of its own.
bool RandomLayers::PlainAttention() {
  if (Dims() != 3 || Cells(x_.shape) > 200) return false;
  const int64_t heads = random_.Between(1, 3);
  const auto made = [&](int64_t width) {
    Shape shape = x_.shape;
    shape[2] = heads * width;
    return writer_.Add("linear", absl::StrCat("{ out_features: ", shape[2], " }"), {x_}, shape, {.parameters = true});
  };
  const int64_t width = random_.Between(1, 3), value_width = random_.Between(1, 3);
  std::vector<Value> inputs = {made(width), made(width), made(value_width)};
  const bool biased = random_.OneIn(2);
  if (biased) inputs.push_back(ScoreBias(heads, x_.shape[1], x_.shape[1]));
  const Shape queries = inputs[0].shape;
  Shape shape = x_.shape;
  shape[2] = heads * value_width;
  x_ = writer_.Add("attention",
                   absl::StrCat("{ heads: ", heads, " projections: false", biased ? " score_bias: true" : "",
                                Some("causal: true"), Some("scale: 0.3"), " }"),
                   inputs, shape, {.weight = queries});
  values_.push_back(x_);
  ties_ = true;
  writer_.Drawn("attention without projections");
  return true;
}

bool RandomLayers::Attention() {
  if (Dims() != 3 || Cells(x_.shape) > 200) return false;
  const int64_t features = x_.shape[2], heads = features % 2 == 0 ? 2 : 1;
  std::vector<Value> inputs = {x_};
  if (random_.OneIn(2)) {
    // Keys of another length and another number of features.
    Shape shape = x_.shape;
    shape[2] = random_.Between(1, 6);
    Value keys =
        writer_.Add("linear", absl::StrCat("{ out_features: ", shape[2], " }"), {x_}, shape, {.parameters = true});
    if (shape[1] > 2 && random_.OneIn(2)) {
      --shape[1];
      keys = writer_.Add("crop", "{ arg: [0, 0, 1, 0] }", {keys}, shape);
    }
    inputs.push_back(keys);
    if (random_.OneIn(2)) {
      shape[2] = random_.Between(1, 6);
      inputs.push_back(
          writer_.Add("linear", absl::StrCat("{ out_features: ", shape[2], " }"), {keys}, shape, {.parameters = true}));
    }
    writer_.Drawn(absl::StrCat("attention of ", inputs.size()));
  }
  const LayerTraits traits = {.parameters = true, .weight = x_.shape};
  std::string arguments = absl::StrCat("{ heads: ", heads, inputs.size() == 1 ? Some("causal: true") : "",
                                       Some("bias: false"), random_.OneIn(4) ? " dropout: 0.25" : "");
  if (random_.OneIn(3)) {
    inputs.push_back(ScoreBias(heads, x_.shape[1], inputs.back().shape[1]));
    arguments += " score_bias: true";
    writer_.Drawn("a bias of scores");
  }
  arguments += " }";
  if (inputs.size() == 1) return Put("attention", arguments, x_.shape, traits);
  x_ = writer_.Add("attention", arguments, inputs, x_.shape, traits);
  values_.push_back(x_);
  return true;
}

bool RandomLayers::WindowAttention() {
  if (Spatial() < 1 || Spatial() > 3) return false;
  const int64_t heads = x_.shape.back() % 2 == 0 ? 2 : 1;
  return Put(
      "window_attention",
      absl::StrCat("{ heads: ", heads, Windows(), Some("bias: false"), random_.OneIn(4) ? " dropout: 0.25" : "", " }"),
      x_.shape, {.parameters = true, .weight = x_.shape});
}

bool RandomLayers::Transformer() {
  if (Spatial() < 1 || Spatial() > 3 || x_.shape.back() < 2 || Cells(x_.shape) > 300) return false;
  const bool window = Dims() > 3 || random_.OneIn(3);
  const int64_t heads = x_.shape.back() % 2 == 0 ? 2 : 1;
  const std::string more =
      window ? Windows() : Some("norm_first: false") + Some("activation: \"relu\"") + Some("causal: true");
  return Put("transformer",
             absl::StrCat("{ heads: ", heads, " hidden: ", random_.Between(2, 6), more,
                          random_.OneIn(4) ? " dropout: 0.25" : "", " }"),
             x_.shape, {.parameters = true, .weight = x_.shape});
}

bool RandomLayers::Position() {
  if (Dims() < 3) return false;
  const bool learned = Dims() > 3 || x_.shape[2] % 2 != 0 || random_.OneIn(2);
  return Put("position", learned ? "{ kind: \"learned\" }" : "{ kind: \"sinusoidal\" }", x_.shape,
             {.parameters = learned});
}

// Before the sequence, as a class token.
bool RandomLayers::Tokens() {
  if (Dims() != 3) return false;
  const int64_t count = random_.Between(1, 3);
  Shape shape = x_.shape;
  shape[1] = count;
  const Value tokens = writer_.Add("tokens", absl::StrCat("{ count: ", count, " }"), {x_}, shape, {.parameters = true});
  shape[1] += x_.shape[1];
  if (!Fits(shape)) return false;
  x_ = writer_.Add("concat", "{ arg: 1 }", {tokens, x_}, shape);
  values_.push_back(x_);
  ties_ = true;
  return true;
}

bool RandomLayers::OwnParameter() {
  const bool expands = Dims() > 2 && random_.OneIn(4);
  Shape shape = x_.shape;
  if (expands) {
    shape[0] = 1;
  } else {
    shape.erase(shape.begin(), shape.begin() + random_.Between(1, Dims() - 1));
    if (random_.OneIn(3)) shape[0] = 1;
  }
  const std::string combine = expands ? "expand" : random_.OneIn(2) ? "add" : "multiply";
  const std::string arguments =
      absl::StrCat("{ shape: [", absl::StrJoin(shape, ", "), "] combine: \"", combine, "\" }");
  if (!expands) return Put("parameter", arguments, x_.shape, {.parameters = true});
  const Value same = writer_.Add("parameter", arguments, {x_}, x_.shape, {.parameters = true});
  x_ = writer_.Add("add", "{}", {same, x_}, x_.shape);
  values_.push_back(x_);
  ties_ = true;
  return true;
}

// Over one dim; the result is as wide as before.
bool RandomLayers::Reduce() {
  if (Dims() < 3) return false;
  const int64_t dim = random_.Between(1, Dims() - 1);
  const std::string kind = random_.Of<std::string>({"sum", "mean", "var", "amax", "amin"});
  if (kind == "var" && x_.shape[dim] < 2) return false;
  if (kind[0] == 'a' && ties_) return false;
  Shape shape = x_.shape;
  shape[dim] = 1;
  const Value sum = writer_.Add(
      "reduce", absl::StrCat("{ kind: \"", kind, "\" dim: ", random_.OneIn(2) ? dim : dim - Dims(), " keepdim: true }"),
      {x_}, shape);
  x_ = writer_.Add("add", "{}", {x_, sum}, x_.shape);
  values_.push_back(x_);
  ties_ = true;
  return true;
}

// Products of all pairs of rows.
bool RandomLayers::Matmul() {
  if (Dims() < 3) return false;
  std::vector<int64_t> order(Dims());
  for (int64_t dim = 0; dim < Dims(); ++dim) order[dim] = dim;
  std::swap(order[Dims() - 1], order[Dims() - 2]);
  Shape turned = x_.shape, shape = x_.shape;
  std::swap(turned[Dims() - 1], turned[Dims() - 2]);
  shape[Dims() - 1] = shape[Dims() - 2];
  if (!Fits(shape)) return false;
  const Value columns =
      writer_.Add("permute", absl::StrCat("{ arg: [", absl::StrJoin(order, ", "), "] }"), {x_}, turned);
  const Value product = writer_.Add("matmul", "{}", {x_, columns}, shape);
  x_ = writer_.Add("activation", "{ fn: \"tanh\" }", {product}, shape);
  values_.push_back(x_);
  ties_ = true;
  return true;
}

void RandomLayers::Embed() {
  constexpr char kNumbers[] = "dtype: \"int64\" synthetic { kind: \"index\" samples: 1000 low: 0 high: 10 }";
  Shape shape = {writer_.rows()};
  for (int64_t i = random_.Between(1, 2); i > 0; --i) shape.push_back(random_.Between(2, 5));
  const Value numbers = writer_.Field("x", shape, kNumbers);
  const bool two = random_.OneIn(3);
  const Value more = two ? writer_.Field("x2", shape, kNumbers) : Value();
  table_rows_ = random_.Between(10, 12);
  table_features_ = 2 * random_.Between(1, 3);
  const Shape scores = [&] {
    Shape result = shape;
    result.push_back(table_rows_);
    return result;
  }();
  shape.push_back(table_features_);
  const std::string arguments = absl::StrCat("{ num_embeddings: ", table_rows_, " dim: ", table_features_,
                                             random_.OneIn(3) ? " padding_index: 0" : "", " }");
  // The linear layer that follows may have the table.
  const bool tied = random_.OneIn(3);
  LayerTraits own = {.parameters = true}, uses = own;
  uses.weights_of = table_ = writer_.NextName(tied ? (two ? 3 : 1) : 0);
  x_ = writer_.Add("embedding", arguments, {numbers}, shape, tied ? uses : own);
  values_.push_back(x_);
  if (two) {
    const Value second = writer_.Add("embedding", arguments, {more}, shape, uses);
    x_ = writer_.Add("add", "{}", {x_, second}, shape);
    values_.push_back(x_);
  }
  if (tied) {
    x_ = writer_.Add("linear", absl::StrCat("{ out_features: ", table_rows_, " bias: false }"), {x_}, scores,
                     {.parameters = true, .weight = {table_rows_, table_features_}});
    values_.push_back(x_);
    writer_.Drawn("the table of a linear layer");
  }
  ties_ = true;
}

// The scores of the numbers that the samples began with, by the table in which they were looked up.
bool RandomLayers::Tied() {
  if (table_.empty() || x_.shape.back() != table_features_) return false;
  Shape shape = x_.shape;
  shape.back() = table_rows_;
  if (!Fits(shape)) return false;
  writer_.Drawn("the table of an embedding");
  return Put("linear", absl::StrCat("{ out_features: ", table_rows_, " bias: false }"), shape,
             {.parameters = true, .weight = {table_rows_, table_features_}, .weights_of = table_});
}

}  // namespace adjoin
