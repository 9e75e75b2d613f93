// A plan as rows from top to bottom, as its pictures have them: what is drawn and written, not how.
//
//   ADJOIN_ASSIGN_OR_RETURN(const PicturePage page, PicturePageOf(plan, MakePlanReport(plan)));
//   page.rows[1].title;        // "conv1, relu1"
//   page.rows[1].before;       // what moves before it: a halo exchange
//
// A row has a layer and those that follow it on the same parts: one reader each, the same shape and cut, and nothing of
// the tensor moves. The first program is shown, as `adjoin plan` shows it.
#ifndef ADJOIN_PLANNER_PICTURE_PICTURE_ROWS_H_
#define ADJOIN_PLANNER_PICTURE_PICTURE_ROWS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/picture/movement_text.h"
#include "planner/picture/tensor_cut.h"
#include "planner/picture/tensor_drawing.h"
#include "proto/plan.pb.h"
#include "proto/plan_report.pb.h"

namespace adjoin {

// "1.2 ms": three digits.
std::string SecondsText(double seconds);

struct MovementRow {
  std::string name;  // "x" and the layer: the operator's name in the plan
  std::string what;  // "x", "weight", ...: its role
  MovementFacts facts;
};

struct ParameterRow {
  std::string name, shape, home;
  bool trained = true;  // neither frozen nor a buffer
  // How its gradients are added up: "gradient all-sum-reduce · ...", "gradient stays at home"; in a bucket
  // (planner/plan/gradient_buckets.h) its share of the bucket's bytes.
  std::string gradient;
  int64_t bytes = 0;  // that the busiest rank sends for that
};

struct PictureRow {
  enum class Kind { kField, kLayers, kLoss, kOutput, kFolded, kLeftOut };
  Kind kind = Kind::kLayers;
  std::vector<std::string> layers;          // names, in order
  std::string title, what;                  // "conv1, relu1"; "conv, kernel 5 stride 1 padding 2,2; relu"
  std::vector<int> inputs;                  // rows that it reads, in rising order, each once
  std::vector<std::string> input_names;     // what it reads, where that is not just the row before
  std::shared_ptr<const TensorCut> tensor;  // what it returns; null: nothing is drawn
  TensorView view;
  std::string shape, layout;        // "64x6x28x28 float32"; "2x1x2x1 on ranks 0-3"
  std::vector<MovementRow> before;  // of its inputs
  std::vector<MovementRow> inside;  // of weights, of sums within layers
  std::vector<MovementRow> after;   // of its output
  std::vector<ParameterRow> parameters;
  std::vector<std::string> notes;
  double flops = 0;                                // forward, all ranks
  double forward = 0, backward = 0, movement = 0;  // seconds, predicted
  bool peak = false;                               // memory is fullest here

  double seconds() const { return forward + backward + movement; }
  int64_t bytes() const;  // sums of the busiest ranks of its movements
};

struct PicturePage {
  std::string name;      // the job's
  std::string subtitle;  // "TRAIN on 4 ranks · program train: batch of 64 samples of data set train, ..."
  std::string plan;      // its hash
  std::vector<std::pair<std::string, std::string>> totals;
  std::vector<std::string> meshes;
  std::vector<std::string> warnings;
  std::vector<PictureRow> rows;
  int64_t ranks = 1;
  double most_seconds = 0;  // of a row
  bool has_copies = false, has_partial = false, has_halos = false, has_slices = false;
};

// Rows as they are: neither folded nor left out. Errors: kInvalidArgument (a plan without programs); as
// LayoutFromProto, MovementEndsOf and TwoWayTrafficOf.
absl::StatusOr<PicturePage> PicturePageOf(const Plan& plan, const PlanReport& report);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PICTURE_PICTURE_ROWS_H_
