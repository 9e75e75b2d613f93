// Cuts what a process writes into lines that fit a log.
//
//   LineSplitter splitter;
//   for (std::string& line : splitter.Add("two\nlin")) ...   // "two"
//   for (std::string& line : splitter.Finish()) ...          // "lin"
//
// A line is cut after 4,096 bytes and ends in "..." then; the rest of it is dropped. PrintableText writes out what is
// not UTF-8, and control characters but the tab.
#ifndef ADJOIN_WORKER_DAEMON_LINE_SPLITTER_H_
#define ADJOIN_WORKER_DAEMON_LINE_SPLITTER_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace adjoin {

class LineSplitter {
 public:
  static constexpr size_t kMaxLine = 4096;

  // The lines that are complete now.
  std::vector<std::string> Add(absl::string_view bytes);
  // The line that was never ended, if there is one.
  std::vector<std::string> Finish();

 private:
  std::string TakeLine();

  std::string partial_;
  bool cut_ = false;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_LINE_SPLITTER_H_
