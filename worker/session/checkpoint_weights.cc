#include "worker/session/checkpoint_weights.h"

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "base/status_macros.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/torch_dtype.h"
#include "worker/checkpoint/checkpoint_folder.h"

namespace adjoin {
namespace {

absl::Status ReadParameter(FileSystem& files, const std::string& dir, const Manifest& manifest, const std::string& name,
                           const Box& box, at::Tensor parameter) {
  const Manifest::Tensor& stored = manifest.tensors.at(name);
  for (const Manifest::Piece& piece : stored.pieces) {
    if (piece.box.Intersect(box).empty()) continue;
    ADJOIN_RETURN_IF_ERROR(VerifyPiece(files, dir, manifest, name, piece));
  }
  at::Tensor cells = at::empty(box.Shape(), ScalarTypeOf(stored.dtype));
  ADJOIN_RETURN_IF_ERROR(ReadBox(files, dir, manifest, name, box, cells.data_ptr(), /*bytes_read=*/nullptr));
  parameter.copy_(cells);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelDifferences> LoadCheckpointWeights(FileSystem& files, const CheckpointPlace& place, bool strict,
                                                       Parameters* parameters) {
  const absl::StatusOr<Manifest> manifest = ReadManifest(files, place.dir, place.name);
  if (absl::IsNotFound(manifest.status())) return NoCheckpoint(place);
  ADJOIN_RETURN_IF_ERROR(manifest.status());
  std::vector<NamedShape> model;
  for (int i = 0; i < parameters->size(); ++i) model.push_back({parameters->name(i), parameters->home(i).shape()});
  ModelDifferences differences = CompareModel(WeightsIn(*manifest), model);
  ADJOIN_RETURN_IF_ERROR(CheckDifferences(place.ToString(), differences, strict));
  at::NoGradGuard no_grad;
  for (int i = 0; i < parameters->size(); ++i) {
    const Layout& home = parameters->home(i);
    const auto stored = manifest->tensors.find(parameters->name(i));
    if (stored == manifest->tensors.end() || stored->second.shape != home.shape()) continue;
    if (!home.mesh().Has(parameters->rank())) continue;
    const Box box = home.BoxOf(parameters->rank());
    if (box.empty()) continue;
    const absl::Status read =
        ReadParameter(files, place.dir, *manifest, parameters->name(i), box, parameters->tensor(i));
    if (absl::IsNotFound(read)) return NoCheckpoint(place);
    ADJOIN_RETURN_IF_ERROR(read);
  }
  return differences;
}

}  // namespace adjoin
