#include "planner/spec/spec_include.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class SpecIncludeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "/include-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = std::filesystem::canonical(folder).string();
  }
  ~SpecIncludeTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string File(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(Path(name)).parent_path());
    std::ofstream(Path(name)) << text;
    return Path(name);
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  LoadedSpec Load(const std::string& name, const SpecChanges& changes = {}) {
    auto loaded = LoadSpec(Path(name), changes);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? *std::move(loaded) : LoadedSpec();
  }
  // The message, without the folder.
  std::string ErrorOf(const std::string& name) {
    const auto loaded = LoadSpec(Path(name), {});
    return loaded.ok() ? "" : WithoutFolder(std::string(loaded.status().message()));
  }
  std::string WithoutFolder(std::string text) const {
    for (size_t at; (at = text.find(folder_ + "/")) != std::string::npos;) text.erase(at, folder_.size() + 1);
    return text;
  }

  std::string folder_;
};

std::vector<std::string> LayerNames(const JobSpec& spec) {
  std::vector<std::string> names;
  for (const Layer& layer : spec.layer()) names.push_back(layer.name());
  return names;
}

TEST_F(SpecIncludeTest, AFileAloneIsTakenAsItIs) {
  const std::string text = "name: \"a\"  # a comment\nranks: 2\n";
  File("job.textproto", text);
  const LoadedSpec loaded = Load("job.textproto");
  EXPECT_EQ(loaded.source.text, text);
  EXPECT_EQ(loaded.source.name, Path("job.textproto"));
  EXPECT_EQ(loaded.parsed.locations.At("ranks"), Path("job.textproto") + ":2:1");
}

TEST_F(SpecIncludeTest, IncludedListsStandFirstAndTheIncludersFieldsCount) {
  File("net.textproto",
       "ranks: 2 seed: 3\nlayer { name: \"a\" } layer { name: \"b\" }\n"
       "train { batch: 8 epochs: 2\n  schedule { steps: 1 } }");
  File("data.json", "{\"dataset\": [{\"name\": \"d\"}], \"outputDir\": \"from-json\"}");
  File("job.textproto",
       "ranks: 4\ninclude: \"net.textproto\"\ninclude: \"data.json\"\nlayer { name: \"c\" }\n"
       "train {\n steps: 5 schedule { steps: 2 } }");
  const JobSpec spec = Load("job.textproto").parsed.spec;
  EXPECT_THAT(LayerNames(spec), ElementsAre("a", "b", "c"));
  EXPECT_EQ(spec.ranks(), 4);
  EXPECT_EQ(spec.seed(), 3);
  EXPECT_EQ(spec.train().batch(), 8);
  EXPECT_EQ(spec.train().steps(), 5) << "instead of epochs";
  EXPECT_EQ(spec.train().schedule_size(), 2);
  EXPECT_EQ(spec.train().schedule(0).steps(), 1);
  EXPECT_EQ(spec.dataset(0).name(), "d");
  EXPECT_EQ(spec.output_dir(), "from-json");
  EXPECT_TRUE(spec.include().empty());
}

TEST_F(SpecIncludeTest, NamesAreRelativeToTheIncludingFile) {
  File("parts/deep/inner.textproto", "layer { name: \"inner\" }");
  File("parts/net.textproto", "include: \"deep/inner.textproto\" layer { name: \"net\" }");
  File("jobs/job.json", "{\"include\": [\"../parts/net.textproto\", \"" +
                            File("more.textproto", "layer { name: \"m\" }") + "\"], \"layer\": [{\"name\": \"job\"}]}");
  EXPECT_THAT(LayerNames(Load("jobs/job.json").parsed.spec), ElementsAre("inner", "net", "m", "job"));
}

TEST_F(SpecIncludeTest, EveryFieldHasTheLocationWhereItIsWritten) {
  File("net.textproto", "layer { name: \"a\" }\nlayer { name: \"b\" }\ntrain { batch: 8\n drop_last: true }");
  File("data.json", "{\"dataset\": [{\"name\": \"d\"}], \"restart\": {\"maxRestarts\": 1}}");
  File("job.textproto",
       "include: \"net.textproto\" include: \"data.json\"\nlayer { name: \"c\" }\n\ntrain { batch: 4 }");
  const SpecLocations locations = Load("job.textproto").parsed.locations;
  const auto at = [&](const char* path) { return WithoutFolder(locations.At(path)); };
  EXPECT_EQ(at("layer[1].name"), "net.textproto:2:9");
  EXPECT_EQ(at("layer[2].name"), "job.textproto:2:9");
  EXPECT_EQ(at("train.batch"), "job.textproto:4:9");
  EXPECT_EQ(at("train.drop_last"), "net.textproto:4:2");
  EXPECT_EQ(at("dataset[0].name"), "data.json");
  EXPECT_EQ(at("restart.max_restarts"), "data.json");
  EXPECT_EQ(at("checkpoint"), "job.textproto") << "written nowhere";
  EXPECT_EQ(at("no_such_field"), "job.textproto");
}

