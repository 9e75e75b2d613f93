// The rules for each value of a field between its file and the tensor: remapping, scaling, checks.
//
//   ADJOIN_ASSIGN_OR_RETURN(CellRules rules, CellRules::Create(field, {3, 32, 32}, DType::kFloat32));
//   if (auto wrong = rules.Apply(cells, /*count=*/2, box)) ...    // wrong->cell of `cells`: wrong->what
//
// remap, then (value * scale - mean) / std. Values, no threads.
#ifndef ADJOIN_WORKER_SAMPLES_CELL_RULES_H_
#define ADJOIN_WORKER_SAMPLES_CELL_RULES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "proto/job.pb.h"

namespace adjoin {

// The bound that a loss sets to labels: 0 .. classes - 1.
struct ClassBound {
  int64_t classes = 0;
  std::optional<int64_t> ignored;  // also allowed
};

class CellRules {
 public:
  // `sample_shape`: a whole sample's. Errors: kInvalidArgument (a number of means or stds that is neither 1 nor that of
  // the channels; a dtype that fields do not have).
  static absl::StatusOr<CellRules> Create(const Field& field, const std::vector<int64_t>& sample_shape, DType dtype);
  void Bound(const ClassBound& bound) { bounds_.push_back(bound); }

  struct Wrong {
    int64_t cell = 0;
    std::string what;  // "the label is 12; ..."
  };
  // Changes the cells of `count` samples' boxes, row-major; the channel is the box's first dim. Returns the first wrong
  // cell.
  std::optional<Wrong> Apply(double* cells, int64_t count, const Box& box) const;

 private:
  explicit CellRules(const Field& field) : field_(field) {}
  std::optional<Wrong> Remap(double* cells, int64_t count) const;
  void Normalise(double* cells, int64_t count, const Box& box) const;
  std::optional<Wrong> CheckWhole(const double* cells, int64_t count) const;
  std::optional<Wrong> CheckClasses(const double* cells, int64_t count, const ClassBound& bound) const;

  Field field_;
  bool whole_ = false;  // the dtype has whole numbers only
  std::vector<ClassBound> bounds_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SAMPLES_CELL_RULES_H_
