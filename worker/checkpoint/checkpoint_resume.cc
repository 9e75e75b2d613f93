#include "worker/checkpoint/checkpoint_resume.h"

#include <set>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/content_hash.h"
#include "base/status_macros.h"
#include "primitives/geometry/shape_text.h"
#include "primitives/torch_dtype.h"
#include "worker/checkpoint/checkpoint_folder.h"

namespace adjoin {
namespace {

struct Candidate {
  std::string dir;
  CheckpointName name;

  std::string Path() const { return PathOf(dir, name.ToString()); }
};

constexpr char kUnreadable[] = "cannot be read: ";  // rank 0 sends this and the error in place of an offer

// Fails the attempt: that is better than to resume from an older checkpoint.
absl::Status Unreadable(absl::string_view path, absl::string_view why) {
  return absl::UnavailableError(
      absl::StrCat("the checkpoint ", path, " cannot be read just now: ", why,
                   "; nothing is wrong with it as far as is known, so no older one is taken in its"
                   " place: the next attempt looks again"));
}

class Resume {
 public:
  Resume(const ResumeOptions& options, const std::vector<CheckpointTensor>& tensors, const RankSums& sums)
      : options_(options), tensors_(tensors), sums_(sums) {}

  absl::StatusOr<std::optional<Resumed>> Run() {
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<Candidate> candidates, Candidates());
    // Rank 0 knows the candidates; the other ranks hear of one after another.
    for (size_t next = 0;;) {
      std::string told;
      for (; options_.rank == 0 && told.empty() && next < candidates.size(); ++next) told = Offer(candidates[next]);
      ADJOIN_ASSIGN_OR_RETURN(const std::string offer, TellAll(sums_, told));
      if (offer.empty()) break;
      if (absl::StartsWith(offer, kUnreadable)) return UnreadableTo(offer);
      ADJOIN_ASSIGN_OR_RETURN(Resumed resumed, Take(offer));
      ADJOIN_ASSIGN_OR_RETURN(const bool valid, Verify(resumed));
      if (!valid) continue;
      ADJOIN_RETURN_IF_ERROR(CompareTensors(resumed));
      ADJOIN_RETURN_IF_ERROR(ReadTensors(resumed));
      return std::optional<Resumed>(std::move(resumed));
    }
    return NothingFound();
  }

 private:
  void Log(const std::string& line) const {
    if (options_.log) options_.log(line);
  }

  void Skip(const std::string& path, absl::string_view why) {
    ++skipped_;
    Log(absl::StrCat("checkpoint ", path, " is skipped: ", why));
  }

  // Returns the candidates on rank 0, newest first: the job's own, then those of resume_from; none on the other ranks.
  absl::StatusOr<std::vector<Candidate>> Candidates() {
    std::vector<Candidate> candidates;
    absl::Status status;
    if (options_.rank == 0) status = ListCandidates(candidates);
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> failed, sums_({status.ok() ? 0.0 : 1.0}));
    ADJOIN_RETURN_IF_ERROR(status);
    if (failed[0] > 0) return absl::UnavailableError("rank 0 cannot read the folder of checkpoints");
    return candidates;
  }

  absl::Status ListCandidates(std::vector<Candidate>& candidates) {
    std::vector<CheckpointName> foreign;
    if (!options_.dir.empty()) {
      ADJOIN_ASSIGN_OR_RETURN(const std::vector<CheckpointName> names, ListCheckpoints(*options_.files, options_.dir));
      const uint64_t tag = TagOf(options_.job);
      for (const CheckpointName& name : names) {
        if (tag != 0 && name.tag == tag) {
          candidates.push_back({options_.dir, name});
        } else {
          foreign.push_back(name);
        }
      }
    }
    if (!options_.resume_from.empty()) {
      ADJOIN_ASSIGN_OR_RETURN(const std::vector<CheckpointName> names,
                              ListCheckpoints(*options_.files, options_.resume_from));
      for (const CheckpointName& name : names) candidates.push_back({options_.resume_from, name});
    } else if (candidates.empty() && !foreign.empty()) {
      Log(absl::StrCat(options_.dir, " holds checkpoints of other jobs, as ", foreign[0].ToString(),
                       ": they are left alone, and this job begins at its beginning (checkpoint.resume_from: \"",
                       options_.dir, "\" would go on from the newest of them)"));
    }
    return absl::OkStatus();
  }

