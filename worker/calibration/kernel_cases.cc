#include "worker/calibration/kernel_cases.h"

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

using Extents = std::vector<int64_t>;

// Batch, channels read, channels returned, extent of the kernel, extents of the input, and more of WindowSpec.
struct ConvSizes {
  int64_t batch, in, out, kernel;
  Extents extents;
  std::string more = {};
  int64_t groups = 1;
};

void Add(const ConvSizes& conv, std::vector<KernelCase>& cases, const std::string& type = "float32",
         bool first = false) {
  Extents shape = {conv.batch, conv.in};
  shape.insert(shape.end(), conv.extents.begin(), conv.extents.end());
  const bool transposed = conv.more == "transposed";
  const std::string window = transposed
                                 ? absl::StrCat("kernel: ", conv.kernel, " stride: ", conv.kernel)
                                 : absl::StrCat("kernel: ", conv.kernel, " pad_lo: ", conv.kernel / 2, " ", conv.more);
  cases.push_back({.layer = absl::StrCat(
                       "conv { out_channels: ", conv.out, " bias: false ", transposed ? "transposed: true " : "",
                       conv.groups > 1 ? absl::StrCat("groups: ", conv.groups, " ") : "", "window { ", window, " } }"),
                   .shape = shape,
                   .type = type,
                   .first = first});
}

