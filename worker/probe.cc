#include "worker/probe.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "worker/data/idx_file.h"
#include "worker/runtime/path_rules.h"

namespace adjoin {
namespace {

absl::Status Within(const std::string& where, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(where, ": ", std::string(status.message())));
}

absl::StatusOr<HeldPath> Find(const std::string& root, const std::string& path) {
  absl::StatusOr<HeldPath> file = HoldBelow(root, path);
  if (!absl::IsNotFound(file.status())) return file;
  return absl::NotFoundError(absl::StrCat(std::string(file.status().message()), " below the worker's data root"));
}

// One sample as a file has it and as the spec wants it have equally many cells.
absl::Status CheckShape(const Field& field, const IdxHeader& header) {
  if (field.shape().empty()) return absl::OkStatus();
  int64_t wanted = 1;
  for (int64_t extent : field.shape()) {
    // More cells than any file has, as an overflow would, fit no file.
    if (__builtin_mul_overflow(wanted, extent, &wanted)) wanted = INT64_MAX;
  }
  if (wanted == header.SampleElements()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("shape [", absl::StrJoin(field.shape(), ", "), "] has ", wanted,
                                                 " cells a sample, the file (", header.ToString(), ") has ",
                                                 header.SampleElements()));
}

// `place` gets the part of the field that an error speaks of.
absl::StatusOr<int64_t> SamplesOf(const std::string& root, const Field& field, std::string& place) {
  if (field.has_synthetic()) return field.synthetic().samples();
  if (!field.has_idx()) return absl::UnimplementedError("only idx files and synthetic data are supported yet");
  int64_t samples = 0;
  for (int i = 0; i < field.idx().path_size(); ++i) {
    const std::string& path = field.idx().path(i);
    place = absl::StrCat("idx.path[", i, "]");
    ADJOIN_ASSIGN_OR_RETURN(const HeldPath file, Find(root, path));
    ADJOIN_ASSIGN_OR_RETURN(const IdxHeader header, ProbeIdx(file.path(), path));
    ADJOIN_RETURN_IF_ERROR(CheckShape(field, header));
    samples += header.samples();
  }
  return samples;
}

absl::StatusOr<int64_t> SamplesOf(const std::string& root, const Dataset& dataset, std::string& place) {
  int64_t samples = 0;
  for (int i = 0; i < dataset.field_size(); ++i) {
    std::string where = absl::StrCat("data set '", dataset.name(), "', field '", dataset.field(i).name(), "'");
    std::string within;
    absl::StatusOr<int64_t> own = SamplesOf(root, dataset.field(i), within);
    place = absl::StrCat("field[", i, "]", own.ok() || within.empty() ? "" : ".", own.ok() ? "" : within);
    if (!own.ok()) return Within(where, own.status());
    if (i > 0 && *own != samples) {
      return absl::InvalidArgumentError(absl::StrCat(where, " has ", *own, " samples, field '", dataset.field(0).name(),
                                                     "' has ", samples, ": they have to be as many"));
    }
    samples = *own;
  }
  return samples;
}

absl::Status ProbeAll(const std::string& root, const ProbeData& request, ProbeResult& result) {
  for (int i = 0; i < request.dataset_size(); ++i) {
    const Dataset& dataset = request.dataset(i);
    std::string within;
    const absl::StatusOr<int64_t> samples = SamplesOf(root, dataset, within);
    if (!samples.ok()) {
      result.set_field(absl::StrCat("dataset[", i, "].", within));
      return samples.status();
    }
    DatasetSize& size = *result.add_dataset();
    size.set_name(dataset.name());
    size.set_samples(*samples);
  }
  return absl::OkStatus();
}

}  // namespace

ProbeResult Probe(const std::string& data_root, const ProbeData& request) {
  ProbeResult result;
  absl::Status status = ProbeAll(data_root, request, result);
  if (!status.ok()) result.set_error(std::string(status.message()));
  result.set_request_id(request.request_id());
  return result;
}

}  // namespace adjoin
