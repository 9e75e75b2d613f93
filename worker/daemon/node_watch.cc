#include "worker/daemon/node_watch.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/logging.h"

namespace adjoin {

void NodeWatch::Begin() {
  const auto stage = std::make_shared<Stage>();
  {
    absl::MutexLock lock(&mutex_);
    if (looking_) return;
    looking_ = true;
    next_ = Deadline::After(settings_.interval);
    late_ = Deadline::After(settings_.slow);
    stage_ = stage;
  }
  const auto found = std::make_shared<NodeView>();
  const auto look = [found, stage, look = look_] {
    *found = look([stage](const std::string& place) {
      absl::MutexLock lock(&stage->mutex);
      stage->place = place;
    });
    return absl::OkStatus();
  };
  const auto done = [this, found](const absl::Status&) {
    {
      absl::MutexLock lock(&mutex_);
      looking_ = false;
      view_.condition = found->condition;
      if (found->id_problem != view_.id_problem && !found->id_problem.empty()) {
        LogWarning(absl::StrCat(found->id_problem, ": with which other nodes this one shares its --output-root is ",
                                view_.output_id.empty() ? "not known" : "as it was"));
      }
      view_.id_problem = found->id_problem;
      if (!found->output_id.empty()) view_.output_id = found->output_id;
      if (!found->rank_program.empty()) view_.rank_program = found->rank_program;
    }
    changed_.NotifyAll();
  };
  if (calls_.Call(look, done).ok()) return;
  absl::MutexLock lock(&mutex_);
  looking_ = false;  // no thread for it now
}

NodeView NodeWatch::Current() {
  absl::MutexLock lock(&mutex_);
  NodeView view = view_;
  if (looking_ && late_.Expired()) {
    absl::MutexLock stage_lock(&stage_->mutex);
    view.condition = absl::StrCat(stage_->place, " does not answer: is its file server there?");
  }
  if (view.condition != told_) {
    told_ = view.condition;
    told_.empty() ? LogInfo("this node can run ranks again")
                  : LogWarning(absl::StrCat("this node can run no ranks: ", told_));
  }
  return view;
}

NodeView NodeWatch::LookAgain(absl::Duration wait) {
  Begin();
  {
    absl::MutexLock lock(&mutex_);
    changed_.Wait(mutex_, Deadline::After(wait), [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !looking_; });
  }
  return Current();
}

NodeView NodeWatch::Get() {
  bool due = false;
  {
    absl::MutexLock lock(&mutex_);
    due = next_.Expired();
  }
  if (due) Begin();
  return Current();
}

}  // namespace adjoin
