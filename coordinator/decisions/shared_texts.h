// Texts that many records have in common, as few programs and file systems are looked at for thousands of workers: each
// is held once, as long as a record has it.
//
//   SharedTexts texts;
//   std::shared_ptr<const std::string> program = texts.Get(hello.rank_program());   // the same for all that have it
//
// Not thread-safe, nor are the ends of its texts, which may outlive it.
#ifndef ADJOIN_COORDINATOR_DECISIONS_SHARED_TEXTS_H_
#define ADJOIN_COORDINATOR_DECISIONS_SHARED_TEXTS_H_

#include <map>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace adjoin {

class SharedTexts {
 public:
  std::shared_ptr<const std::string> Get(absl::string_view text) {
    if (const auto known = texts_->find(text); known != texts_->end()) return known->second.lock();
    // The last one that has it makes it forgotten.
    const auto forget = [texts = texts_](const std::string* gone) {
      texts->erase(*gone);
      delete gone;
    };
    const std::shared_ptr<const std::string> held(new std::string(text), forget);
    texts_->emplace(*held, held);
    return held;
  }

 private:
  using Texts = std::map<absl::string_view, std::weak_ptr<const std::string>>;  // views of what is held
  const std::shared_ptr<Texts> texts_ = std::make_shared<Texts>();
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_SHARED_TEXTS_H_
