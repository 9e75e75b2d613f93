// Imported archives against what PyTorch wrote beside them, on several numbers of ranks; and samples that are refused.
#include "verify/against.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include <zlib.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "importer/import_model.h"
#include "importer/job_text.h"
#include "importer/model_file.h"
#include "planner/spec/spec_parser.h"
#include "worker/data/cell_type.h"
#include "worker/data/npy_file.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string FileBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

template <typename T>
void Put(std::string& to, T number) {
  char bytes[sizeof(T)];
  memcpy(bytes, &number, sizeof(T));
  to.append(bytes, sizeof(T));
}

std::string Deflated(const std::string& content) {
  z_stream stream = {};
  deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// A zip archive as numpy.savez writes it, or numpy.savez_compressed. `claimed`, where not 0: the size that its entries
// say they have.
std::string Npz(const std::map<std::string, std::string>& entries, bool compressed = false, uint32_t claimed = 0) {
  std::string file, directory;
  for (const auto& [name, content] : entries) {
    const std::string packed = compressed ? Deflated(content) : content;
    std::string about;
    Put<uint16_t>(about, 20);
    Put<uint16_t>(about, 0);
    Put<uint16_t>(about, compressed ? 8 : 0);
    Put<uint32_t>(about, 0);
    Put<uint32_t>(about, static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(content.data()),
                                                     static_cast<uInt>(content.size()))));
    Put<uint32_t>(about, static_cast<uint32_t>(packed.size()));
    Put<uint32_t>(about, claimed != 0 ? claimed : static_cast<uint32_t>(content.size()));
    Put<uint16_t>(about, static_cast<uint16_t>(name.size()));
    Put<uint16_t>(about, 0);
    Put<uint32_t>(directory, 0x02014b50);
    Put<uint16_t>(directory, 20);
    directory += about;
    Put<uint16_t>(directory, 0);
    Put<uint16_t>(directory, 0);
    Put<uint16_t>(directory, 0);
    Put<uint32_t>(directory, 0);
    Put<uint32_t>(directory, static_cast<uint32_t>(file.size()));
    directory += name;
    Put<uint32_t>(file, 0x04034b50);
    file += about + name + packed;
  }
  std::string end;
  Put<uint32_t>(end, 0x06054b50);
  Put<uint32_t>(end, 0);
  Put<uint16_t>(end, static_cast<uint16_t>(entries.size()));
  Put<uint16_t>(end, static_cast<uint16_t>(entries.size()));
  Put<uint32_t>(end, static_cast<uint32_t>(directory.size()));
  Put<uint32_t>(end, static_cast<uint32_t>(file.size()));
  Put<uint16_t>(end, 0);
  return file + directory + end;
}

std::string Npy(const std::vector<int64_t>& shape, const std::vector<double>& values) {
  std::string bytes = NpyHeaderBytes(CellType::kFloat64, shape);
  for (const double value : values) Put(bytes, value);
  return bytes;
}

class AgainstTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = absl::StrCat(std::getenv("TEST_TMPDIR"), "/", test->name());
    std::filesystem::create_directories(folder_);
  }
  std::string File(const std::string& name) const { return absl::StrCat(folder_, "/", name); }

  // The job of an archive; its weights are in w.safetensors.
  absl::StatusOr<ParsedSpec> Import(const std::string& name) {
    ADJOIN_ASSIGN_OR_RETURN(const ModelFile file, OpenModelFile(absl::StrCat("importer/testdata/", name, ".pt2"), {}));
    ADJOIN_ASSIGN_OR_RETURN(const ImportedModel model, ImportModel(*file.archive, file.graph, {}));
    ADJOIN_RETURN_IF_ERROR(WriteWeights(*file.archive, model, File("w.safetensors")));
    ADJOIN_ASSIGN_OR_RETURN(const std::string text,
                            JobText(model, {.name = "job", .weights = "w.safetensors", .archive = name}));
    ADJOIN_ASSIGN_OR_RETURN(ParsedSpec parsed, ParseSpec(text, "job"));
    field_ = model.inputs[0].field;
    return parsed;
  }
  // Makes it a job that trains with a squared error, towards a field of its output's shape.
  static void Train(JobSpec& job) {
    job.set_kind(TRAIN);
    const std::string output = job.predict().input(0);
    Field* field = job.mutable_dataset(0)->add_field();
    *field = job.dataset(0).field(0);
    field->set_name("target0");
    field->mutable_synthetic()->set_kind("normal");
    field->clear_shape();
    for (const int64_t extent : output == "4" ? std::vector<int64_t>{3} : std::vector<int64_t>{3, 120}) {
      field->add_shape(extent);
    }
    Loss* loss = job.add_loss();
    loss->set_kind("mse");
    loss->set_input(output);
    loss->set_target("target0");
    job.clear_predict();
    job.mutable_train()->set_dataset("data");
    job.mutable_train()->set_batch(2);
    job.mutable_train()->set_steps(1);
    job.mutable_train()->mutable_optimizer()->mutable_sgd()->set_lr(0.1);
  }
  // As PyTorch computed it.
  std::map<std::string, std::string> Entries(const std::string& name) const {
    return {{absl::StrCat("input.", field_, ".npy"), FileBytes(absl::StrCat("importer/testdata/", name, ".input.npy"))},
            {"output.npy", FileBytes(absl::StrCat("importer/testdata/", name, ".output.npy"))}};
  }
  AgainstOptions Options(const std::string& sample) {
    WriteBytes(File("sample.npz"), sample);
    AgainstOptions options;
    options.sample = File("sample.npz");
    options.data_root = folder_;
    return options;
  }

  std::string folder_, field_;
};

