#include "layers/plan/spec_locations.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/job.pb.h"

namespace adjoin {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;

// "kernel[2]" is {"kernel", 2}; "conv" is {"conv", 0}.
std::pair<std::string, int> NameAndIndex(absl::string_view step) {
  const size_t bracket = step.find('[');
  if (bracket == absl::string_view::npos) return {std::string(step), 0};
  int index = 0;
  const size_t end = step.find(']', bracket);
  if (end == absl::string_view::npos || !absl::SimpleAtoi(step.substr(bracket + 1, end - bracket - 1), &index))
    index = 0;
  return {std::string(step.substr(0, bracket)), index};
}

}  // namespace

std::string SpecLocations::At(absl::string_view path) const {
  if (tree_ == nullptr) return file_;
  TextFormat::ParseLocation found;  // line -1: not found
  const TextFormat::ParseInfoTree* tree = tree_.get();
  const Descriptor* message = JobSpec::descriptor();
  for (absl::string_view step : absl::StrSplit(path, '.', absl::SkipEmpty())) {
    const auto [name, index] = NameAndIndex(step);
    const FieldDescriptor* field = message == nullptr ? nullptr : message->FindFieldByName(name);
    if (field == nullptr || tree == nullptr) break;
    const int place = field->is_repeated() ? index : -1;
    TextFormat::ParseLocation here = tree->GetLocation(field, place);
    // [1, 2, 3] has one place, that of its first element.
    if (here.line < 0 && field->is_repeated()) here = tree->GetLocation(field, 0);
    if (here.line < 0) break;
    found = here;
    message = field->message_type();
    tree = message == nullptr ? nullptr : tree->GetTreeForNested(field, place);
  }
  if (found.line < 0) return file_;
  return absl::StrCat(file_, ":", found.line + 1, ":", found.column + 1);
}

}  // namespace adjoin