void AddConvolutions(std::vector<KernelCase>& cases) {
  const std::string half = "stride: 2";
  for (const ConvSizes& conv : std::vector<ConvSizes>{
           {4, 1, 8, 3, {128, 128}},
           {8, 1, 6, 5, {28, 28}},
           {4, 3, 16, 7, {128, 128}, half},
           {4, 8, 8, 3, {32, 32}},
           {4, 8, 8, 3, {64, 64}},
           {4, 8, 8, 3, {128, 128}},
           {2, 8, 8, 3, {64, 32}},
           {4, 16, 8, 3, {96, 96}},
           {4, 16, 8, 3, {48, 48}},
           {4, 16, 16, 3, {16, 16}},
           {4, 16, 16, 3, {32, 32}},
           {4, 16, 16, 3, {64, 64}},
           {4, 32, 32, 3, {16, 16}},
           {4, 32, 32, 3, {32, 32}},
           {4, 64, 64, 3, {8, 8}},
           {4, 64, 64, 3, {16, 16}},
           {4, 64, 64, 3, {32, 32}},
           {4, 128, 128, 3, {8, 8}},
           {4, 128, 128, 3, {16, 16}},
           {4, 256, 256, 3, {8, 8}},
           {2, 512, 512, 3, {8, 8}},
           {4, 16, 3, 1, {64, 64}},
           {4, 8, 1, 1, {96, 96}},
           {4, 40, 3, 1, {96, 96}},
           {16, 64, 64, 1, {16, 16}},
           {4, 64, 256, 1, {16, 16}},
           {4, 256, 64, 1, {16, 16}},
           {8, 8, 16, 5, {32, 32}},
           {4, 16, 32, 3, {64, 64}, half},
           {4, 64, 128, 3, {32, 32}, half},
           {1, 8, 8, 3, {32, 32}},
           {1, 16, 16, 3, {64, 64}},
           {1, 8, 8, 3, {128, 128}},
           {1, 8, 8, 3, {8, 32, 32}},
           {1, 8, 8, 3, {16, 32, 64}},
           {1, 8, 8, 3, {16, 64, 64}},
           {1, 24, 8, 3, {16, 64, 64}},
           {1, 8, 16, 3, {8, 32, 32}},
           {1, 16, 16, 3, {8, 32, 32}},
           {1, 48, 16, 3, {8, 32, 32}},
           {1, 16, 32, 3, {4, 16, 16}},
           {1, 32, 32, 3, {4, 16, 16}},
           {1, 32, 32, 3, {2, 8, 16}},
           {1, 32, 32, 3, {8, 32, 32}},
           {1, 64, 64, 3, {4, 8, 8}},
           {2, 4, 8, 3, {32, 32, 32}},
           {1, 8, 3, 1, {16, 64, 64}},
           {1, 8, 3, 1, {16, 32, 32}},
           {4, 16, 16, 3, {1024}},
           {4, 16, 16, 3, {4096}},
           {4, 16, 16, 1, {4096}},
           {4, 16, 16, 1, {1024}},
           {2, 64, 64, 3, {512}},
           {4, 16, 8, 2, {16, 16}, "transposed"},
           {4, 16, 8, 2, {48, 48}, "transposed"},
           {2, 16, 8, 2, {48, 24}, "transposed"},
           {4, 64, 32, 2, {16, 16}, "transposed"},
           {1, 32, 16, 2, {4, 16, 16}, "transposed"},
           {1, 16, 8, 2, {8, 32, 32}, "transposed"},
           {4, 32, 32, 3, {32, 32}, "", 32},
           {4, 64, 64, 3, {16, 16}, "", 64},
           {4, 128, 128, 3, {16, 16}, "", 128},
           {4, 64, 64, 3, {16, 16}, "", 4},
       }) {
    Add(conv, cases);
  }
  for (const ConvSizes& conv : std::vector<ConvSizes>{{4, 1, 8, 3, {128, 128}},
                                                      {4, 1, 8, 3, {48, 48}},
                                                      {8, 1, 8, 5, {64, 64}},
                                                      {4, 3, 16, 7, {128, 128}, half},
                                                      {4, 3, 16, 7, {64, 64}, half},
                                                      {4, 3, 8, 3, {96, 96}},
                                                      {4, 3, 16, 3, {48, 96}},
                                                      {1, 1, 8, 3, {16, 64, 64}},
                                                      {1, 1, 8, 3, {16, 32, 32}},
                                                      {4, 1, 16, 3, {4096}},
                                                      {2, 1, 16, 3, {2048}},
                                                      {4, 64, 64, 3, {16, 16}}}) {
    Add(conv, cases, "float32", /*first=*/true);
  }
  for (const char* type : {"float64", "bfloat16"}) {
    for (const ConvSizes& conv : std::vector<ConvSizes>{{2, 8, 8, 3, {32, 32}},
                                                        {2, 8, 8, 3, {128, 128}},
                                                        {1, 8, 8, 3, {64, 64}},
                                                        {2, 8, 16, 3, {64, 64}},
                                                        {2, 16, 1, 1, {128, 128}},
                                                        {2, 16, 16, 3, {16, 16}},
                                                        {2, 64, 64, 3, {16, 16}}}) {
      Add(conv, cases, type);
    }
    Add({2, 1, 8, 3, {128, 128}}, cases, type, /*first=*/true);
    Add({2, 1, 8, 3, {64, 64}}, cases, type, /*first=*/true);
  }
  Add({1, 8, 8, 3, {8, 16, 16}}, cases, "float64");
}

