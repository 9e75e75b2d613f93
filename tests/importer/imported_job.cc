#include "tests/importer/imported_job.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include <google/protobuf/text_format.h>

#include <ATen/TensorOperators.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "importer/import_model.h"
#include "importer/job_text.h"
#include "importer/model_file.h"
#include "planner/spec/spec_parser.h"
#include "primitives/geometry/dtype.h"

namespace adjoin {

std::vector<std::string> ArchiveCase::Arrays(const std::string& kind) const {
  const std::string begin = absl::StrCat(folder, "/", sample, ".", kind, ".");
  if (std::filesystem::exists(begin + "npy")) return {begin + "npy"};
  std::vector<std::string> paths;
  while (std::filesystem::exists(absl::StrCat(begin, paths.size(), ".npy"))) {
    paths.push_back(absl::StrCat(begin, paths.size(), ".npy"));
  }
  return paths;
}

const std::vector<ArchiveCase>& ArchiveCases() {
  static const auto* cases = new std::vector<ArchiveCase>{
      {"lenet.pt2", "lenet", "[1, 1, 2, 1]", 1e-4},
      {"lenet.new.pt2", "lenet", "[2, 1, 1, 1]", 1e-4},
      {"resnet.pt2", "resnet", "[1, 1, 1, 2]", 1e-10},
      {"unet3d.pt2", "unet3d", "[1, 1, 2, 1, 1]", 1e-10},
      {"unet3d.new.pt2", "unet3d", "[1, 1, 1, 2, 1]", 1e-10},
      {"mixed.pt2", "mixed", "[1, 1, 2, 1]", 1e-10},
      {"transformer.pt2", "transformer", "[1, 2]", 1e-10},
      {"slices.pt2", "slices", "[1, 1, 2, 1]", 1e-10},
      {"sequential.pt2", "sequential", "[1, 1, 2, 1]", 1e-10},
      {"nnunet.pt2", "nnunet", "[1, 1, 1, 2, 2]", 1e-10, 4},
      {"nnunet_resenc.pt2", "nnunet_resenc", "[1, 1, 2, 1, 2]", 1e-10, 4},
      {"monai_unet.pt2", "monai_unet", "[1, 1, 2, 2, 1]", 1e-10, 4},
      {"dynunet.pt2", "dynunet", "[1, 1, 2, 1, 2]", 1e-10, 4},
      {"segresnet.pt2", "segresnet", "[2, 1, 1, 1, 2]", 1e-10, 4},
      {"parameters.pt2", "parameters", "[1, 1, 1, 2]", 1e-10},
      {"rotary.pt2", "rotary", "[2, 1]", 1e-10},
      {"gpt2_by_hand.pt2", "gpt2_by_hand", "[2, 1]", 1e-10},
      {"gpt2_sdpa.pt2", "gpt2_sdpa", "[2, 1]", 1e-10},
      {"swin.pt2", "swin", "[1, 1, 2, 1]", 1e-10},
      {"encoder.pt2", "encoder", "[1, 2, 1]", 1e-10},
      {"several.pt2", "several", "[1, 2]", 1e-10},
      {"hf_gpt2.pt2", "hf_gpt2", "[2, 1]", 1e-10},
      {"tied.pt2", "tied", "[1, 2, 1]", 1e-10},
      {"norms.pt2", "norms", "[2, 1, 1]", 1e-10},
      {"functions.pt2", "functions", "[1, 2, 1]", 1e-10},
      {"element_wise.pt2", "element_wise", "[1, 2, 1]", 1e-10},
      {"einsum_attention.pt2", "einsum_attention", "[1, 2, 1]", 1e-10},
      {"swin_any_batch.pt2", "swin_any_batch", "[1, 1, 2, 1]", 1e-10},
      {"swin_v2.pt2", "swin_v2", "[1, 1, 2, 1]", 1e-10},
      {"frozen_norm.pt2", "frozen_norm", "[1, 1, 2, 1]", 1e-10},
      {"vit.pt2", "vit", "[1, 1, 2, 1]", 1e-10},
      {"convnext.pt2", "convnext", "[1, 1, 2, 1]", 1e-10},
      {"translator.pt2", "translator", "[2, 1]", 1e-10},
      {"perceiver.pt2", "perceiver", "[1, 1, 2, 1]", 1e-10},
      {"grid.pt2", "grid", "[1, 1, 2, 1]", 1e-10},
      {"traced_lenet.pt", "traced_lenet", "[1, 1, 2, 1]", 1e-10},
      {"traced_resnet.pt", "traced_resnet", "[1, 1, 1, 2]", 1e-10},
      {"traced_unet3d.pt", "traced_unet3d", "[1, 1, 2, 1, 1]", 1e-10},
      {"traced_encoder.pt", "traced_encoder", "[2, 1]", 1e-10},
      {"traced_twice.pt", "traced_twice", "[1, 1, 2, 1]", 1e-10},
      {"traced_tied.pt", "traced_tied", "[1, 2]", 1e-10},
      {"traced_mixed.pt", "traced_mixed", "[1, 1, 2, 1]", 1e-10},
      {"traced_padded.pt", "traced_padded", "[1, 1, 2, 2]", 1e-10, 4},
  };
  return *cases;
}

absl::Status CopyArrays(const ArchiveCase& test, const JobFolder& folder) {
  for (const char* kind : {"input", "output"}) {
    const std::vector<std::string> paths = test.Arrays(kind);
    if (paths.empty()) return absl::NotFoundError(absl::StrCat(test.folder, " has no ", kind, " of ", test.sample));
    for (size_t i = 0; i < paths.size(); ++i) {
      std::filesystem::copy_file(paths[i], folder.Path(absl::StrCat("data/", kind, i, ".npy")),
                                 std::filesystem::copy_options::overwrite_existing);
    }
  }
  return absl::OkStatus();
}

namespace {

// Whether an NPY file says so in its header; as it is read, it is one of float64.
bool HoldsWholeNumbers(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string header(128, '\0');
  file.read(header.data(), static_cast<std::streamsize>(header.size()));
  return absl::StrContains(header, "'<i8'");
}

}  // namespace

absl::StatusOr<JobSpec> ImportedJob(const ArchiveCase& test, int ranks, const JobFolder& folder) {
  std::vector<ExampleInput> examples;  // a trace does not tell them
  for (size_t i = 0; absl::EndsWith(test.archive, ".pt") && i < test.Arrays("input").size(); ++i) {
    ADJOIN_ASSIGN_OR_RETURN(const at::Tensor input, folder.ReadArray(absl::StrCat("data/input", i, ".npy")));
    const bool whole = HoldsWholeNumbers(test.Arrays("input")[i]);
    examples.push_back({input.sizes().vec(), whole ? DType::kInt64 : DType::kFloat64});
  }
  ADJOIN_ASSIGN_OR_RETURN(const ModelFile file, OpenModelFile(absl::StrCat(test.folder, "/", test.archive), examples));
  ADJOIN_ASSIGN_OR_RETURN(const ImportedModel model, ImportModel(*file.archive, file.graph, {}));
  ADJOIN_RETURN_IF_ERROR(WriteWeights(*file.archive, model, folder.Path("data/w.safetensors")));
  ADJOIN_ASSIGN_OR_RETURN(const std::string text,
                          JobText(model, {.name = "job", .weights = "w.safetensors", .archive = test.archive}));
  ADJOIN_ASSIGN_OR_RETURN(const ParsedSpec parsed, ParseSpec(text, "job"));
  JobSpec job = parsed.spec;
  for (int i = 0; i < job.dataset(0).field_size(); ++i) {
    job.mutable_dataset(0)->mutable_field(i)->mutable_npy()->add_path(absl::StrCat("input", i, ".npy"));
  }
  if (ranks == 1) return job;
  job.set_ranks(static_cast<uint32_t>(ranks));
  google::protobuf::TextFormat::ParseFromString(absl::StrCat("name: \"cut\" partition: ", test.partition),
                                                job.add_layout());
  // A field of another number of dims is cut by batch.
  const auto dims = static_cast<size_t>(std::count(test.partition.begin(), test.partition.end(), ',') + 1);
  std::map<std::string, std::string> layouts;  // by field
  size_t batch_dims = 0;
  for (const ImportedInput& input : model.inputs) {
    layouts[input.field] = input.shape.size() == dims ? "cut" : absl::StrCat("batch", input.shape.size());
    if (input.shape.size() == dims || input.shape.size() == batch_dims) continue;
    batch_dims = input.shape.size();
    LayoutSpec* batch = job.add_layout();
    batch->set_name(layouts[input.field]);
    batch->mutable_partition()->Resize(static_cast<int>(batch_dims), 1);
    batch->set_partition(0, ranks);
  }
  for (Layer& layer : *job.mutable_layer()) {
    for (int i = 0; i < layer.input_size(); ++i) {
      const auto found = layouts.find(layer.input(i));
      if (found == layouts.end()) continue;
      while (layer.x_size() <= i) layer.add_x("");
      layer.set_x(i, found->second);
    }
  }
  return job;
}

absl::StatusOr<JobSpec> TrainingJob(const ArchiveCase& test, int ranks, const JobFolder& folder) {
  ADJOIN_ASSIGN_OR_RETURN(JobSpec job, ImportedJob(test, ranks, folder));
  job.set_kind(TRAIN);
  job.mutable_precision()->set_compute("float64");
  int64_t batch = 0;
  for (int i = 0; i < job.predict().input_size(); ++i) {
    ADJOIN_ASSIGN_OR_RETURN(const at::Tensor output, folder.ReadArray(absl::StrCat("data/output", i, ".npy")));
    batch = output.size(0);
    const std::string target = absl::StrCat("target", i);
    folder.WriteArray(absl::StrCat("data/", target, ".npy"), output.flip({0}));
    Field* field = job.mutable_dataset(0)->add_field();
    field->set_name(target);
    field->mutable_npy()->add_path(target + ".npy");
    for (int64_t d = 1; d < output.dim(); ++d) field->add_shape(output.size(d));
    Loss* loss = job.add_loss();
    loss->set_kind("mse");
    loss->set_input(job.predict().input(i));
    loss->set_target(target);
  }
  job.clear_predict();
  for (Layer& layer : *job.mutable_layer()) {
    if (layer.has_dropout()) layer.mutable_dropout()->set_p(0);
    if (layer.has_attention()) layer.mutable_attention()->clear_dropout();
  }
  Train* train = job.mutable_train();
  train->set_dataset("data");
  train->set_batch(static_cast<uint32_t>(batch));
  train->set_steps(4);
  train->set_validate_on("data");
  train->set_validate_every(4);
  train->mutable_optimizer()->mutable_sgd()->set_lr(0.05);
  train->mutable_optimizer()->mutable_sgd()->set_momentum(0.9);
  return job;
}

}  // namespace adjoin
