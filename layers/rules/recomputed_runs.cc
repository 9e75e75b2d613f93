#include "layers/rules/recomputed_runs.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/status_macros.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

// Layers of one piece at most: bounds the search, whose time grows with it.
constexpr int kLongestPiece = 1024;
// From one limit for the pieces to the next smaller one that is tried.
constexpr double kLimitStep = 1.1;

// What one layer makes.
struct Made {
  double bytes = 0;
  int last_reader = 0;  // a layer; as many as the program has: a loss
};

// The layers' outputs that losses read.
std::vector<uint32_t> ReadByLosses(const ProgramPlan& program) {
  std::vector<uint32_t> values;
  for (const LossPlan& loss : program.loss()) {
    values.push_back(loss.input());
    if (loss.has_variance()) values.push_back(loss.variance());
  }
  return values;
}

absl::StatusOr<double> BytesOnOneRank(const ValuePlan& value) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(value.layout()));
  auto bytes = static_cast<double>(SizeOf(layout.dtype()));
  for (int dim = 0; dim < layout.dims(); ++dim) {
    const std::vector<int64_t> sizes = PartSizes(layout, dim);
    bytes *= static_cast<double>(*std::max_element(sizes.begin(), sizes.end()));
  }
  return bytes;
}

absl::StatusOr<std::vector<Made>> MadeBy(const ProgramPlan& program) {
  std::vector<int> last(program.value_size(), -1);
  for (int i = 0; i < program.layer_size(); ++i) {
    for (const uint32_t input : program.layer(i).input()) last[input] = i;
  }
  for (const uint32_t value : ReadByLosses(program)) last[value] = program.layer_size();
  std::vector<Made> made;
  for (const LayerPlan& layer : program.layer()) {
    ADJOIN_ASSIGN_OR_RETURN(const double bytes, BytesOnOneRank(program.value(static_cast<int>(layer.output()))));
    made.push_back({bytes, last[layer.output()]});
  }
  return made;
}

// Pieces of one stretch: `starts` of each, and what they cost.
struct Pieces {
  std::vector<int> starts;
  double cost = 0;
};

// Returns the way to cut [first, end) into pieces of at most `limit` bytes each whose pieces keep least.
Pieces PiecesWithin(const std::vector<Made>& made, int first, int end, double limit) {
  const int count = end - first;
  std::vector<double> kept(count + 1, std::numeric_limits<double>::infinity());
  std::vector<int> start(count + 1);
  kept[0] = 0;
  for (int stop = 1; stop <= count; ++stop) {
    double bytes = 0;    // of the piece from `from` to `stop`
    double outputs = 0;  // of those, what later layers read
    for (int from = stop - 1; from >= std::max(0, stop - kLongestPiece); --from) {
      const Made& layer = made[first + from];
      bytes += layer.bytes;
      if (bytes > limit) break;
      if (layer.last_reader >= first + stop) outputs += layer.bytes;
      if (kept[from] + outputs < kept[stop]) {
        kept[stop] = kept[from] + outputs;
        start[stop] = from;
      }
    }
  }
  Pieces pieces;
  pieces.cost = kept[count] + limit;
  for (int stop = count; stop > 0; stop = start[stop]) pieces.starts.push_back(first + start[stop]);
  std::reverse(pieces.starts.begin(), pieces.starts.end());
  return pieces;
}

std::vector<int> BestStarts(const std::vector<Made>& made, int first, int end) {
  double largest = 0, all = 0;
  for (int i = first; i < end; ++i) {
    largest = std::max(largest, made[i].bytes);
    all += made[i].bytes;
  }
  // No limit is below the largest layer, so there is always a way.
  Pieces best = PiecesWithin(made, first, end, largest);
  for (double limit = all; limit > largest; limit /= kLimitStep) {
    Pieces pieces = PiecesWithin(made, first, end, limit);
    if (pieces.cost < best.cost) best = std::move(pieces);
  }
  return best.starts;
}

// Fills in what goes into and comes out of `run`. False where no gradient passes through it.
bool FindValues(const ProgramPlan& program, RecomputedRun& run) {
  std::vector<bool> made(program.value_size()), read_later(program.value_size());
  bool needs_grad = false;
  for (int i = run.end; i < program.layer_size(); ++i) {
    for (uint32_t input : program.layer(i).input()) read_later[input] = true;
  }
  for (const uint32_t value : ReadByLosses(program)) read_later[value] = true;
  for (int i = run.first; i < run.end; ++i) {
    for (uint32_t input : program.layer(i).input()) {
      const bool known = std::find(run.inputs.begin(), run.inputs.end(), input) != run.inputs.end();
      if (!made[input] && !known) run.inputs.push_back(input);
    }
    const uint32_t output = program.layer(i).output();
    made[output] = true;
    needs_grad = needs_grad || program.value(output).needs_grad();
    if (read_later[output]) run.outputs.push_back(output);
  }
  return needs_grad;
}

}  // namespace

absl::StatusOr<std::vector<RecomputedRun>> RecomputedRuns(const ProgramPlan& program) {
  std::vector<RecomputedRun> runs;
  if (!program.training()) return runs;
  const auto marked = [&](int layer) { return program.layer(layer).spec().recompute(); };
  std::vector<Made> made;
  for (int first = 0; first < program.layer_size();) {
    int end = first;
    while (end < program.layer_size() && marked(end)) ++end;
    if (end > first) {
      if (made.empty()) {
        ADJOIN_ASSIGN_OR_RETURN(made, MadeBy(program));
      }
      std::vector<int> starts = BestStarts(made, first, end);
      starts.push_back(end);
      for (size_t piece = 0; piece + 1 < starts.size(); ++piece) {
        RecomputedRun run;
        run.first = starts[piece];
        run.end = starts[piece + 1];
        if (FindValues(program, run)) runs.push_back(std::move(run));
      }
    }
    first = std::max(end, first + 1);
  }
  return runs;
}

}  // namespace adjoin
