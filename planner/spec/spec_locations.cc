#include "planner/spec/spec_locations.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/printable_text.h"
#include "layers/rules/spec_error.h"
#include "proto/job.pb.h"

namespace adjoin {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;

// Splits "kernel[2]" into {"kernel", 2}, and "conv" into {"conv", 0}.
std::pair<std::string, int> NameAndIndex(absl::string_view step) {
  const size_t bracket = step.find('[');
  if (bracket == absl::string_view::npos) return {std::string(step), 0};
  int index = 0;
  const size_t end = step.find(']', bracket);
  if (end == absl::string_view::npos || !absl::SimpleAtoi(step.substr(bracket + 1, end - bracket - 1), &index))
    index = 0;
  return {std::string(step.substr(0, bracket)), index};
}

// Returns the index in "layer[3].conv" after "layer[", or -1.
int IndexAfter(absl::string_view path, absl::string_view prefix) {
  if (path.substr(0, prefix.size()) != prefix) return -1;
  const size_t end = path.find(']');
  int index = -1;
  if (end == absl::string_view::npos) return -1;
  return absl::SimpleAtoi(path.substr(prefix.size(), end - prefix.size()), &index) ? index : -1;
}

// Returns the name of the part of the job for people: "layer 3 \"conv2\"".
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

SpecLocations::SpecLocations(std::vector<Part> parts)
    : parts_(std::make_shared<const std::vector<Part>>(std::move(parts))) {}

SpecLocations::Found SpecLocations::Find(absl::string_view path) const {
  if (tree_ == nullptr) return {0, file_};
  Found result;
  TextFormat::ParseLocation found;  // line -1: not found
  const TextFormat::ParseInfoTree* tree = tree_.get();
  const Descriptor* message = JobSpec::descriptor();
  for (absl::string_view step : absl::StrSplit(path, '.', absl::SkipEmpty())) {
    const auto [name, index] = NameAndIndex(step);
    const FieldDescriptor* field = message == nullptr ? nullptr : message->FindFieldByName(name);
    if (field == nullptr || tree == nullptr) break;
    const int place = field->is_repeated() ? index : -1;
    TextFormat::ParseLocation here = tree->GetLocation(field, place);
    // [1, 2, 3] has one location, that of its first element.
    if (here.line < 0 && field->is_repeated()) here = tree->GetLocation(field, 0);
    if (here.line < 0) break;
    found = here;
    ++result.depth;
    message = field->message_type();
    tree = message == nullptr ? nullptr : tree->GetTreeForNested(field, place);
  }
  result.location = found.line < 0 ? file_ : absl::StrCat(file_, ":", found.line + 1, ":", found.column + 1);
  return result;
}

std::string SpecLocations::AtPart(absl::string_view path) const {
  if (parts_->empty()) return "";
  const size_t dot = std::min(path.find('.'), path.size());
  const auto [name, index] = NameAndIndex(path.substr(0, dot));
  const FieldDescriptor* field = JobSpec::descriptor()->FindFieldByName(name);
  if (field == nullptr) return parts_->back().locations.At(path);
  if (field->is_repeated()) {
    int here = index;
    for (const Part& part : *parts_) {
      const int count = part.spec.GetReflection()->FieldSize(part.spec, field);
      if (here < count) return part.locations.At(absl::StrCat(name, "[", here, "]", path.substr(dot)));
      here -= count;
    }
    return parts_->back().locations.At(path);
  }
  Found best = {0, parts_->back().locations.At("")};
  for (auto part = parts_->rbegin(); part != parts_->rend(); ++part) {
    if (!part->spec.GetReflection()->HasField(part->spec, field)) continue;
    Found found = part->locations.Find(path);
    found.depth = std::max(found.depth, 1);  // JSON, where nothing has a line
    if (found.depth > best.depth) best = std::move(found);
  }
  return best.location;
}

std::string SpecLocations::At(absl::string_view path) const {
  return parts_ == nullptr ? Find(path).location : AtPart(path);
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
  return absl::Status(status.code(), PrintableText(message));
}

}  // namespace adjoin
