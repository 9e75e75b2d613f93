// What a checkpoint is made of. Its folder below Checkpoint.dir, as step-0000000042.5-00c0ffee00c0ffee (step, attempt, tag of the job), has
//
//   rank-0003.safetensors   what rank 3 wrote: of each of its tensors one box, under the tensor's name
//   metrics.jsonl           the job's, up to the step
//   manifest.json           last: all of the following, with a checksum of its own
//
//   ADJOIN_ASSIGN_OR_RETURN(Manifest manifest, Manifest::Parse(text));
//   manifest.tensors.at("conv1.weight").pieces[0].box;          // of global indices
//
// A checkpoint without a manifest is none: it was never finished, or is being removed.
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

// Which job, of which coordinator's store: the same numbers are given again in another one.
struct JobIdentity {
  std::string job_id;  // empty where there is no coordinator: then it is the same as no other
  uint64_t store_id = 0;

  bool SameJob(const JobIdentity& other) const {
    return !job_id.empty() && job_id == other.job_id && store_id == other.store_id;
  }
};

// The name of a checkpoint's folder.
struct CheckpointName {
  int64_t step = 0;
  uint64_t epoch = 0;  // of the attempt
  uint64_t tag = 0;    // of the job, or where there is none of the run: two of them share no folder

  std::string ToString() const;
  // Absent for the name of something else.
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
    std::string hash;  // content_hash.h, of the whole file
  };
  struct Piece {
    int file = 0;        // in `files`
    Box box;             // of global indices
    int64_t offset = 0;  // in the file: row-major, of the tensor's type
    std::string hash;    // of these bytes
  };
  struct Tensor {
    DType dtype = DType::kFloat32;
    std::vector<int64_t> shape;
    std::vector<Piece> pieces;  // which tile the tensor
  };

  JobIdentity job;
  std::string job_name;
  CheckpointName name;
  std::string plan_hash;
  uint64_t seed = 0;
  int64_t ranks = 0;
  int64_t data_epoch = 0;     // passes over the data that are done
  int64_t step_in_epoch = 0;  // steps of the pass after them
  int64_t written_unix_ms = 0;
  std::map<std::string, double> numbers;     // of training, as the best validation so far
  std::map<std::string, double> validation;  // metrics of a validation with these very parameters; empty: there was none
  std::vector<File> files;
  std::map<std::string, Tensor> tensors;

  std::string ToText() const;
  // Errors: kDataLoss that says what is wrong; kUnimplemented (whole, but of a newer release: the checksum stays where it is
  // in all of them). What it returns fits together: pieces lie within their tensors and files.
  static absl::StatusOr<Manifest> Parse(const std::string& text);
};

// What a rank's file holds, said by the rank to the one that writes the manifest.
struct RankPart {
  CheckpointName name;
  Manifest::File file;
  std::map<std::string, Manifest::Piece> pieces;  // by tensor; `file` of no meaning

  std::string ToText() const;
  static absl::StatusOr<RankPart> Parse(const std::string& text);
};

std::string RankFile(int rank);  // "rank-0003.safetensors"
std::string RankNote(int rank);  // "rank-0003.json": its RankPart, until there is a manifest

}  // namespace adjoin

#endif  // ADJOIN_WORKER_CHECKPOINT_MANIFEST_H_
