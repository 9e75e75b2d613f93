// Outputs that each are one cell of the input: rolled, mirrored, repeated, or listed one by one.
//
//   IndexSelection roll = *IndexSelection::Cyclic({.outputs = 8, .start = 5, .modulus = 8});      // torch.roll by 3
//   IndexSelection flip = *IndexSelection::Cyclic({.outputs = 8, .start = 7, .step = -1, .modulus = 8});
//   IndexSelection twice = *IndexSelection::Cyclic({.outputs = 16, .modulus = 8});                // Tensor.repeat
//   IndexSelection some = *IndexSelection::Of({3, 0, 3});                                         // torch.index_select
//   roll.Needed({0, 4}, 8);    // [5, 8) at 0 and [0, 1) at 3
//
// Output i is the input's cell (start + step i) mod modulus. Where the modulus is larger than the input, cells beyond
// its end are the zero boundary: shifted windows pad a dim, and roll what they have padded.
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_INDEX_SELECTION_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_INDEX_SELECTION_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/need.h"

namespace adjoin {

class IndexSelection {
 public:
  struct Options {
    int64_t outputs = 0;
    int64_t start = 0;  // any number: taken modulo `modulus`
    int64_t step = 1;   // 1 or -1
    int64_t modulus = 0;
  };

  // Errors: kInvalidArgument (negative outputs; another step; a modulus below 1 where there are outputs; numbers above
  // 2^46).
  static absl::StatusOr<IndexSelection> Cyclic(const Options& options);
  // Errors: kInvalidArgument for a negative index.
  static absl::StatusOr<IndexSelection> Of(std::vector<int64_t> indices);

  // The options as given; for Cyclic with `start` in [0, modulus).
  const Options& options() const { return options_; }
  const std::vector<int64_t>& indices() const { return indices_; }  // those given to Of
  bool is_list() const { return is_list_; }

  // Errors: kInvalidArgument where an index is not within the input of n cells, the modulus is below n, or, mirrored,
  // is not n.
  absl::StatusOr<int64_t> OutputSize(int64_t n) const;
  // The hull of the input's cells that `outputs` are.
  Interval Reads(Interval outputs, int64_t n) const;
  // Each of them is fetched once, with those between them where they are more than 64 runs. Cyclic outputs that pass no
  // cell twice are fetched to where they belong; of others IndexMap says where they are.
  Need Needed(Interval outputs, int64_t n) const;
  // Output outputs.lo + i is cell IndexMap[i] of what is fetched; empty where the two are the same tensor.
  std::vector<int64_t> IndexMap(Interval outputs, int64_t n) const;

  std::string ToString() const;  // "roll from 5 of 8", "mirror from 7 of 8", "3 of a list"

 private:
  explicit IndexSelection(const Options& options) : options_(options) {}
  explicit IndexSelection(std::vector<int64_t> indices);
  int64_t CellOf(int64_t output) const;
  bool InPlace(Interval outputs) const { return !is_list_ && options_.step == 1 && outputs.size() <= options_.modulus; }
  // What `outputs`, not in place, are: in order, each once.
  std::vector<Interval> Runs(Interval outputs) const;

  bool is_list_ = false;
  Options options_;
  std::vector<int64_t> indices_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_INDEX_SELECTION_H_
