#include "layers/plan/spec_error.h"

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"

namespace adjoin {
namespace {

constexpr char kFieldPayload[] = "adjoin/spec-field";

// The index in "layer[3].conv" after "layer[", or -1.
int IndexAfter(absl::string_view path, absl::string_view prefix) {
  if (path.substr(0, prefix.size()) != prefix) return -1;
  const size_t end = path.find(']');
  int index = -1;
  if (end == absl::string_view::npos) return -1;
  return absl::SimpleAtoi(path.substr(prefix.size(), end - prefix.size()), &index) ? index : -1;
}

// What a person calls the place: "layer 3 \"conv2\"".
std::string NameOf(absl::string_view path, const JobSpec& spec) {
  int i = IndexAfter(path, "layer[");
  if (i >= 0 && i < spec.layer_size()) return absl::StrCat("layer ", i, " \"", spec.layer(i).name(), "\"");
  i = IndexAfter(path, "layout[");
  if (i >= 0 && i < spec.layout_size()) return absl::StrCat("layout \"", spec.layout(i).name(), "\"");
  i = IndexAfter(path, "loss[");
  if (i >= 0 && i < spec.loss_size()) return absl::StrCat("loss ", i);
  i = IndexAfter(path, "dataset[");
  if (i < 0 || i >= spec.dataset_size()) return "";
  std::string name = absl::StrCat("data set \"", spec.dataset(i).name(), "\"");
  const size_t dot = path.find('.');
  const int f = dot == absl::string_view::npos ? -1 : IndexAfter(path.substr(dot + 1), "field[");
  if (f >= 0 && f < spec.dataset(i).field_size()) {
    absl::StrAppend(&name, ", field \"", spec.dataset(i).field(f).name(), "\"");
  }
  return name;
}

}  // namespace

absl::Status NotSupportedYet(absl::string_view what, absl::string_view advice) {
  return absl::UnimplementedError(absl::StrCat(what, " is not supported yet", advice.empty() ? "" : "; ", advice));
}

absl::Status AtField(absl::string_view path, absl::Status status) {
  if (status.ok()) return status;
  const std::string inner = FieldOf(status);
  const absl::string_view joint = path.empty() || inner.empty() ? "" : ".";
  status.SetPayload(kFieldPayload, absl::Cord(absl::StrCat(path, joint, inner)));
  return status;
}

std::string FieldOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kFieldPayload);
  return payload.has_value() ? std::string(*payload) : "";
}

absl::Status Located(const absl::Status& status, const JobSpec& spec, const SpecLocations* locations) {
  if (status.ok()) return status;
  const std::string path = FieldOf(status);
  std::string message;
  const std::string place = locations == nullptr ? "" : locations->At(path);
  if (!place.empty()) absl::StrAppend(&message, place, ": ");
  const std::string name = NameOf(path, spec);
  if (!name.empty()) absl::StrAppend(&message, name, ": ");
  absl::StrAppend(&message, status.message());
  return absl::Status(status.code(), message);
}

}  // namespace adjoin
