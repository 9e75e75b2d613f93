// Where the labels of each sample are, for the blocks that are drawn around them (Blocks.foreground).
//
//   ADJOIN_ASSIGN_OR_RETURN(auto cells, LabelCells::Create(dataset, seed, label_source));
//   ADJOIN_ASSIGN_OR_RETURN(const std::vector<LabelCells::OfLabel>* labels, cells->Of(/*sample=*/3, stop));
//   (*labels)[0].label;       // 1
//   (*labels)[0].cell[17];    // a cell of it, its position in the sample's row-major order
//
// A sample's file is read as a whole when the first block of it is drawn, by every rank. Of a label with more cells,
// 10,000 are kept, drawn from the seed and the cells' positions: the same on every rank. The samples used last are
// kept, up to 2^24 cells together (128 MiB). One thread.
#ifndef ADJOIN_WORKER_SAMPLES_LABEL_CELLS_H_
#define ADJOIN_WORKER_SAMPLES_LABEL_CELLS_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/samples/cell_rules.h"
#include "worker/samples/field_source.h"

namespace adjoin {

class LabelCells {
 public:
  // Most cells that are kept of each label of a sample, and most labels of a sample where the job names none.
  static constexpr size_t kMostCells = 10000;
  static constexpr size_t kMostLabels = 1000;

  struct OfLabel {
    int64_t label = 0;
    std::vector<int64_t> cell;  // not empty; in ascending order
  };

  // `source`, that of Foreground.field, must outlive this. Errors: as CellRules::Create.
  static absl::StatusOr<std::unique_ptr<LabelCells>> Create(const Dataset& dataset, uint64_t seed, FieldSource* source);

  // Returns the labels that the sample has, in ascending order; none where it has none of them. Valid until the next
  // call.
  // Errors: kInvalidArgument, with file and position (a value that is no label; more than kMostLabels labels);
  // kCancelled once `stop` is set; as FieldSource::Read.
  absl::StatusOr<const std::vector<OfLabel>*> Of(int64_t sample, const std::atomic<bool>& stop);

 private:
  struct Kept {
    std::vector<OfLabel> labels;
    size_t size = 0;
    std::list<int64_t>::iterator used;
  };

  LabelCells(const Foreground& foreground, CellRules rules, uint64_t seed, FieldSource* source)
      : named_(foreground.label().begin(), foreground.label().end()),
        rules_(std::move(rules)),
        seed_(seed),
        source_(source) {}
  absl::StatusOr<std::vector<OfLabel>> Find(int64_t sample, const std::atomic<bool>& stop) const;

  const std::set<int64_t> named_;  // empty: all but 0
  const CellRules rules_;
  const uint64_t seed_;
  FieldSource* const source_;
  std::map<int64_t, Kept> kept_;  // by sample
  std::list<int64_t> used_;       // the one used last comes first
  size_t size_ = 0;               // of all
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SAMPLES_LABEL_CELLS_H_
