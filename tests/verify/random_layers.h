// Layers of a random network, one after another. Each reads the value before it, and where it takes several inputs also
// earlier ones, or small ones of its own.
//
//   RandomLayers layers(random, writer, /*microbatches=*/false);
//   layers.Begin();                                       // the fields of the samples
//   for (int i = 0; i < 5; ++i) layers.AddAny();
//   layers.last().shape;
#ifndef ADJOIN_TESTS_VERIFY_RANDOM_LAYERS_H_
#define ADJOIN_TESTS_VERIFY_RANDOM_LAYERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "layers/pointwise/activation_functions.h"
#include "tests/verify/network_writer.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {

class RandomLayers {
 public:
  // With `microbatches`, no layer that mixes the samples of a batch.
  RandomLayers(RandomJobs& random, NetworkWriter& writer, bool microbatches)
      : random_(random), writer_(writer), microbatches_(microbatches) {}

  void Begin();
  // A layer of a kind that can read the last value.
  void AddAny();
  // A layer that is trained, whatever the others are.
  void End();

  const Value& last() const { return x_; }
  // One of the values so far.
  const Value& Any() const { return random_.OneIn(2) ? x_ : values_[random_.Between(0, values_.size() - 1)]; }

 private:
  using Shape = std::vector<int64_t>;

  int64_t Dims() const { return static_cast<int64_t>(x_.shape.size()); }
  int64_t Spatial() const { return Dims() - 2; }  // where dim 1 has channels
  static int64_t Cells(const Shape& shape);       // of a sample
  bool Fits(const Shape& shape) const { return Cells(shape) <= 700; }
  std::string Windows();  // and their shifts, for Spatial() dims
  std::string Some(const std::string& text) { return random_.OneIn(2) ? " " + text : ""; }
  // The last value through a layer that becomes the last one.
  bool Put(const std::string& kind, const std::string& arguments, const Shape& shape, const LayerTraits& traits = {});
  // Two such layers with one weight, the second of another value: their sum becomes the last value.
  bool PutTwice(const std::string& kind, const std::string& arguments, const Shape& shape, const LayerTraits& traits);
  // An embedding of the samples' numbers; sometimes of two fields, by one table.
  void Embed();
  // Another value of the last one's shape, or one that broadcasts to it.
  Value Another(bool broadcast);

  Value ScoreBias(int64_t heads, int64_t queries, int64_t keys);

  // Brings the numbers of the last value into a domain.
  void PutWithin(ActivationDomain domain);

  // Each returns false where it has no case for the last value.
  bool Activation();
  bool Dropout();
  bool Noise();
  bool Softmax();
  bool BatchNorm();
  bool GroupNorm();
  bool InstanceNorm();
  bool LayerNorm();
  bool LocalResponseNorm();
  bool OwnParameter();
  bool Reduce();
  bool Matmul();
  bool Conv();
  bool TransposedConv();
  bool Pool();
  bool AdaptivePool();
  bool Upsample();
  bool PixelShuffle();
  bool PixelUnshuffle();
  bool CropOrPad();
  bool Combine();
  bool Concat();
  bool Reshape();
  bool Flatten();
  bool Permute();
  bool MovedBatch();
  bool Flip();
  bool Roll();
  bool IndexSelect();
  bool Repeat();
  bool Expand();
  bool Repartition();
  bool Linear();
  bool Tied();
  bool Attention();
  bool PlainAttention();
  bool WindowAttention();
  bool Transformer();
  bool Position();
  bool Tokens();

  RandomJobs& random_;
  NetworkWriter& writer_;
  const bool microbatches_;
  Value x_;
  std::vector<Value> values_;
  std::string table_;  // the layer that has the embedding's table, [rows, features]; empty: none
  int64_t table_rows_ = 0, table_features_ = 0;
  bool ties_ = false;  // elements may be equal but for rounding: which is the largest is then open
};

}  // namespace adjoin

#endif  // ADJOIN_TESTS_VERIFY_RANDOM_LAYERS_H_
