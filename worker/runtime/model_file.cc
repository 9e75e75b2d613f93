#include "worker/runtime/model_file.h"

#include <memory>

#include <torch/torch.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "layers/parameter_collect.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/torch_dtype.h"
#include "worker/runtime/safetensors.h"

namespace adjoin {
namespace {

ModelDifferences Compare(const SafetensorsReader& file, const Parameters& parameters) {
  ModelDifferences differences;
  for (int i = 0; i < parameters.size(); ++i) {
    const SafetensorsEntry* entry = file.Find(parameters.name(i));
    if (entry == nullptr) {
      differences.missing.push_back(parameters.name(i));
    } else if (entry->shape != parameters.home(i).shape()) {
      const std::string expected = absl::StrJoin(parameters.home(i).shape(), "x");
      const std::string found = absl::StrJoin(entry->shape, "x");
      differences.misshaped.push_back(
          absl::StrCat(entry->name, ": ", expected, " in the model, ", found, " in the file"));
    }
  }
  for (const SafetensorsEntry& entry : file.entries()) {
    if (!parameters.IndexOf(entry.name).ok()) differences.extra.push_back(entry.name);
  }
  return differences;
}

}  // namespace

std::string ModelDifferences::ToString() const {
  std::vector<std::string> parts;
  if (!missing.empty()) parts.push_back(absl::StrCat("missing: ", absl::StrJoin(missing, ", ")));
  if (!extra.empty()) parts.push_back(absl::StrCat("not in the model: ", absl::StrJoin(extra, ", ")));
  if (!misshaped.empty()) parts.push_back(absl::StrCat("other shapes: ", absl::StrJoin(misshaped, ", ")));
  return absl::StrJoin(parts, "; ");
}

absl::StatusOr<ModelDifferences> LoadModel(const std::string& path, bool strict, Parameters* parameters) {
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsReader> file, SafetensorsReader::Open(path));
  ModelDifferences differences = Compare(*file, *parameters);
  if (strict && !differences.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " does not fit the model (right would be every parameter in its shape and nothing else): ",
                     differences.ToString()));
  }
  torch::NoGradGuard no_grad;
  for (int i = 0; i < parameters->size(); ++i) {
    const Layout& home = parameters->home(i);
    const SafetensorsEntry* entry = file->Find(parameters->name(i));
    if (entry == nullptr || entry->shape != home.shape() || !home.mesh().Has(parameters->rank())) continue;
    const Box box = home.BoxOf(parameters->rank());
    torch::Tensor local = torch::empty(box.Shape(), ScalarTypeOf(entry->dtype));
    ADJOIN_RETURN_IF_ERROR(file->ReadBox(*entry, box, local.data_ptr()));
    torch::Tensor(parameters->tensor(i)).copy_(local);
  }
  return differences;
}

absl::Status SaveModel(const std::string& path, const Plan& plan, Communicator* communicator,
                       const Parameters& parameters) {
  std::unique_ptr<SafetensorsWriter> writer;
  if (communicator->rank() == 0) {
    std::vector<SafetensorsEntry> entries;
    for (int i = 0; i < parameters.size(); ++i) {
      entries.push_back({parameters.name(i), parameters.home(i).dtype(), parameters.home(i).shape()});
    }
    ADJOIN_ASSIGN_OR_RETURN(writer, SafetensorsWriter::Create(path, entries));
  }
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ParameterCollect> collect, ParameterCollect::Create(plan, communicator));
  torch::NoGradGuard no_grad;
  for (int i = 0; i < parameters.size(); ++i) {
    ADJOIN_ASSIGN_OR_RETURN(torch::Tensor whole, collect->Collect(i, parameters.tensor(i)));
    if (writer == nullptr) continue;
    whole = whole.contiguous();
    ADJOIN_RETURN_IF_ERROR(writer->Append(whole.data_ptr(), static_cast<int64_t>(whole.nbytes())));
  }
  return writer == nullptr ? absl::OkStatus() : writer->Finish();
}

}  // namespace adjoin
