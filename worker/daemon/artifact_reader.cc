#include "worker/daemon/artifact_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/output_dir.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "planner/checks/metric_rule.h"
#include "worker/checkpoint/checkpoint_model.h"
#include "worker/data/path_rules.h"
#include "worker/session/attempt_notes.h"

namespace adjoin {
namespace {

constexpr int64_t kPartBytes = 512 << 10;

class FileReader final : public ArtifactReader {
 public:
  FileReader(UniqueFd fd, int64_t bytes, std::string name)
      : fd_(std::move(fd)), bytes_(bytes), name_(std::move(name)), left_(bytes) {}
  int64_t bytes() const override { return bytes_; }
  bool more() const override { return left_ > 0; }
  absl::StatusOr<std::string> Next() override {
    std::string part(static_cast<size_t>(std::min(left_, kPartBytes)), '\0');
    const ssize_t got = read(fd_.get(), part.data(), part.size());
    if (got <= 0) return absl::DataLossError(absl::StrCat("'", name_, "' cannot be read to its end"));
    part.resize(static_cast<size_t>(got));
    left_ -= got;
    return part;
  }

 private:
  const UniqueFd fd_;
  const int64_t bytes_;
  const std::string name_;
  int64_t left_;
};

class ModelReader final : public ArtifactReader {
 public:
  ModelReader(std::unique_ptr<DiskFiles> files, std::unique_ptr<CheckpointModel> model)
      : files_(std::move(files)), model_(std::move(model)) {}
  int64_t bytes() const override { return model_->bytes(); }
  bool more() const override { return model_->more(); }
  absl::StatusOr<std::string> Next() override { return model_->Next(); }

 private:
  const std::unique_ptr<DiskFiles> files_;  // the model uses them
  const std::unique_ptr<CheckpointModel> model_;
};

std::string PathBelow(const std::string& folder, const std::string& name) {
  return absl::StrCat(folder, folder.empty() ? "" : "/", name);
}

absl::StatusOr<std::unique_ptr<ArtifactReader>> OpenFile(const std::string& root, const std::string& relative,
                                                         uint64_t from) {
  ADJOIN_ASSIGN_OR_RETURN(HeldPath held, HoldBelow(root, relative));
  UniqueFd fd(open(held.path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (fd.get() < 0 || fstat(fd.get(), &info) != 0) {
    return absl::UnavailableError(absl::StrCat("'", relative, "': ", strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat("'", relative, "' is not a regular file"));
  const int64_t begin = static_cast<int64_t>(std::min(from, static_cast<uint64_t>(info.st_size)));
  if (lseek(fd.get(), begin, SEEK_SET) != begin) {
    return absl::UnavailableError(absl::StrCat("'", relative, "': ", strerror(errno)));
  }
  return std::make_unique<FileReader>(std::move(fd), info.st_size - begin, relative);
}

// True where the note in this folder names the attempt that is asked for.
bool IsOfAttempt(const std::string& root, const std::string& folder, const char* name, const SendArtifact& request) {
  const absl::StatusOr<HeldPath> held = HoldBelow(root, folder.empty() ? "." : folder);
  if (!held.ok()) return false;
  const absl::StatusOr<AttemptNote> note = ReadAttemptNote(PathBelow(held->path(), name));
  return note.ok() && note->epoch == request.epoch() && note->job_id == request.job_id();
}

absl::StatusOr<std::unique_ptr<ArtifactReader>> OpenUnfinished(const std::string& root, const SendArtifact& request) {
  const std::string attempt = PathBelow(request.output_dir(), AttemptFolder(request.epoch()));
  if (IsOfAttempt(root, attempt, kAttemptFile, request)) {
    auto opened = OpenFile(root, PathBelow(attempt, request.name()), request.from());
    if (!absl::IsNotFound(opened.status())) return opened;
  }
  // It has published its files in this moment, or long ago.
  if (IsOfAttempt(root, request.output_dir(), kEpochFile, request)) {
    auto opened = OpenFile(root, PathBelow(request.output_dir(), request.name()), request.from());
    if (!absl::IsNotFound(opened.status())) return opened;
  }
  return absl::NotFoundError(absl::StrCat("attempt ", request.epoch(), " of ", request.job_id(), " has written no ",
                                          request.name(), " yet, or its folder was removed"));
}

absl::StatusOr<std::unique_ptr<ArtifactReader>> OpenModel(const std::string& root, const CheckpointRead& request) {
  ADJOIN_ASSIGN_OR_RETURN(const Metric metric, ParseMetric(request.metric().empty() ? "loss" : request.metric()));
  auto files = std::make_unique<DiskFiles>(root);
  CheckpointModel::Source source;
  source.files = files.get();
  source.dir = request.dir();
  source.tag = request.job_tag();
  source.validation = {.keep_best = metric.name, .larger_is_better = metric.LargerIsBetter()};
  for (const ModelTensor& tensor : request.tensor()) {
    source.model.emplace_back(tensor.name(), std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end()));
  }
  const CheckpointModel::Choice choice = {.best = request.choice().best(),
                                          .step = static_cast<int64_t>(request.choice().step())};
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointModel> model, CheckpointModel::Open(std::move(source), choice));
  return std::make_unique<ModelReader>(std::move(files), std::move(model));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ArtifactReader>> OpenArtifact(const std::string& root, const SendArtifact& request) {
  const std::string& name = request.name();
  if (name.empty() || name == "." || name == ".." || absl::StrContains(name, "/")) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' is not the name of a file"));
  }
  if (request.has_checkpoint()) return OpenModel(root, request.checkpoint());
  if (request.unfinished()) return OpenUnfinished(root, request);
  return OpenFile(root, PathBelow(request.output_dir(), name), request.from());
}

}  // namespace adjoin
