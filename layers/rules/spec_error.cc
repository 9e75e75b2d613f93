#include "layers/rules/spec_error.h"

#include "absl/strings/cord.h"

namespace adjoin {
namespace {

constexpr char kFieldPayload[] = "adjoin/spec-field";

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

}  // namespace adjoin
