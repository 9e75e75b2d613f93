#include "worker/checkpoint/checkpoint_writer.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "primitives/status_exception.h"
#include "primitives/torch_dtype.h"
#include "worker/checkpoint/rank_file.h"

namespace adjoin {
namespace {

// A rank that is done adds 1, a rank that failed adds this: one sum over at most 4096 ranks counts both.
constexpr double kFailed = 65536;

std::vector<int> RanksThatWrite(const std::vector<CheckpointTensor>& tensors, int ranks) {
  std::vector<int> writers;
  for (int rank = 0; rank < ranks; ++rank) {
    for (int i = 0; i < static_cast<int>(tensors.size()); ++i) {
      if (!WritesBox(tensors[i].home, rank, i)) continue;
      writers.push_back(rank);
      break;
    }
  }
  return writers;
}

// Copies the boxes that this rank writes to the host's memory.
std::vector<CheckpointTensor> CopyOfMine(const std::vector<CheckpointTensor>& tensors, int rank) {
  at::NoGradGuard no_grad;
  std::vector<CheckpointTensor> copies;
  for (int i = 0; i < static_cast<int>(tensors.size()); ++i) {
    const CheckpointTensor& tensor = tensors[i];
    if (!WritesBox(tensor.home, rank, i)) continue;
    const auto options = at::TensorOptions().device(at::kCPU).dtype(ScalarTypeOf(tensor.home.dtype()));
    at::Tensor copy = at::empty(tensor.home.LocalShape(rank), options);
    copy.copy_(tensor.local);
    copies.push_back({tensor.name, tensor.home, std::move(copy)});
  }
  return copies;
}

}  // namespace

// The data of the thread's work. It is shared, as the work may outlive the writer.
struct CheckpointWriter::InFlight {
  std::atomic<bool> stop{false};
  std::vector<CheckpointTensor> mine;  // copies of this rank's boxes, until they are written
  std::vector<int> writers;            // on rank 0, as is the manifest: the ranks that write a file
  Manifest manifest;
  std::vector<std::string> left;  // errors of removing old checkpoints
};

CheckpointWriter::CheckpointWriter(Options options) : options_(std::move(options)), last_begun_(options_.now()) {}

CheckpointWriter::~CheckpointWriter() {
  if (in_flight_ != nullptr) in_flight_->stop = true;
}

std::array<double, 2> CheckpointWriter::Words() {
  const double minutes = options_.spec.every_minutes();
  const bool late = options_.rank == 0 && minutes > 0 && options_.now() - last_begun_ >= absl::Minutes(minutes);
  if (phase_ == Phase::kIdle) return {late ? 1.0 : 0.0, 0};
  if (!result_.has_value()) NoteResult();
  return {0, !result_.has_value() ? 0 : result_->ok() ? 1 : kFailed};
}

// Takes and logs the result of this rank's part of the phase, once it is done.
void CheckpointWriter::NoteResult() {
  if (phase_ == Phase::kManifest && options_.rank != 0) return;
  result_ = task_.TakeResult();
  if (!result_.has_value()) return;
  if (result_->ok()) {
    if (phase_ == Phase::kFiles || !fine_) return;
    Log(absl::StrCat("checkpoint: ", PathOf(options_.spec.dir(), name_.ToString())));
    if (in_flight_->left.empty()) return;
    Log(absl::StrCat("WARNING: an old checkpoint could not be removed: ", absl::StrJoin(in_flight_->left, "; ")));
    return;
  }
  Log(absl::StrCat("WARNING: the checkpoint of step ", name_.step, " could not be written: ",
                   std::string(result_->message()), "; training goes on, and older checkpoints stay"));
}

bool CheckpointWriter::Due(const Moment& moment) const {
  const auto every = static_cast<int64_t>(options_.spec.every_steps());
  return every > 0 && moment.step % every == 0;
}

void CheckpointWriter::AfterStep(const std::array<double, 2>& words, const Moment& moment, const Tensors& tensors) {
  Advance(words[1]);
  BeginWaiting();
  wanted_ = wanted_ || words[0] > 0 || Due(moment);
  const bool best = moment.best && !options_.spec.keep_best().empty();
  if (phase_ == Phase::kIdle) {
    if (wanted_ || best) Begin(Take(moment, tensors));
  } else if (best) {
    waiting_.reset();  // frees the old copy before the new one is made
    waiting_ = Take(moment, tensors);
    wanted_ = false;
  }
}

CheckpointWriter::Snapshot CheckpointWriter::Take(const Moment& moment, const Tensors& tensors) const {
  Snapshot snapshot;
  snapshot.moment.step = moment.step;
  try {
    snapshot.moment = moment;
    snapshot.tensors = tensors();
    snapshot.mine = CopyOfMine(snapshot.tensors, options_.rank);
    for (CheckpointTensor& tensor : snapshot.tensors) tensor.local = at::Tensor();
  } catch (...) {
    snapshot.mine.clear();
    const std::string what(StatusFromCurrentException().message());
    snapshot.taken = absl::ResourceExhaustedError(what.substr(0, what.find('\n')));
  }
  return snapshot;
}

void CheckpointWriter::BeginWaiting() {
  if (phase_ != Phase::kIdle || !waiting_.has_value()) return;
  const bool wanted = wanted_;  // a checkpoint of a later moment is still wanted
  Begin(*std::exchange(waiting_, std::nullopt));
  wanted_ = wanted;
}

void CheckpointWriter::Begin(Snapshot snapshot) {
  wanted_ = false;
  last_begun_ = options_.now();
  phase_ = Phase::kFiles;
  result_.reset();
  name_ = options_.job.name;
  name_.step = snapshot.moment.step;
  in_flight_ = std::make_shared<InFlight>();
  absl::Status status = snapshot.taken;
  try {
    if (status.ok()) return WriteFiles(std::move(snapshot));
  } catch (...) {
    status = StatusFromCurrentException();  // the other ranks learn of this failure as of any other
  }
  task_.Start([status] { return status; });
}

void CheckpointWriter::WriteFiles(Snapshot snapshot) {
  in_flight_->mine = std::move(snapshot.mine);
  const bool first = options_.rank == 0;
  if (first) {
    Manifest& manifest = in_flight_->manifest = options_.job;
    manifest.name = name_;
    manifest.ranks = options_.ranks;
    manifest.data_epoch = snapshot.moment.data_epoch;
    manifest.step_in_epoch = snapshot.moment.step_in_epoch;
    manifest.numbers = snapshot.moment.numbers;
    manifest.validation = snapshot.moment.validation;
    manifest.written_unix_ms = absl::ToUnixMillis(absl::Now());
  }
  const std::string folder = PathOf(options_.spec.dir(), name_.ToString());
  const std::string metrics = first ? snapshot.moment.metrics : "";
  task_.Start([files = options_.files, in_flight = in_flight_, folder, name = name_, rank = options_.rank,
               ranks = options_.ranks, tensors = std::move(snapshot.tensors), metrics,
               metrics_bytes = snapshot.moment.metrics_bytes]() -> absl::Status {
    if (rank == 0) {
      in_flight->writers = RanksThatWrite(tensors, ranks);
      for (const CheckpointTensor& tensor : tensors) {
        in_flight->manifest.tensors[tensor.name] = {tensor.home.dtype(), tensor.home.shape(), {}};
      }
    }
    ADJOIN_RETURN_IF_ERROR(files->MakeFolder(folder));
    std::vector<HeldBox> held;
    for (const CheckpointTensor& tensor : in_flight->mine) {
      held.push_back({
          .tensor = tensor.name,
          .dtype = tensor.home.dtype(),
          .box = tensor.home.BoxOf(rank),
          .data = tensor.local.data_ptr(),
      });
    }
    ADJOIN_RETURN_IF_ERROR(WriteRankFile(*files, folder, name, rank, held, in_flight->stop));
    in_flight->mine.clear();
    if (metrics.empty()) return absl::OkStatus();
    ADJOIN_ASSIGN_OR_RETURN(Manifest::File copy,
                            CopyFile(*files, metrics, metrics_bytes, folder, kMetricsCopy, in_flight->stop));
    in_flight->manifest.files.push_back(std::move(copy));
    return absl::OkStatus();
  });
}

// `told`: the sum over the ranks of their results of the phase.
void CheckpointWriter::Advance(double told) {
  if (phase_ == Phase::kIdle) return;
  const auto sum = static_cast<int64_t>(told);
  const int64_t failed = sum / static_cast<int64_t>(kFailed);
  const int64_t done = sum % static_cast<int64_t>(kFailed) + failed;
  if (phase_ == Phase::kFiles) {
    if (done == options_.ranks) BeginManifest(failed == 0);
    return;
  }
  if (done == 0) return;
  phase_ = Phase::kIdle;
  in_flight_.reset();
  if (failed == 0 && fine_) last_durable_ = name_.step;
}

void CheckpointWriter::BeginManifest(bool fine) {
  phase_ = Phase::kManifest;
  fine_ = fine;
  result_.reset();
  if (options_.rank != 0) return;
  const std::string dir = options_.spec.dir();
  if (!fine) {
    // A checkpoint that is not finished is of no use.
    task_.Start([files = options_.files, dir, name = name_] {
      RemoveCheckpoint(*files, dir, name).IgnoreError();
      return absl::OkStatus();
    });
    return;
  }
  task_.Start([files = options_.files, check_latest = options_.check_latest, damaged = options_.damaged,
               retention = options_.retention, in_flight = in_flight_, dir, name = name_]() -> absl::Status {
    absl::Status status = check_latest ? check_latest() : absl::OkStatus();
    if (status.ok()) status = FinishCheckpoint(*files, dir, in_flight->writers, std::move(in_flight->manifest));
    if (!status.ok()) {
      RemoveCheckpoint(*files, dir, name).IgnoreError();
      return status;
    }
    if (!in_flight->stop) in_flight->left = RemoveOld(*files, dir, name, damaged, retention);
    return absl::OkStatus();
  });
}

// Each rank waits for its disk in slices, with a sum after each slice, so that no rank waits long for a slow one.
// False: the checkpoint was given up.
absl::StatusOr<bool> CheckpointWriter::AwaitPhase(const RankSums& sums) {
  const Phase phase = phase_;
  const Deadline deadline = Deadline::After(options_.patience);
  while (phase_ == phase) {
    const absl::Duration slice = std::min(options_.patience / 8, deadline.Remaining());
    const bool works = phase == Phase::kFiles || options_.rank == 0;
    const bool late = works && !task_.Wait(Deadline::After(slice)) && deadline.Expired();
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> told, sums({Words()[1], late ? 1.0 : 0.0}));
    if (told[1] > 0) {
      GiveUp(late, told[1]);
      return false;
    }
    Advance(told[0]);
  }
  return true;
}

void CheckpointWriter::GiveUp(bool mine, double ranks) {
  if (mine || options_.rank == 0) {
    Log(absl::StrCat("WARNING: the checkpoint of step ", name_.step, " is given up: ",
                     mine ? "the disk does" : absl::StrCat("the disks of ", ranks, " of the ranks do"),
                     " not answer for ", absl::FormatDuration(options_.patience), "; older checkpoints stay"));
  }
  in_flight_->stop = true;
  in_flight_.reset();
  task_.GiveUp();
  waiting_.reset();
  result_.reset();
  wanted_ = false;
  phase_ = Phase::kIdle;
}

absl::Status CheckpointWriter::Finish(bool write, const Moment& moment, const Tensors& tensors, const RankSums& sums) {
  for (;;) {
    while (phase_ != Phase::kIdle) {
      ADJOIN_ASSIGN_OR_RETURN(const bool over, AwaitPhase(sums));
      if (!over) return absl::OkStatus();
    }
    if (waiting_.has_value()) {
      BeginWaiting();
      continue;
    }
    if (!write || (name_.step == moment.step && last_durable_ == moment.step)) return absl::OkStatus();
    write = false;
    Begin(Take(moment, tensors));
  }
}

}  // namespace adjoin