TEST_F(AgainstTest, ImportedModelsComputeWhatPyTorchDid) {
  for (const char* name : {"lenet", "resnet", "unet3d", "mixed", "transformer", "slices"}) {
    const auto job = Import(name);
    ASSERT_TRUE(job.ok()) << name << ": " << job.status();
    AgainstOptions options = Options(Npz(Entries(name), /*compressed=*/std::string(name) != "mixed"));
    options.verify.ranks = {1, 2, 4};
    const auto result = VerifyAgainst(*job, options);
    ASSERT_TRUE(result.ok()) << name << ": " << result.status();
    EXPECT_FALSE(result->deviates()) << name << ":\n" << AgainstText(*result);
    ASSERT_EQ(result->runs.size(), 3u);
    for (const AgainstRanks& run : result->runs) EXPECT_EQ(run.sample.size(), 1u) << name;
  }
}

TEST_F(AgainstTest, LayoutsAreChosenForTheSamplesBatch) {
  for (const char* name : {"lenet", "sequential"}) {
    auto job = Import(name);
    ASSERT_TRUE(job.ok()) << name << ": " << job.status();
    if (std::string(name) == "sequential") {
      Train(job->spec);
      job->spec.mutable_train()->set_batch(64);  // The sample has 2.
    }
    AgainstOptions options = Options(Npz(Entries(name)));
    options.verify.ranks = {1, 2, 4};
    options.layouts.chosen = true;
    const auto result = VerifyAgainst(*job, options);
    ASSERT_TRUE(result.ok()) << name << ": " << result.status();
    EXPECT_FALSE(result->deviates()) << name << ":\n" << AgainstText(*result);
    ASSERT_EQ(result->runs.size(), 3u);
    for (const AgainstRanks& run : result->runs) EXPECT_EQ(run.sample.size(), 1u) << name;
    EXPECT_THAT(AgainstText(*result), HasSubstr("4 ranks, layouts chosen"));
    options.layouts.pin = {"no_such_layer=1x2"};
    const auto refused = VerifyAgainst(*job, options);
    ASSERT_TRUE(refused.ok()) << refused.status();
    EXPECT_TRUE(refused->deviates());
    EXPECT_THAT(AgainstText(*refused), AllOf(HasSubstr("NOT VERIFIED"), HasSubstr("no_such_layer")));
  }
}

// A field of one number a sample, and several outputs.
TEST_F(AgainstTest, ReadsOneNumberOfEachSample) {
  const auto job = Import("several");
  ASSERT_TRUE(job.ok()) << job.status();
  std::map<std::string, std::string> entries;
  const auto bytes = [](const std::string& name) {
    return FileBytes(absl::StrCat("importer/testdata/several.", name, ".npy"));
  };
  entries["input.image.npy"] = bytes("input.0");
  entries["input.label.npy"] = bytes("input.1");
  entries["output.0.npy"] = bytes("output.0");
  entries["output.1.npy"] = bytes("output.1");
  AgainstOptions options = Options(Npz(entries));
  options.verify.ranks = {1, 2};
  const auto result = VerifyAgainst(*job, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->deviates()) << AgainstText(*result);
  for (const AgainstRanks& run : result->runs) EXPECT_EQ(run.sample.size(), 2u);
}

TEST_F(AgainstTest, WeightsOfAnotherModelDeviateInTheSerialModel) {
  const auto job = Import("lenet");
  ASSERT_TRUE(job.ok()) << job.status();
  std::string weights = FileBytes(File("w.safetensors"));
  // The last four bytes are one number of the last tensor.
  weights[weights.size() - 1] = '\x44';
  WriteBytes(File("w.safetensors"), weights);
  const auto result = VerifyAgainst(*job, Options(Npz(Entries("lenet"))));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->deviates());
  EXPECT_THAT(AgainstText(*result), AllOf(HasSubstr("against PyTorch: output (layer "), HasSubstr("global position ("),
                                          HasSubstr("in the serial model itself"), HasSubstr("output.<layer>")));
}