void AddProducts(std::vector<KernelCase>& cases) {
  struct Linear {
    int64_t rows, in, out;
  };
  const auto add = [&](const Linear& linear, const std::string& type, bool first) {
    cases.push_back({.layer = absl::StrCat("linear { out_features: ", linear.out, " }"),
                     .shape = {linear.rows, linear.in},
                     .type = type,
                     .first = first});
  };
  for (const Linear& linear : std::vector<Linear>{{4, 128, 3},
                                                  {8, 4096, 64},
                                                  {64, 64, 64},
                                                  {256, 64, 64},
                                                  {1024, 64, 64},
                                                  {1024, 64, 256},
                                                  {256, 64, 256},
                                                  {1024, 256, 64},
                                                  {256, 256, 64},
                                                  {1024, 64, 8},
                                                  {128, 512, 512},
                                                  {512, 512, 512},
                                                  {512, 512, 8},
                                                  {512, 256, 256},
                                                  {4096, 32, 128},
                                                  {4096, 128, 32},
                                                  {4096, 32, 3},
                                                  {1024, 32, 128},
                                                  {1024, 1024, 1024}}) {
    add(linear, "float32", false);
  }
  add({1024, 16, 64}, "float32", true);
  add({256, 16, 64}, "float32", true);
  add({512, 64, 512}, "float32", true);
  add({128, 64, 512}, "float32", true);
  add({4096, 3, 32}, "float32", true);
  add({256, 64, 256}, "float64", false);
  add({256, 256, 64}, "float64", false);
  struct Attention {
    int64_t batch, length, features, heads;
    bool causal = false;
  };
  for (const Attention& a : std::vector<Attention>{{4, 256, 64, 4},
                                                   {2, 256, 64, 4},
                                                   {4, 128, 64, 4},
                                                   {4, 64, 64, 4},
                                                   {1, 1024, 64, 4},
                                                   {1, 512, 128, 8},
                                                   {4, 128, 32, 2, true},
                                                   {1, 128, 32, 2, true},
                                                   {4, 64, 32, 2, true}}) {
    cases.push_back({.layer = absl::StrCat("attention { heads: ", a.heads, a.causal ? " causal: true" : "", " }"),
                     .shape = {a.batch, a.length, a.features}});
  }
  for (const Extents& shape :
       std::vector<Extents>{{4, 32, 32, 32}, {2, 32, 32, 32}, {4, 16, 16, 32}, {2, 32, 32, 64}}) {
    cases.push_back({.layer = "window_attention { heads: 4 window: [4, 4] }", .shape = shape});
  }
  for (const int64_t rows : {64, 256, 512, 4096}) {
    cases.push_back({.layer = "embedding { num_embeddings: 64 dim: 32 }", .shape = {4, rows / 4}, .indices = true});
  }
}

void AddNorms(std::vector<KernelCase>& cases) {
  const auto add = [&](const std::string& kind, const Extents& shape, const std::string& type = "float32") {
    cases.push_back({.layer = absl::StrCat("norm { kind: ", kind, " }"), .shape = shape, .type = type});
  };
  for (const Extents& shape : std::vector<Extents>{{4, 8, 128, 128},
                                                   {4, 8, 64, 64},
                                                   {4, 40, 48, 48},
                                                   {4, 16, 32, 32},
                                                   {4, 16, 8, 16},
                                                   {4, 32, 16, 16},
                                                   {1, 8, 16, 64, 64},
                                                   {1, 16, 8, 32, 32},
                                                   {1, 32, 4, 16, 16}}) {
    add("\"batch\"", shape);
  }
  for (const char* type : {"float64", "bfloat16"}) {
    add("\"batch\"", {2, 8, 128, 128}, type);
    add("\"batch\"", {2, 8, 32, 64}, type);
  }
  for (const Extents& shape : std::vector<Extents>{{4, 8, 96, 96}, {4, 8, 48, 48}, {2, 8, 48, 48}, {4, 32, 16, 16}}) {
    add("\"group\" groups: 4", shape);
  }
  for (const Extents& shape : std::vector<Extents>{{4, 16, 48, 48}, {4, 16, 24, 24}}) {
    add("\"instance\" affine: true", shape);
  }
  for (const Extents& shape :
       std::vector<Extents>{{4, 256, 64}, {4, 128, 64}, {4, 64, 64}, {4, 32, 64}, {4, 128, 32}}) {
    add("\"layer\" dim: 2", shape);
  }
  for (const Extents& shape : std::vector<Extents>{{4, 32, 32, 32}, {2, 16, 32, 32}}) add("\"layer\" dim: 3", shape);
}