  // Returns what rank 0 tells all ranks of the candidate; "" where it is skipped.
  std::string Offer(const Candidate& candidate) {
    const absl::StatusOr<Manifest> manifest = ReadManifest(*options_.files, candidate.dir, candidate.name);
    if (manifest.ok()) {
      return absl::StrCat(candidate.dir, "\n", candidate.name.ToString(), "\n", ContentHash::Of(manifest->ToText()));
    }
    if (!IsProven(manifest.status()) && !absl::IsUnimplemented(manifest.status())) {
      return absl::StrCat(kUnreadable, candidate.Path(), "\n", manifest.status().message());
    }
    Skip(candidate.Path(), manifest.status().message());
    if (IsProven(manifest.status())) NoteDamage(candidate.dir, candidate.name);
    return "";
  }

  static absl::Status UnreadableTo(absl::string_view told) {
    const std::pair<absl::string_view, absl::string_view> words =
        absl::StrSplit(absl::StripPrefix(told, kUnreadable), absl::MaxSplits('\n', 1));
    return Unreadable(words.first, words.second);
  }

  void NoteDamage(const std::string& dir, const CheckpointName& name) {
    if (options_.damaged != nullptr && options_.rank == 0 && dir == options_.dir) options_.damaged->push_back(name);
  }

