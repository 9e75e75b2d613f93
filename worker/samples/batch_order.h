// The order of the batches, for reading ahead.
//
//   BatchOrder order(/*samples=*/11, /*trained=*/11);
//   order.Add("train", /*training=*/true, /*batch=*/4);
//   order.Add("train_tail", true, 3);
//   order.After({"train", 0, 4});        // {"train_tail", 0, 8}
//   order.After({"train_tail", 0, 8});   // {"train", 1, 0}
//
// Training goes through one epoch after another, everything else once through the samples. Values; any thread.
#ifndef ADJOIN_WORKER_SAMPLES_BATCH_ORDER_H_
#define ADJOIN_WORKER_SAMPLES_BATCH_ORDER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace adjoin {

struct BatchKey {
  std::string program;
  int64_t epoch = 0;
  int64_t first = 0;  // position in the epoch
  friend bool operator==(const BatchKey& a, const BatchKey& b) {
    return a.program == b.program && a.epoch == b.epoch && a.first == b.first;
  }
};

class BatchOrder {
 public:
  BatchOrder() = default;
  // `trained`: the number of samples that an epoch of training goes through.
  BatchOrder(int64_t samples, int64_t trained) : samples_(samples), trained_(trained) {}

  // A program and how many samples it takes at once; "NAME_tail" takes the samples that "NAME" leaves over.
  void Add(const std::string& program, bool training, int64_t batch) { programs_[program] = {training, batch}; }

  // Returns the batch that follows `key`, whose program was added. Absent where none follows or it is not known which.
  std::optional<BatchKey> After(const BatchKey& key) const;

 private:
  struct Program {
    bool training = false;
    int64_t batch = 0;
  };
  bool Fits(const std::string& name, int64_t first) const;

  int64_t samples_ = 0;
  int64_t trained_ = 0;
  std::map<std::string, Program> programs_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SAMPLES_BATCH_ORDER_H_
