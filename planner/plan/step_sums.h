// The numbers that all ranks add up once per training step. The planner makes room for them in ProgramPlan.report_op,
// and the trainer fills them in.
//
//   const StepSums mine = {.loss = share, .stops_asked = 0, .squared_gradient_norm = squares, .words = {}};
//   ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> sums, network.SumOverRanks(mine.ToVector()));
//   const StepSums all = StepSums::FromVector(sums);
#ifndef ADJOIN_PLANNER_PLAN_STEP_SUMS_H_
#define ADJOIN_PLANNER_PLAN_STEP_SUMS_H_

#include <array>
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

  static constexpr int64_t kNumbers = 3 + std::tuple_size<StepWords>::value;

  std::vector<double> ToVector() const { return {loss, stops_asked, squared_gradient_norm, words[0], words[1]}; }

  // `numbers`: kNumbers of them, in the order of ToVector.
  static StepSums FromVector(const std::vector<double>& numbers) {
    return {.loss = numbers.at(0),
            .stops_asked = numbers.at(1),
            .squared_gradient_norm = numbers.at(2),
            .words = {numbers.at(3), numbers.at(4)}};
  }
};

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_STEP_SUMS_H_