TEST_F(AgainstTest, TheFirstLayerOfTheSampleThatDeviatesIsNamed) {
  const auto job = Import("lenet");
  ASSERT_TRUE(job.ok()) << job.status();
  const auto right = VerifyAgainst(*job, Options(Npz(Entries("lenet"))));
  ASSERT_TRUE(right.ok()) << right.status();
  // Any other values of its shape are those of another layer.
  const std::string first = job->spec.layer(0).name();
  auto entries = Entries("lenet");
  entries[absl::StrCat("output.", first, ".npy")] = Npy({1}, {1});
  const auto shape = VerifyAgainst(*job, Options(Npz(entries)));
  EXPECT_THAT(std::string(shape.status().message()),
              AllOf(HasSubstr(absl::StrCat("output.", first, " is 1; layer \"", first, "\" returns 2x4x28x28"))));
  std::string output = entries["output.npy"];
  output[output.size() - 1] ^= 0x40;
  entries = Entries("lenet");
  entries["output.npy"] = output;
  entries["output.0.npy"] = Entries("lenet")["output.npy"];
  const auto result = VerifyAgainst(*job, Options(Npz(entries)));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->deviates());
  EXPECT_THAT(AgainstText(*result), HasSubstr("DEVIATES: layer "));
}

TEST_F(AgainstTest, LossAndGradientsAreThoseOfPyTorch) {
  for (const char* name : {"sequential", "mixed"}) {
    auto job = Import(name);
    ASSERT_TRUE(job.ok()) << job.status();
    const std::string sample = FileBytes(absl::StrCat("importer/testdata/", name, ".gradients.npz"));
    EXPECT_THAT(std::string(VerifyAgainst(*job, Options(sample)).status().message()),
                HasSubstr("is compared only of a job with a loss"));
    Train(job->spec);
    const auto result = VerifyAgainst(*job, Options(sample));
    ASSERT_TRUE(result.ok()) << name << ": " << result.status();
    EXPECT_FALSE(result->deviates()) << AgainstText(*result);
    EXPECT_GT(result->loss.size(), 5u);
    EXPECT_EQ(result->loss[0].array, "loss");
    EXPECT_THAT(AgainstText(*result),
                AllOf(HasSubstr("against PyTorch: loss: "), HasSubstr(" gradients, the largest")));
    // Twice the loss has twice the gradients, and the same outputs.
    job->spec.mutable_loss(0)->set_weight(2);
    const auto other = VerifyAgainst(*job, Options(sample));
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_TRUE(other->deviates());
    EXPECT_THAT(AgainstText(*other), HasSubstr("DEVIATES: the loss is "));
  }
}

TEST_F(AgainstTest, TheFirstGradientOfTheBackwardPassThatDeviatesIsNamed) {
  auto job = Import("sequential");
  ASSERT_TRUE(job.ok()) << job.status();
  Train(job->spec);
  auto entries = Entries("sequential");
  entries["input.target0.npy"] = entries["output.npy"];  // so the loss is 0, and so are its gradients
  entries["loss.npy"] = Npy({}, {0});
  for (const auto& [parameter, shape] : std::map<std::string, std::vector<int64_t>>{{"0.weight", {4, 1, 3, 3}},
                                                                                    {"0.bias", {4}},
                                                                                    {"2.0.weight", {4}},
                                                                                    {"2.0.bias", {4}},
                                                                                    {"4.weight", {3, 120}},
                                                                                    {"4.bias", {3}}}) {
    const int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>());
    entries[absl::StrCat("grad.", parameter, ".npy")] = Npy(shape, std::vector<double>(static_cast<size_t>(count), 0));
  }
  const auto right = VerifyAgainst(*job, Options(Npz(entries)));
  ASSERT_TRUE(right.ok()) << right.status();
  EXPECT_EQ(right->loss.size(), 7u);
  entries["grad.0.bias.npy"] = Npy({4}, {0, 0, 1, 0});
  entries["grad.4.bias.npy"] = Npy({3}, {0, 1, 0});
  const auto result = VerifyAgainst(*job, Options(Npz(entries)));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(AgainstText(*result), AllOf(HasSubstr("DEVIATES: the gradient of 4.bias is the first"),
                                          HasSubstr("global position (1)"), HasSubstr("instead of 1")));
  const auto refusal = [&] { return std::string(VerifyAgainst(*job, Options(Npz(entries))).status().message()); };
  entries["grad.4.bias.npy"] = Npy({1, 3}, {0, 1, 0});
  EXPECT_THAT(refusal(), HasSubstr("grad.4.bias is 1x3; the model's is 3"));
  entries.erase("grad.4.bias.npy");
  entries["grad.5.bias.npy"] = Npy({3}, {0, 1, 0});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("grad.5.bias is not known"), HasSubstr("grad.4.bias")));
  entries.erase("grad.5.bias.npy");
  EXPECT_THAT(refusal(), HasSubstr("grad.4.bias is missing, and the sample has other gradients"));
  entries.erase("input.target0.npy");
  EXPECT_THAT(refusal(), HasSubstr("input.target0 is missing: the loss is compared with field \"target0\""));
}