void AddByElement(std::vector<KernelCase>& cases) {
  const auto add = [&](const std::string& layer, const std::vector<int64_t>& channels, int inputs = 1,
                       const std::string& type = "float32", int64_t extent = 64) {
    for (const int64_t count : channels) {
      cases.push_back({.layer = layer, .shape = {1, count, extent, extent}, .type = type, .inputs = inputs});
    }
  };
  const auto function = [](const char* fn) { return absl::StrCat("activation { fn: \"", fn, "\" }"); };
  add(function("relu"), {2, 16, 64, 256, 512});
  add(function("relu"), {4, 64}, 1, "float64");
  add(function("relu"), {4, 64}, 1, "bfloat16");
  for (const char* fn : {"gelu", "tanh", "sigmoid", "silu"}) add(function(fn), {2, 16, 64, 256});
  for (const char* type : {"float64", "bfloat16"}) add(function("sigmoid"), {4, 64}, 1, type);
  add(function("mish"), {2, 16, 128});
  add(function("prelu"), {2, 16, 128});
  add("dropout { p: 0.5 }", {2, 16, 64, 256});
  add("noise { std: 0.1 }", {4, 32});
  add("add { }", {2, 16, 64, 256}, 2);
  add("multiply { }", {2, 16, 64, 256}, 2);
  add("concat { arg: 1 }", {2, 8, 16, 64, 128}, 2);
  add("roll { arg: [2, 3] }", {2, 16, 64, 256});
  add("softmax { dim: 1 }", {2, 8, 32, 128});
  add("local_response_norm { size: 5 }", {4, 16, 64});
  const auto pool = [](const char* mode, const char* window) {
    return absl::StrCat("pool { mode: \"", mode, "\" window { ", window, " } }");
  };
  add(pool("max", "kernel: 2"), {2, 8, 32, 128});
  add(pool("max", "kernel: 3 stride: 2 pad_lo: 1"), {4, 16, 64});
  add(pool("avg", "kernel: 2"), {4, 16, 64});
  for (const Extents& shape : std::vector<Extents>{{1, 8, 16, 64, 64}, {1, 16, 8, 32, 32}, {1, 8, 16, 32, 64}}) {
    cases.push_back({.layer = pool("max", "kernel: 2"), .shape = shape});
  }
  add("pool { mode: \"avg\" adaptive_size: [1, 1] }", {16, 64});
  add("upsample { mode: \"nearest\" scale: 2 }", {2, 8, 32}, 1, "float32", 32);
  add("upsample { mode: \"nearest\" scale: 2 }", {4, 16}, 1, "float64", 64);
  add("upsample { mode: \"bilinear\" scale: 2 }", {2, 8, 32}, 1, "float32", 32);
  add("upsample { mode: \"bicubic\" scale: 2 }", {2, 16}, 1, "float32", 32);
  for (const Extents& shape : std::vector<Extents>{{1, 32, 4, 16, 16}, {1, 16, 8, 32, 32}, {1, 16, 4, 16, 32}}) {
    cases.push_back({.layer = "upsample { mode: \"trilinear\" scale: 2 }", .shape = shape});
  }
}

void AddOthers(std::vector<KernelCase>& cases) {
  for (const char* kind : {"cross_entropy", "mse", "dice"}) {
    for (const Extents& shape : std::vector<Extents>{{4, 3, 8, 8}, {4, 3, 64, 64}, {4, 3, 96, 96}, {1, 16, 128, 128}}) {
      cases.push_back({.shape = shape, .loss = kind});
    }
  }
  for (const char* optimizer : {"sgd { lr: 0.1 }", "sgd { lr: 0.1 momentum: 0.9 }", "adam { lr: 0.1 }"}) {
    for (const int64_t elements : {64, 4096, 65536, 1 << 20}) {
      cases.push_back({.shape = {elements}, .optimizer = optimizer});
    }
  }
  for (const int64_t elements : {2048, 65536, 1 << 19, 1 << 21}) cases.push_back({.shape = {elements}, .sum = true});
}

}  // namespace

std::vector<KernelCase> KernelCases() {
  std::vector<KernelCase> cases;
  AddConvolutions(cases);
  AddProducts(cases);
  AddNorms(cases);
  AddByElement(cases);
  AddOthers(cases);
  return cases;
}

}  // namespace adjoin
