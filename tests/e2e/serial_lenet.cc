#include "tests/e2e/serial_lenet.h"

#include <zlib.h>

#include <algorithm>

#include <torch/torch.h>

#include "primitives/random/philox.h"

namespace adjoin {
namespace {

struct LeNet : torch::nn::Module {
  LeNet() {
    conv1 = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 6, 5).padding(2)));
    conv2 = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(6, 16, 5)));
    fc1 = register_module("fc1", torch::nn::Linear(16 * 5 * 5, 120));
    fc2 = register_module("fc2", torch::nn::Linear(120, 84));
    fc3 = register_module("fc3", torch::nn::Linear(84, 10));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(conv1(x)), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    x = torch::relu(fc1(torch::flatten(x, 1)));
    return fc3(torch::relu(fc2(x)));
  }
  torch::Tensor InBFloat16(torch::Tensor x) {
    const auto b = [](const torch::Tensor& t) { return t.to(torch::kBFloat16); };
    const auto linear = [&](torch::nn::Linear& layer, const torch::Tensor& in) {
      return torch::matmul(in, b(layer->weight).t()) + b(layer->bias);
    };
    x = torch::max_pool2d(torch::relu(torch::conv2d(b(x), b(conv1->weight), b(conv1->bias), 1, 2)), 2);
    x = torch::max_pool2d(torch::relu(torch::conv2d(x, b(conv2->weight), b(conv2->bias))), 2);
    x = torch::relu(linear(fc1, torch::flatten(x, 1)));
    return linear(fc3, torch::relu(linear(fc2, x))).to(torch::kFloat32);
  }
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::Linear fc1{nullptr}, fc2{nullptr}, fc3{nullptr};
};

NamedTensors WeightsOf(LeNet& model) {
  NamedTensors weights;
  for (const auto& entry : model.named_parameters()) weights[entry.key()] = entry.value().detach().clone();
  return weights;
}

// The cells of an IDX.gz file of bytes after its header, of known sizes.
torch::Tensor ReadBytes(const std::string& path, std::vector<int64_t> shape, int64_t header) {
  gzFile file = gzopen(path.c_str(), "rb");
  TORCH_CHECK(file != nullptr, "cannot open ", path);
  torch::Tensor bytes = torch::empty(shape, torch::kUInt8);
  gzseek(file, header, SEEK_SET);
  const int got = gzread(file, bytes.data_ptr(), static_cast<unsigned>(bytes.numel()));
  gzclose(file);
  TORCH_CHECK(got == bytes.numel(), path, " is too short");
  return bytes;
}

struct Samples {
  torch::Tensor images;
  torch::Tensor labels;
};

Samples ReadSamples(const std::string& folder, const std::string& name, int64_t count, torch::ScalarType dtype) {
  const torch::Tensor bytes = ReadBytes(folder + "/" + name + "-images.idx.gz", {count, 1, 28, 28}, 16);
  // In double, then cast, as the jobs do it.
  const torch::Tensor images = (bytes.to(torch::kFloat64) * 0.00392156862745098 - 0.1307) / 0.3081;
  const torch::Tensor labels = ReadBytes(folder + "/" + name + "-labels.idx.gz", {count}, 8);
  return {images.to(dtype), labels.to(torch::kInt64)};
}

}  // namespace

NamedTensors InitialWeights(uint64_t seed, torch::ScalarType dtype) {
  torch::manual_seed(seed);
  LeNet model;
  model.to(dtype);
  return WeightsOf(model);
}

SerialRun TrainSerially(const SerialOptions& options, const NamedTensors& initial) {
  const torch::ScalarType dtype = initial.begin()->second.scalar_type();
  const int64_t train_count = options.train_limit > 0 ? options.train_limit : 10000;
  const int64_t test_count = options.test_limit > 0 ? options.test_limit : 2000;
  const Samples train = ReadSamples(options.folder, "train", train_count, dtype);
  const Samples test = ReadSamples(options.folder, "test", test_count, dtype);
  LeNet model;
  model.to(dtype);
  {
    torch::NoGradGuard no_grad;
    for (auto& entry : model.named_parameters()) entry.value().copy_(initial.at(entry.key()));
  }
  std::vector<torch::Tensor> trained;
  for (auto& entry : model.named_parameters()) {
    if (options.frozen.count(entry.key()) == 0) trained.push_back(entry.value());
  }
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  if (options.optimizer) {
    optimizer = options.optimizer(trained);
  } else {
    optimizer = std::make_unique<torch::optim::SGD>(trained, torch::optim::SGDOptions(options.lr)
                                                                 .momentum(options.momentum)
                                                                 .weight_decay(options.weight_decay)
                                                                 .nesterov(options.nesterov));
  }
  const auto test_loss = [&] {
    torch::NoGradGuard no_grad;
    const torch::Tensor prediction = options.bfloat16 ? model.InBFloat16(test.images) : model.forward(test.images);
    return torch::nn::functional::cross_entropy(prediction, test.labels).item<double>();
  };
  SerialRun run;
  for (uint64_t epoch = 0; static_cast<int64_t>(run.losses.size()) < options.steps; ++epoch) {
    const torch::Tensor order =
        torch::tensor(Permutation(options.job_seed, kPurposeShuffle, epoch, train_count), torch::kInt64);
    for (const torch::Tensor& picked : order.split(options.batch)) {
      if (static_cast<int64_t>(run.losses.size()) == options.steps) break;
      const auto step = static_cast<int64_t>(run.losses.size());
      if (options.lr_of_step) optimizer->param_groups()[0].options().set_lr(options.lr_of_step(step));
      optimizer->zero_grad();
      const torch::Tensor images = train.images.index_select(0, picked);
      const torch::Tensor prediction = options.bfloat16 ? model.InBFloat16(images) : model.forward(images);
      torch::Tensor loss = torch::nn::functional::cross_entropy(prediction, train.labels.index_select(0, picked));
      loss.backward();
      run.losses.push_back(loss.item<double>());
      if (options.clip_norm > 0) run.norms.push_back(torch::nn::utils::clip_grad_norm_(trained, options.clip_norm));
      optimizer->step();
      const bool last = step + 1 == options.steps;
      if (options.validate_every > 0 && ((step + 1) % options.validate_every == 0 || last)) {
        run.validation_losses.push_back(test_loss());
      }
    }
  }
  run.weights = WeightsOf(model);
  torch::NoGradGuard no_grad;
  const torch::Tensor prediction = options.bfloat16 ? model.InBFloat16(test.images) : model.forward(test.images);
  run.correct = prediction.argmax(1).eq(test.labels).sum().item<int64_t>();
  run.test_loss = test_loss();
  return run;
}

}  // namespace adjoin
