#include "worker/model/model_file.h"

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "base/status_macros.h"
#include "layers/network/parameter_collect.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/torch_dtype.h"
#include "worker/model/file_sums.h"
#include "worker/model/safetensors.h"

namespace adjoin {

absl::StatusOr<ModelDifferences> LoadModel(const std::string& path, bool strict, Parameters* parameters,
                                           const FileSums* sums) {
  std::unique_ptr<FileCheck> check;
  if (sums != nullptr) {
    ADJOIN_ASSIGN_OR_RETURN(check, FileCheck::Open(path, *sums));
  }
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsReader> file, SafetensorsReader::Open(path));
  if (check != nullptr) ADJOIN_RETURN_IF_ERROR(check->Check(0, file->data_begin()));
  std::vector<NamedShape> model;
  for (int i = 0; i < parameters->size(); ++i) model.push_back({parameters->name(i), parameters->stored_shape(i)});
  ModelDifferences differences = CompareModel(file->entries(), model);
  ADJOIN_RETURN_IF_ERROR(CheckDifferences(path, differences, strict));
  at::NoGradGuard no_grad;
  for (int i = 0; i < parameters->size(); ++i) {
    const Layout& home = parameters->home(i);
    const SafetensorsEntry* entry = file->Find(parameters->name(i));
    if (entry == nullptr || entry->shape != parameters->stored_shape(i) || !home.mesh().Has(parameters->rank()))
      continue;
    const Box box = home.BoxOf(parameters->rank());
    if (check != nullptr && !box.empty()) {
      const auto [begin, end] = file->BytesOf(*entry);
      ADJOIN_RETURN_IF_ERROR(check->Check(begin, end));
    }
    at::Tensor local = at::empty(box.Shape(), ScalarTypeOf(entry->dtype));
    SafetensorsEntry as_home = *entry;
    as_home.shape = home.shape();
    ADJOIN_RETURN_IF_ERROR(file->ReadBox(as_home, box, local.data_ptr()));
    at::Tensor(parameters->tensor(i)).copy_(local);
  }
  return differences;
}

absl::Status SaveModel(const std::string& path, const Plan& plan, Communicator* communicator,
                       const Parameters& parameters) {
  std::unique_ptr<SafetensorsWriter> writer;
  if (communicator->rank() == 0) {
    std::vector<SafetensorsEntry> entries;
    for (int i = 0; i < parameters.size(); ++i) {
      entries.push_back({parameters.name(i), parameters.home(i).dtype(), parameters.stored_shape(i)});
    }
    ADJOIN_ASSIGN_OR_RETURN(writer, SafetensorsWriter::Create(path, entries));
  }
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ParameterCollect> collect, ParameterCollect::Create(plan, communicator));
  at::NoGradGuard no_grad;
  for (int i = 0; i < parameters.size(); ++i) {
    ADJOIN_ASSIGN_OR_RETURN(at::Tensor whole, collect->Collect(i, parameters.tensor(i)));
    if (writer == nullptr) continue;
    whole = whole.to(at::kCPU).contiguous();
    ADJOIN_RETURN_IF_ERROR(writer->Append(whole.data_ptr(), static_cast<int64_t>(whole.nbytes())));
  }
  return writer == nullptr ? absl::OkStatus() : writer->Finish();
}

}  // namespace adjoin
