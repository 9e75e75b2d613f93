#include "worker/samples/label_cells.h"

#include <algorithm>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "primitives/random/philox.h"
#include "worker/data/box_runs.h"
#include "worker/samples/sample_pieces.h"

namespace adjoin {
namespace {

// In cells, of 8 bytes.
constexpr size_t kMostCellsKept = size_t{1} << 24;
constexpr size_t kSizeOfSample = 32;  // what else is kept of each

// The cells of one label whose random numbers are least: a choice that does not depend on the order of the cells.
class Chosen {
 public:
  void Add(uint64_t number, int64_t cell) {
    const std::pair<uint64_t, int64_t> added(number, cell);
    if (heap_.size() == LabelCells::kMostCells) {
      if (added > heap_.front()) return;
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.pop_back();
    }
    heap_.push_back(added);
    std::push_heap(heap_.begin(), heap_.end());
  }
  std::vector<int64_t> Cells() const {
    std::vector<int64_t> cells;
    for (const auto& [number, cell] : heap_) cells.push_back(cell);
    std::sort(cells.begin(), cells.end());
    return cells;
  }

 private:
  std::vector<std::pair<uint64_t, int64_t>> heap_;  // the greatest first
};

std::string PositionIn(const Box& box, int64_t cell) {
  return absl::StrCat("position [", absl::StrJoin(box.CellAt(cell), ", "), "]");
}

}  // namespace

absl::StatusOr<std::unique_ptr<LabelCells>> LabelCells::Create(const Dataset& dataset, uint64_t seed,
                                                               FieldSource* source) {
  const Foreground& foreground = dataset.blocks().foreground();
  const auto field = std::find_if(dataset.field().begin(), dataset.field().end(),
                                  [&](const Field& f) { return f.name() == foreground.field(); });
  if (field == dataset.field().end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data set \"", dataset.name(), "\" has no field \"", foreground.field(), "\""));
  }
  ADJOIN_ASSIGN_OR_RETURN(CellRules rules,
                          CellRules::Create(*field, {field->shape().begin(), field->shape().end()}, DType::kInt64));
  return std::unique_ptr<LabelCells>(new LabelCells(foreground, std::move(rules), seed, source));
}

absl::StatusOr<const std::vector<LabelCells::OfLabel>*> LabelCells::Of(int64_t sample, const std::atomic<bool>& stop) {
  const auto known = kept_.find(sample);
  if (known != kept_.end()) {
    used_.splice(used_.begin(), used_, known->second.used);
    return &known->second.labels;
  }
  Kept found;
  ADJOIN_ASSIGN_OR_RETURN(found.labels, Find(sample, stop));
  found.size = kSizeOfSample;
  for (const OfLabel& label : found.labels) found.size += label.cell.size();
  size_ += found.size;
  used_.push_front(sample);
  found.used = used_.begin();
  const Kept& kept = kept_[sample] = std::move(found);
  while (size_ > kMostCellsKept && used_.size() > 1) {
    const auto oldest = kept_.find(used_.back());
    size_ -= oldest->second.size;
    kept_.erase(oldest);
    used_.pop_back();
  }
  return &kept.labels;
}

absl::StatusOr<std::vector<LabelCells::OfLabel>> LabelCells::Find(int64_t sample, const std::atomic<bool>& stop) const {
  const std::vector<int64_t>& shape = source_->ShapeOf(sample);
  const RandomStream stream(seed_, kPurposeForeground, static_cast<uint64_t>(sample));
  std::map<int64_t, Chosen> chosen;
  const auto visit = [&](const Box& piece, double* cells) -> absl::Status {
    if (const std::optional<CellRules::Wrong> wrong = rules_.Apply(cells, 1, piece)) {
      return absl::InvalidArgumentError(
          absl::StrCat(source_->NameOf(sample), ": ", PositionIn(piece, wrong->cell), ": ", wrong->what));
    }
    const double* cell = cells;
    std::optional<int64_t> last;  // neighbours mostly have one label
    Chosen* of_last = nullptr;
    return ForEachRun(shape, piece, [&](const CellRun& run) -> absl::Status {
      for (int64_t at = run.first; at < run.first + run.count; ++at) {
        const auto label = static_cast<int64_t>(*cell++);
        if (label != last) {
          last = label;
          of_last = (named_.empty() ? label != 0 : named_.count(label) > 0) ? &chosen[label] : nullptr;
          if (named_.empty() && chosen.size() > kMostLabels) {
            return absl::InvalidArgumentError(
                absl::StrCat(source_->NameOf(sample), ": has more than ", kMostLabels,
                             " labels; name those that blocks are drawn around, blocks.foreground.label"));
          }
        }
        if (of_last != nullptr) of_last->Add(stream.BitsAt(static_cast<uint64_t>(at)), at);
      }
      return absl::OkStatus();
    });
  };
  ADJOIN_RETURN_IF_ERROR(ForEachSamplePiece(*source_, sample, Box::Whole(shape), stop, visit));
  std::vector<OfLabel> labels;
  for (const auto& [label, cells] : chosen) labels.push_back({label, cells.Cells()});
  return labels;
}

}  // namespace adjoin
