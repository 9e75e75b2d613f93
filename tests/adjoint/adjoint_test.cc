// Every movement x every type x every transport, on 1 to 8 ranks: hundreds of random cases of each, proved by
// ProveCases.
//
// A failure names its case: ADJOIN_TEST_CASE=Halo:float16:5:123 runs that one alone, on every transport.
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/movement_plan.h"
#include "primitives/geometry/random_cases.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/adjoint/case_run.h"
#include "tests/adjoint/movement_cases.h"

namespace adjoin {
namespace {

constexpr DType kTypes[] = {DType::kFloat64,   DType::kFloat32,    DType::kBFloat16, DType::kFloat16,
                            DType::kComplex64, DType::kComplex128, DType::kInt64,    DType::kBool};
// The cases of each type and number of ranks: 4 + 7 x 40 are 284.
constexpr int kCasesOnOneRank = 4;
constexpr int kCasesOnMore = 40;
constexpr int kCasesOnMoreOnDevice = 3;

struct CaseSeed {
  CaseKind kind;
  DType dtype;
  int ranks;
  uint64_t seed;
};

MovementCase CaseOf(const CaseSeed& s) {
  Draw draw(s.seed);
  MovementCase c = RandomCase(draw, s.kind, s.ranks, s.dtype);
  c.what = absl::StrCat("ADJOIN_TEST_CASE=", ToString(s.kind), ":", ToString(s.dtype), ":", s.ranks, ":", s.seed, ": ",
                        c.what);
  return c;
}

// Whether ADJOIN_TEST_TRANSPORT asks for a device's memory: then on that alone, and fewer cases.
bool OnDevice() { return ChosenTransport(TransportKind::kInMemoryDelayed) != TransportKind::kInMemoryDelayed; }

// With one choice of algorithms, or with every one.
void Prove(std::vector<MovementCase> cases, int ranks, uint64_t delays, const std::vector<AlgorithmChoice>& choices) {
  for (AlgorithmChoice choice : choices) {
    for (MovementCase& c : cases) c.options.algorithms = choice;
    std::vector<CaseResults> results;  // the same bits on every transport
    for (TransportKind transport : kAllTransportKinds) {
      if (OnDevice() && transport != TransportKind::kInMemoryDelayed) continue;
      const absl::Status status = ProveCases(cases, ranks, transport, delays, &results);
      ASSERT_TRUE(status.ok()) << ToString(transport) << ", delays of seed " << delays
                               << (choice == AlgorithmChoice::kGroups ? ", groups: " : ": ") << status;
    }
  }
}

// Where groups of ranks can do a collective, which on small tensors would be no cheaper: both ways.
std::vector<AlgorithmChoice> ChoicesFor(CaseKind kind) {
  switch (kind) {
    case CaseKind::kBroadcast:
    case CaseKind::kSumReduce:
    case CaseKind::kAllSumReduce:
    case CaseKind::kRedistribute: return {AlgorithmChoice::kCheapest, AlgorithmChoice::kGroups};
    default: return {AlgorithmChoice::kCheapest};
  }
}

std::optional<CaseSeed> CaseFromEnvironment() {
  const char* text = std::getenv("ADJOIN_TEST_CASE");
  if (text == nullptr) return std::nullopt;
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  CaseSeed s{};
  bool known = false;
  for (CaseKind kind : kAllCaseKinds) {
    if (ToString(kind) != parts[0]) continue;
    s.kind = kind;
    known = true;
  }
  if (!known || parts.size() != 4 || !ParseDType(parts[1]).ok() || !absl::SimpleAtoi(parts[2], &s.ranks) ||
      !absl::SimpleAtoi(parts[3], &s.seed)) {
    ADD_FAILURE() << "ADJOIN_TEST_CASE=" << text << ", expected for example Halo:float16:5:123";
    return std::nullopt;
  }
  s.dtype = *ParseDType(parts[1]);
  return s;
}

class AdjointTest : public testing::TestWithParam<CaseKind> {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};

TEST_P(AdjointTest, HoldsForEveryTypeOnEveryTransport) {
  if (const std::optional<CaseSeed> only = CaseFromEnvironment(); only.has_value()) {
    if (only->kind == GetParam()) Prove({CaseOf(*only)}, only->ranks, only->seed, ChoicesFor(only->kind));
    return;
  }
  Draw draw = Draw::FromEnvironment();
  for (int ranks = 1; ranks <= 8; ++ranks) {
    std::vector<MovementCase> cases;
    for (DType dtype : kTypes) {
      for (int i = 0; i < (ranks == 1 ? kCasesOnOneRank : OnDevice() ? kCasesOnMoreOnDevice : kCasesOnMore); ++i) {
        cases.push_back(CaseOf({GetParam(), dtype, ranks, draw.engine()()}));
      }
    }
    Prove(std::move(cases), ranks, draw.engine()(), ChoicesFor(GetParam()));
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, AdjointTest, testing::ValuesIn(kAllCaseKinds),
                         [](const auto& info) { return ToString(info.param); });

}  // namespace
}  // namespace adjoin