TEST_F(SpecIncludeTest, ErrorsInAnIncludedFileNameItsLine) {
  File("net.textproto", "layer { name: \"a\" }\nlayer { nme: \"b\" }");
  File("job.textproto", "\ninclude: \"net.textproto\"");
  EXPECT_THAT(ErrorOf("job.textproto"), AllOf(StartsWith("net.textproto:2:"), HasSubstr("nme")));
}

TEST_F(SpecIncludeTest, AFileThatIsNotThereIsNamedWithTheLineThatIncludesIt) {
  File("job.textproto", "ranks: 1\ninclude: \"net.textproto\"");
  EXPECT_EQ(ErrorOf("job.textproto"),
            "job.textproto:2:1: include \"net.textproto\": net.textproto: No such file or directory");
  File("empty.textproto", "include: \"\"");
  EXPECT_EQ(ErrorOf("empty.textproto"), "empty.textproto:1:1: include \"\": is no name of a file");
  std::filesystem::create_directory(Path("folder"));
  File("of-folder.textproto", "include: \"folder\"");
  EXPECT_THAT(ErrorOf("of-folder.textproto"), HasSubstr("folder cannot be read as a file"));
}

TEST_F(SpecIncludeTest, CirclesAreRefused) {
  File("a.textproto", "include: \"b.textproto\"");
  File("b.textproto", "ranks: 1\ninclude: \"./x/../a.textproto\"");
  EXPECT_EQ(ErrorOf("a.textproto"),
            "b.textproto:2:1: include \"./x/../a.textproto\": is a circle: a.textproto includes b.textproto includes "
            "a.textproto");
  File("self.textproto", "include: \"self.textproto\"");
  EXPECT_THAT(ErrorOf("self.textproto"), HasSubstr("is a circle: self.textproto includes self.textproto"));
  std::filesystem::create_symlink(Path("link.textproto"), Path("other.textproto"));
  File("link.textproto", "include: \"other.textproto\"");
  EXPECT_THAT(ErrorOf("link.textproto"), HasSubstr("is a circle"));
}

TEST_F(SpecIncludeTest, DepthNumberAndSizeAreLimited) {
  for (int i = 0; i <= kMaxIncludeDepth; ++i) {
    File("deep" + std::to_string(i), i == 0 ? "ranks: 1" : "include: \"deep" + std::to_string(i - 1) + "\"");
  }
  EXPECT_EQ(Load("deep" + std::to_string(kMaxIncludeDepth)).parsed.spec.ranks(), 1);
  File("deeper", "include: \"deep" + std::to_string(kMaxIncludeDepth) + "\"");
  EXPECT_THAT(ErrorOf("deeper"), HasSubstr("more than 8 files include one another"));

  std::string many;
  for (int i = 0; i <= kMaxIncludedFiles; ++i) many += "include: \"deep0\"\n";
  File("many", many);
  EXPECT_THAT(ErrorOf("many"), HasSubstr("includes at most 100 files"));

  File("half", "name: \"a\"\n" + std::string(kMaxSpecBytes / 2, ' '));
  File("whole", "include: \"half\"");
  EXPECT_EQ(ErrorOf("whole"), "");
  File("twice", "include: \"half\" include: \"half\"");
  EXPECT_THAT(ErrorOf("twice"), HasSubstr("half: with this file the job has more than 1048576 bytes"));
}

TEST_F(SpecIncludeTest, TheSourceIsTheSameJobAndItsErrorsAreTraced) {
  File("net.textproto", "layer { name: \"a\"\n  conv { out_channels: 3 } }");
  File("job.textproto", "include: \"net.textproto\"\nname: \"j\"");
  const LoadedSpec loaded = Load("job.textproto");
  EXPECT_EQ(loaded.source.name, Path("job.textproto with its includes"));
  const auto again = ParseSpec(loaded.source.text, loaded.source.name);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->spec.SerializeAsString(), loaded.parsed.spec.SerializeAsString());

  const auto traced = [&](const std::string& message) {
    return WithoutFolder(std::string(AtIncludedFile(absl::InvalidArgumentError(message), loaded).message()));
  };
  EXPECT_EQ(traced(again->locations.At("layer[0].conv.out_channels") + ": wrong"), "net.textproto:2:10: wrong");
  EXPECT_EQ(traced(again->locations.At("name") + ": wrong"), "job.textproto:2:1: wrong");
  EXPECT_EQ(traced("the coordinator is busy"), "the coordinator is busy");
  EXPECT_EQ(traced(loaded.source.name + ":999:1: wrong"), "job.textproto with its includes:999:1: wrong");
  EXPECT_EQ(traced(loaded.source.name + ": wrong"), "job.textproto with its includes: wrong");
}

TEST_F(SpecIncludeTest, OptionsChangeTheWholeJob) {
  File("net.textproto", "layer { name: \"a\" } train { batch: 8 }");
  File("job.textproto", "include: \"net.textproto\" layer { name: \"b\" }");
  const LoadedSpec loaded = Load("job.textproto", {{"layer[a]"}, {"train.batch=2"}});
  EXPECT_THAT(LayerNames(loaded.parsed.spec), ElementsAre("b"));
  EXPECT_EQ(loaded.parsed.spec.train().batch(), 2);
  EXPECT_EQ(loaded.source.name, Path("job.textproto with its includes with --unset and --set"));
}

}  // namespace
}  // namespace adjoin
