// The numbers that all ranks add up once per training step. The planner makes room for them in ProgramPlan.report_op,
// and the trainer fills them in.
//
//   const StepSums mine = {.loss = share, .stops_asked = 0, .squared_gradient_norm = squares, .words = {}};
//   ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> sums, network.SumOverRanks(mine.ToVector()));
//   const StepSums all = StepSums::FromVector(sums);
#ifndef ADJOIN_PLANNER_PLAN_STEP_SUMS_H_
#define ADJOIN_PLANNER_PLAN_STEP_SUMS_H_

#include <array>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <vector>

namespace adjoin {

// Two numbers whose meaning the caller of the trainer chooses. The trainer only adds them up.
using StepWords = std::array<double, 2>;

struct StepSums {
  double loss = 0;                   // this rank's share
  double stops_asked = 0;            // 1 where this rank was asked to stop
  double squared_gradient_norm = 0;  // this rank's gradients; 0 unless the job clips
  StepWords words = {};
  // How many of the next steps are to be traced: rank 0 says so. A whole number, of which there is room for
  // kMostTraced.
  double traces_asked = 0;

  static constexpr double kMostTraced = 65535;

  static constexpr int64_t kNumbers = 3 + std::tuple_size<StepWords>::value;

  std::vector<double> ToVector() const {
    return {loss, stops_asked + traces_asked * kOneTrace, squared_gradient_norm, words[0], words[1]};
  }

  // `numbers`: kNumbers of them, in the order of ToVector.
  static StepSums FromVector(const std::vector<double>& numbers) {
    const double traces = std::floor(numbers.at(1) / kOneTrace);
    return {.loss = numbers.at(0),
            .stops_asked = numbers.at(1) - traces * kOneTrace,
            .squared_gradient_norm = numbers.at(2),
            .words = {numbers.at(3), numbers.at(4)},
            .traces_asked = traces};
  }

 private:
  // One number holds both counts, exactly: more ranks than this there are none, and the product is below 2^53.
  static constexpr double kOneTrace = 4294967296.0;  // 2^32
};

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_STEP_SUMS_H_