  // Reads the manifest that rank 0 offers. Fails on all ranks where one rank cannot read it.
  absl::StatusOr<Resumed> Take(const std::string& offer) {
    const std::vector<std::string> words = absl::StrSplit(offer, '\n');
    const std::optional<CheckpointName> name = words.size() == 3 ? CheckpointName::Parse(words[1]) : std::nullopt;
    if (!name.has_value()) return absl::InternalError("rank 0 offers no checkpoint");
    absl::StatusOr<Manifest> manifest = ReadManifest(*options_.files, words[0], *name);
    const bool unreadable = !manifest.ok() && !IsProven(manifest.status());
    const bool same = manifest.ok() && ContentHash::Of(manifest->ToText()) == words[2];
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> blind,
                            sums_({same || unreadable ? 0.0 : 1.0, unreadable ? 1.0 : 0.0}));
    if (blind[1] > 0) {
      return Unreadable(PathOf(words[0], words[1]), unreadable ? std::string(manifest.status().message())
                                                               : absl::StrCat(blind[1], " of the ranks report it"));
    }
    const std::string shared = absl::StrCat(
        "right would be one --output-root, on one file system, for all nodes on which"
        " the job's ranks run");
    if (!same) {
      return absl::FailedPreconditionError(absl::StrCat(
          "rank 0 sees the checkpoint ", PathOf(words[0], words[1]), ", this rank ",
          manifest.ok() ? "another one in its place" : std::string(manifest.status().message()), "; ", shared));
    }
    if (blind[0] > 0) {
      return absl::FailedPreconditionError(absl::StrCat(blind[0], " of the ranks do not see the checkpoint ",
                                                        PathOf(words[0], words[1]), ", which rank 0 sees; ", shared));
    }
    return Resumed{*std::move(manifest), words[0], 0};
  }

  // Verifies the files, each on one of the ranks.
  absl::StatusOr<bool> Verify(const Resumed& resumed) {
    const std::string path = PathOf(resumed.dir, resumed.manifest.name.ToString());
    std::vector<std::string> wrong, unreadable;
    for (int file = options_.rank; file < static_cast<int>(resumed.manifest.files.size()); file += options_.ranks) {
      const absl::Status status = VerifyFile(*options_.files, resumed.dir, resumed.manifest, file);
      if (!status.ok()) (IsProven(status) ? wrong : unreadable).push_back(std::string(status.message()));
    }
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> sum,
                            sums_({static_cast<double>(wrong.size()), static_cast<double>(unreadable.size())}));
    if (sum[0] == 0 && sum[1] == 0) return true;
    if (sum[0] == 0) {
      return Unreadable(path, !unreadable.empty() ? absl::StrJoin(unreadable, "; ")
                                                  : absl::StrCat(sum[1], " of its files, as other ranks report"));
    }
    NoteDamage(resumed.dir, resumed.manifest.name);
    if (!wrong.empty()) {
      Skip(path, absl::StrJoin(wrong, "; "));
    } else if (options_.rank == 0) {
      Skip(path, absl::StrCat(sum[0], " of its files are damaged, as other ranks report"));
    }
    return false;
  }

  // Checks that the checkpoint has the job's tensors. The result is the same on all ranks.
  absl::Status CompareTensors(const Resumed& resumed) const {
    std::vector<std::string> missing, misshaped, extra;
    std::set<std::string> known;
    const auto& stored = resumed.manifest.tensors;
    for (const CheckpointTensor& tensor : tensors_) {
      known.insert(tensor.name);
      const auto found = stored.find(tensor.name);
      if (found == stored.end()) {
        missing.push_back(tensor.name);
        continue;
      }
      const Layout& home = tensor.home;
      const bool fits =
          found->second.shape == home.shape() && IsFloatingPoint(found->second.dtype) == IsFloatingPoint(home.dtype());
      if (fits) continue;
      misshaped.push_back(absl::StrCat(tensor.name, ": ", ToString(home.dtype()), " ", ShapeText(home.shape()),
                                       " in the job, ", ToString(found->second.dtype), " ",
                                       ShapeText(found->second.shape), " in the checkpoint"));
    }
    for (const auto& [name, tensor] : stored) {
      if (known.count(name) == 0) extra.push_back(name);
    }
    std::vector<std::string> parts;
    if (!missing.empty()) parts.push_back(absl::StrCat("missing in it: ", absl::StrJoin(missing, ", ")));
    if (!extra.empty()) parts.push_back(absl::StrCat("not in the job: ", absl::StrJoin(extra, ", ")));
    if (!misshaped.empty()) parts.push_back(absl::StrCat("other shapes: ", absl::StrJoin(misshaped, ", ")));
    if (parts.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("the checkpoint ",
                                                   PathOf(resumed.dir, resumed.manifest.name.ToString()),
                                                   " does not fit the job (right would be every parameter and state of "
                                                   "the optimizer in its shape and nothing else): ",
                                                   absl::StrJoin(parts, "; ")));
  }

  absl::Status ReadTensors(Resumed& resumed) {
    absl::Status status;
    for (const CheckpointTensor& tensor : tensors_) {
      if (status.ok()) status = ReadTensor(tensor, resumed);
    }
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> failed, sums_({status.ok() ? 0.0 : 1.0}));
    if (failed[0] == 0) return absl::OkStatus();
    return Unreadable(PathOf(resumed.dir, resumed.manifest.name.ToString()),
                      !status.ok() ? std::string(status.message())
                                   : absl::StrCat(failed[0], " of the ranks could not read their part"));
  }

  absl::Status ReadTensor(const CheckpointTensor& tensor, Resumed& resumed) {
    if (!tensor.home.mesh().Has(options_.rank)) return absl::OkStatus();
    const Box box = tensor.home.BoxOf(options_.rank);
    if (box.empty()) return absl::OkStatus();
    const DType stored = resumed.manifest.tensors.at(tensor.name).dtype;
    at::NoGradGuard no_grad;
    at::Tensor cells = at::empty(box.Shape(), ScalarTypeOf(stored));
    ADJOIN_RETURN_IF_ERROR(ReadBox(*options_.files, resumed.dir, resumed.manifest, tensor.name, box, cells.data_ptr(),
                                   &resumed.bytes_read));
    at::Tensor(tensor.local).copy_(cells);
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<Resumed>> NothingFound() {
    if (!options_.resume_from.empty()) {
      return absl::NotFoundError(absl::StrCat("checkpoint.resume_from: there is no valid checkpoint in ",
                                              options_.resume_from,
                                              options_.rank != 0 ? ""
                                              : skipped_ == 0    ? ": none at all"
                                                                 : "; the log says why each was skipped"));
    }
    if (skipped_ > 0 && options_.rank == 0) Log("no checkpoint is valid: the job begins at its beginning");
    return std::optional<Resumed>();
  }

  const ResumeOptions& options_;
  const std::vector<CheckpointTensor>& tensors_;
  const RankSums& sums_;
  int skipped_ = 0;
};

}  // namespace

uint64_t TagOf(const JobIdentity& job) {
  if (job.tag != 0) return job.tag;
  if (job.job_id.empty()) return 0;
  uint64_t tag = 0;
  const std::string hex = ContentHash::Of(absl::StrCat(job.store_id, " ", job.job_id)).substr(0, 16);
  return absl::SimpleHexAtoi(hex, &tag) ? tag : 0;
}

absl::StatusOr<std::optional<Resumed>> ResumeFromCheckpoint(const ResumeOptions& options,
                                                            const std::vector<CheckpointTensor>& tensors,
                                                            const RankSums& sums) {
  absl::StatusOr<std::optional<Resumed>> resumed = Resume(options, tensors, sums).Run();
  // All ranks fail alike. A rank that ends loses what it has not sent yet, so all wait here until all have heard.
  if (!resumed.ok()) sums({0}).status().IgnoreError();
  return resumed;
}

}  // namespace adjoin
