#include "worker/daemon/data_checker.h"

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/protocol.h"
#include "worker/daemon/model_probe.h"

namespace adjoin {

DataChecker::DataChecker(std::string data_root, std::string output_root, std::function<void(WorkerMessage)> send)
    : data_root_(std::move(data_root)),
      output_root_(std::move(output_root)),
      send_(std::move(send)),
      thread_([this] { Loop(); }) {}

DataChecker::~DataChecker() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    stop_.store(true);
  }
  thread_.join();
}

void DataChecker::Check(const ProbeData& request) {
  ProbeLimits limits;
  limits.stop = &stop_;
  absl::MutexLock lock(&mutex_);
  requests_.push_back({request, limits});
}

void DataChecker::Loop() {
  while (true) {
    Request request;
    {
      absl::MutexLock lock(&mutex_);
      auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !requests_.empty(); };
      mutex_.Await(absl::Condition(&ready));
      if (stopping_) return;
      request = std::move(requests_.front());
      requests_.pop_front();
    }
    send_(Answer(request));
  }
}

WorkerMessage DataChecker::Answer(const Request& request) const {
  WorkerMessage message;
  *message.mutable_header() = MakeHeader();
  ProbeResult& result = *message.mutable_probe_result();
  try {
    result = Probe(data_root_, request.data, request.limits);
    if (result.error().empty() && request.data.has_model()) {
      ProbeModel(data_root_, output_root_, request.data.model(), result);
    }
  } catch (const std::exception& thrown) {
    // Libraries throw, also where memory is short. No job's files may end the daemon: it has other jobs' ranks.
    result.Clear();
    result.set_request_id(request.data.request_id());
    result.set_error(absl::StrCat("the data files cannot be checked: ", thrown.what()));
  }
  return message;
}

}  // namespace adjoin