TEST_F(AgainstTest, SaysWhichWeightsAreMissing) {
  auto job = Import("lenet");
  ASSERT_TRUE(job.ok()) << job.status();
  AgainstOptions options = Options(Npz(Entries("lenet")));
  options.data_root = "";
  EXPECT_THAT(std::string(VerifyAgainst(*job, options).status().message()),
              AllOf(HasSubstr("weights.init_from is \"w.safetensors\""), HasSubstr("--data-root DIR")));
  options.weights = File("w.safetensors");
  EXPECT_TRUE(VerifyAgainst(*job, options).ok());
  options.weights = File("absent.safetensors");
  EXPECT_THAT(std::string(VerifyAgainst(*job, options).status().message()), HasSubstr("absent.safetensors"));
}

TEST_F(AgainstTest, SamplesThatDoNotFitAreRefused) {
  const auto job = Import("lenet");
  ASSERT_TRUE(job.ok()) << job.status();
  const auto refusal = [&](const std::string& sample) {
    return std::string(VerifyAgainst(*job, Options(sample)).status().message());
  };
  const auto right = Entries("lenet");
  const std::string input = absl::StrCat("input.", field_, ".npy");
  auto entries = right;
  entries.erase(input);
  EXPECT_THAT(refusal(Npz(entries)), HasSubstr("has no input"));
  entries["input.other.npy"] = right.at(input);
  EXPECT_THAT(refusal(Npz(entries)), AllOf(HasSubstr(absl::StrCat("input.", field_)), HasSubstr("is missing")));
  entries[input] = right.at(input);
  EXPECT_THAT(refusal(Npz(entries)), AllOf(HasSubstr("input.other is not known"), HasSubstr("known are: ")));
  EXPECT_THAT(refusal(Npz({{input, right.at(input)}})), HasSubstr("has no output to compare"));
  EXPECT_THAT(refusal(Npz({{input, Npy({2, 3}, {1, 2, 3, 4, 5, 6})}, {"output.npy", right.at("output.npy")}})),
              AllOf(HasSubstr("is 2x3; the model reads 2x1x28x28")));
  EXPECT_THAT(refusal(Npz({{input, right.at(input)}, {"output.npy", Npy({2, 2}, {1, 2, std::nan(""), 4})}})),
              AllOf(HasSubstr("output.npy"), HasSubstr("NaN, at position (1, 0)")));
  EXPECT_THAT(refusal(Npz({{"read.me", "text"}})), HasSubstr("is no array"));
  EXPECT_THAT(refusal("no zip"), HasSubstr("numpy.savez"));
}

TEST_F(AgainstTest, HostileArchivesAreRefused) {
  const auto job = Import("lenet");
  ASSERT_TRUE(job.ok()) << job.status();
  const auto entries = Entries("lenet");
  const std::string whole = Npz(entries, /*compressed=*/true);
  for (size_t bytes = 0; bytes < whole.size(); bytes += 1 + whole.size() / 50) {
    EXPECT_FALSE(VerifyAgainst(*job, Options(whole.substr(0, bytes))).ok()) << bytes;
  }
  // Each entry claims 4 GiB - 2, or one byte more or less than it has.
  for (const uint32_t claimed : {0xfffffffeu, 1u}) {
    EXPECT_FALSE(VerifyAgainst(*job, Options(Npz(entries, /*compressed=*/true, claimed))).ok());
    EXPECT_FALSE(VerifyAgainst(*job, Options(Npz(entries, /*compressed=*/false, claimed))).ok());
  }
  const std::string zeros(size_t{1} << 22, '\0');
  for (const uint32_t claimed : {1000u, (1u << 22) + 1, (1u << 22) - 1}) {
    const auto refused = VerifyAgainst(*job, Options(Npz({{"output.npy", zeros}}, /*compressed=*/true, claimed)));
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("bytes it claims"));
  }
  const std::string lying = NpyHeaderBytes(CellType::kFloat64, {int64_t{1} << 40, 1 << 20});
  EXPECT_FALSE(VerifyAgainst(*job, Options(Npz({{"output.npy", lying}}))).ok());
}

}  // namespace
}  // namespace adjoin
