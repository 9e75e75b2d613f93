#include "layers/rules/program_order.h"

#include <cstddef>

namespace adjoin {

std::vector<LayerStretch> StretchesOf(const ProgramPlan& program, const std::vector<RecomputedRun>& recomputed) {
  std::vector<LayerStretch> stretches;
  auto again = recomputed.begin();
  for (int first = 0; first < program.layer_size(); first = stretches.back().end) {
    const bool recomputes = again != recomputed.end() && again->first == first;
    stretches.push_back({first, recomputes ? again->end : first + 1, recomputes ? &*again : nullptr});
    if (recomputes) ++again;
  }
  return stretches;
}

std::vector<std::vector<uint32_t>> ReadLast(const ProgramPlan& program) {
  constexpr int kNever = -1;
  std::vector<int> last(program.value_size(), kNever);
  for (int i = 0; i < program.layer_size(); ++i) {
    for (const uint32_t input : program.layer(i).input()) last[input] = i;
    last[program.layer(i).output()] = i;
  }
  for (const LossPlan& loss : program.loss()) {
    last[loss.input()] = last[loss.target()] = kNever;
    if (loss.has_variance()) last[loss.variance()] = kNever;
  }
  std::vector<std::vector<uint32_t>> read_last(program.layer_size());
  for (size_t value = 0; value < last.size(); ++value) {
    if (last[value] != kNever) read_last[last[value]].push_back(static_cast<uint32_t>(value));
  }
  return read_last;
}

std::vector<std::vector<int>> WrittenBy(const ProgramPlan& program) {
  std::vector<std::vector<int>> written_by(program.layer_size());
  for (int i = 0; i < program.layer_size(); ++i) {
    for (int o = 0; o < program.output_size(); ++o) {
      if (program.output(o).value() == program.layer(i).output()) written_by[i].push_back(o);
    }
  }
  return written_by;
}

}  // namespace adjoin
