// Random numbers that belong to global indices, not to ranks: any rank can compute any of them, in any order.
//
//   double u = UniformAt(seed, kPurposeInit, /*step=*/0, /*index=*/17);           // in [0, 1)
//   std::vector<int64_t> order = Permutation(seed, kPurposeShuffle, epoch, 10000);
//
// A number is a function of (seed, purpose, step, index) only. The generator is Philox4x32-10 of Salmon, Moraes, Dror
// and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), checked against the vectors of its authors'
// library. Pure functions and values; any thread.
#ifndef ADJOIN_PRIMITIVES_RANDOM_PHILOX_H_
#define ADJOIN_PRIMITIVES_RANDOM_PHILOX_H_

#include <array>
#include <cstdint>
#include <vector>

namespace adjoin {

// The purpose of a stream of numbers, so that two uses of one seed never share numbers.
inline constexpr uint64_t kPurposeInit = 1;        // initial weights; step: the parameter's position in the plan
inline constexpr uint64_t kPurposeShuffle = 2;     // the order of samples; step: the epoch
inline constexpr uint64_t kPurposeBlocks = 3;      // which block of which sample; step: the epoch
inline constexpr uint64_t kPurposeAugment = 4;     // flips and shifts; step: the epoch
inline constexpr uint64_t kPurposeSynthetic = 5;   // values without a file; step: the field
inline constexpr uint64_t kPurposeDropout = 6;     // which elements stay; step: the optimizer's and the layer
inline constexpr uint64_t kPurposeNoise = 7;       // likewise
inline constexpr uint64_t kPurposeForeground = 8;  // which cells of a label blocks are drawn around; step: the sample

// The bijection itself: ten rounds.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// The stream of one (seed, purpose, step): derives its key once, so it is the cheaper form for many indices.
class RandomStream {
 public:
  RandomStream(uint64_t seed, uint64_t purpose, uint64_t step);

  uint64_t BitsAt(uint64_t index) const;
  // In [0, 1), a multiple of 2^-53.
  double UniformAt(uint64_t index) const;
  // 0 .. n-1; n is at least 1. From 64 random bits, so that the bias is below n / 2^64.
  uint64_t BelowAt(uint64_t index, uint64_t n) const;

 private:
  std::array<uint32_t, 2> key_;
  uint64_t step_;
};

// RandomStream(seed, purpose, step).UniformAt(index).
double UniformAt(uint64_t seed, uint64_t purpose, uint64_t step, uint64_t index);

// 0 .. n-1 in a random order (Fisher-Yates). n is not negative.
std::vector<int64_t> Permutation(uint64_t seed, uint64_t purpose, uint64_t step, int64_t n);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_RANDOM_PHILOX_H_
