#include "primitives/random/philox.h"

#include <numeric>
#include <utility>

namespace adjoin {
namespace {

uint32_t Low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t High(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

}  // namespace

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {High(p1) ^ c[1] ^ k[0], Low(p1), High(p0) ^ c[3] ^ k[1], Low(p0)};
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  return c;
}

// Seed, purpose, step and index have 256 bits, Philox takes 192: the purpose is mixed into the key by a block of the
// seed's own stream, and the counter is left whole for step and index.
RandomStream::RandomStream(uint64_t seed, uint64_t purpose, uint64_t step) : step_(step) {
  const std::array<uint32_t, 4> block = Philox4x32({Low(purpose), High(purpose), 0, 0}, {Low(seed), High(seed)});
  key_ = {block[0], block[1]};
}

uint64_t RandomStream::BitsAt(uint64_t index) const {
  const std::array<uint32_t, 4> block = Philox4x32({Low(index), High(index), Low(step_), High(step_)}, key_);
  return uint64_t{block[1]} << 32 | block[0];
}

double RandomStream::UniformAt(uint64_t index) const { return static_cast<double>(BitsAt(index) >> 11) * 0x1p-53; }

uint64_t RandomStream::BelowAt(uint64_t index, uint64_t n) const {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(BitsAt(index)) * n >> 64);
}

double UniformAt(uint64_t seed, uint64_t purpose, uint64_t step, uint64_t index) {
  return RandomStream(seed, purpose, step).UniformAt(index);
}

std::vector<int64_t> Permutation(uint64_t seed, uint64_t purpose, uint64_t step, int64_t n) {
  const RandomStream stream(seed, purpose, step);
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t i = n - 1; i > 0; --i) {
    std::swap(order[i], order[static_cast<int64_t>(stream.BelowAt(i, i + 1))]);
  }
  return order;
}

}  // namespace adjoin
