// The contents of a checkpoint. Its folder below Checkpoint.dir is named by step, attempt and tag of the job, as
// step-0000000042.5-00c0ffee00c0ffee, and has
//
//   rank-0003.safetensors   written by rank 3: one box of each of its tensors, under the tensor's name
//   metrics.jsonl           the job's metrics, up to the step
//   manifest.json           written last: a Manifest with a checksum
//
//   ADJOIN_ASSIGN_OR_RETURN(Manifest manifest, Manifest::Parse(text));
//   manifest.tensors.at("conv1.weight").pieces[0].box;          // in global indices
//
// A folder without a manifest is not a checkpoint: it was never finished, or is being removed.
#ifndef ADJOIN_WORKER_CHECKPOINT_MANIFEST_H_
#define ADJOIN_WORKER_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"

namespace adjoin {

inline constexpr char kManifestFile[] = "manifest.json";
inline constexpr char kMetricsCopy[] = "metrics.jsonl";

// A job, its coordinator's store, and the tag that the job alone has: another store gives the same job ids again, and
// so does the same store where an older copy of it was put back.
struct JobIdentity {
  std::string job_id;  // empty where there is no coordinator
  uint64_t store_id = 0;
  uint64_t tag = 0;  // 0: of a coordinator that gives none
};

// The name of a checkpoint's folder.
struct CheckpointName {
  int64_t step = 0;
  uint64_t epoch = 0;  // the attempt's
  uint64_t tag = 0;    // the job's, or the run's where there is no job: no two of them share a folder

  std::string ToString() const;
  // Absent where `name` is not the name of a checkpoint.
  static std::optional<CheckpointName> Parse(const std::string& name);
  bool operator==(const CheckpointName& other) const {
    return step == other.step && epoch == other.epoch && tag == other.tag;
  }
  bool NewerThan(const CheckpointName& other) const {
    return step != other.step ? step > other.step : epoch > other.epoch;
  }
};

struct Manifest {
  struct File {
    std::string name;
    int64_t bytes = 0;
    std::string hash;  // ContentHash of the whole file
  };
  struct Piece {
    int file = 0;        // position in `files`
    Box box;             // in global indices
    int64_t offset = 0;  // the first cell's byte in the file; cells are row-major, of the tensor's type
    std::string hash;    // ContentHash of the cells' bytes
  };
  struct Tensor {
    DType dtype = DType::kFloat32;
    std::vector<int64_t> shape;
    std::vector<Piece> pieces;  // disjoint; together they are the tensor
  };

  JobIdentity job;
  std::string job_name;
  CheckpointName name;
  std::string plan_hash;
  uint64_t seed = 0;
  int64_t ranks = 0;
  int64_t data_epoch = 0;     // finished passes over the data
  int64_t step_in_epoch = 0;  // finished steps of the next pass
  int64_t written_unix_ms = 0;
  std::map<std::string, double> numbers;     // state of training, such as the best validation so far
  std::map<std::string, double> validation;  // metrics of a validation with these parameters; empty: there was none
  std::vector<File> files;
  std::map<std::string, Tensor> tensors;

  std::string ToText() const;
  // Errors: kDataLoss with what is wrong; kUnimplemented (whole, but written by a newer release: all releases have the
  // checksum at the same position). The result fits together: pieces are within their tensors and files.
  static absl::StatusOr<Manifest> Parse(const std::string& text);
};

// The contents of a rank's file. The rank notes them for rank 0, which writes the manifest.
struct RankPart {
  CheckpointName name;
  Manifest::File file;
  std::map<std::string, Manifest::Piece> pieces;  // by tensor; Piece::file is not used

  std::string ToText() const;
  static absl::StatusOr<RankPart> Parse(const std::string& text);
};

std::string RankFile(int rank);  // "rank-0003.safetensors"
std::string RankNote(int rank);  // "rank-0003.json": its RankPart, until there is a manifest

}  // namespace adjoin

#endif  // ADJOIN_WORKER_CHECKPOINT_MANIFEST_H_
