// Operators on the fake device, each with the bits that it has on the CPU: results, and gradients where there are any.
//
//   const FakeOperatorCase kCases[] = {{"sums", [](OperatorDraw& d) { return std::vector{d.Leaf({3, 4}).sum(1)}; }}};
//   INSTANTIATE_TEST_SUITE_P(Sums, OperatorTest, testing::ValuesIn(kCases), OperatorCaseName);
#ifndef ADJOIN_PRIMITIVES_TESTING_FAKE_OPERATOR_CASES_H_
#define ADJOIN_PRIMITIVES_TESTING_FAKE_OPERATOR_CASES_H_

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "gtest/gtest.h"

namespace adjoin {

// OperatorDraws the same numbers on each device.
class OperatorDraw {
 public:
  OperatorDraw(uint64_t seed, at::Device device)
      : device_(device), generator_(at::make_generator<at::CPUGeneratorImpl>(seed)) {}

  at::Tensor Normal(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
    return at::randn(sizes, generator_).to(type).to(device_);
  }
  at::Tensor Positive(at::IntArrayRef sizes) { return (at::rand(sizes, generator_) + 0.1).to(device_); }
  at::Tensor Below(int64_t high, at::IntArrayRef sizes) { return at::randint(high, sizes, generator_).to(device_); }
  at::Tensor Mask(at::IntArrayRef sizes) { return (at::rand(sizes, generator_) < 0.5).to(device_); }
  // A parameter.
  at::Tensor Leaf(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
    leaves_.push_back(Normal(sizes, type).requires_grad_(true));
    return leaves_.back();
  }

  const std::vector<at::Tensor>& leaves() const { return leaves_; }
  at::Device device() const { return device_; }

 private:
  const at::Device device_;
  at::Generator generator_;
  std::vector<at::Tensor> leaves_;
};

struct FakeOperatorCase {
  std::string name;
  std::function<std::vector<at::Tensor>(OperatorDraw&)> run;
  int gradients = 1;  // how often to differentiate
};

inline std::ostream& operator<<(std::ostream& out, const FakeOperatorCase& c) { return out << c.name; }

class OperatorTest : public testing::TestWithParam<FakeOperatorCase> {};

inline std::string OperatorCaseName(const testing::TestParamInfo<FakeOperatorCase>& info) { return info.param.name; }

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TESTING_FAKE_OPERATOR_CASES_H_
