// What `adjoin top` shows: the jobs and workers, or one job's details, as text of the terminal's size. It knows of no
// terminal and no coordinator.
//
//   TopPage page({.color = true});
//   page.Set(list);
//   page.Press(Key::kDown);
//   screen.Draw(page.Text(/*width=*/80, /*height=*/24));
//
// Text from elsewhere is made printable (base/printable_text.h); the only escape sequences are the page's own.
#ifndef ADJOIN_CLI_TOP_PAGE_H_
#define ADJOIN_CLI_TOP_PAGE_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cli/key_reader.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

struct TopPageOptions {
  std::string coordinator;  // its address, for the first line
  bool color = false;
  bool marks = true;  // the chosen job is marked, and a line of keys is below
};

class TopPage {
 public:
  explicit TopPage(TopPageOptions options) : options_(std::move(options)) {}

  void Set(ListJobsResponse list);
  // The job's details as `adjoin describe` prints them; shown where the job is still the one that is looked at.
  void SetDetails(const std::string& job, std::string text);
  // What is wrong now; "" nothing. The jobs stay as they were last known.
  void SetNotice(std::string notice) { notice_ = std::move(notice); }

  // Returns false where the user wants to leave.
  bool Press(Key key);
  // The job whose details are looked at; "": none.
  const std::string& looked_at() const { return looked_at_; }

  // At most `height` lines of at most `width` characters, each with its end; 0: as many as there are. Keeps where the
  // list is scrolled to.
  std::string Text(size_t width, size_t height);

 private:
  enum class Order { kState, kJob, kName, kDone, kLeft, kSpeed };

  void Sort();
  void Move(int by);
  std::string ListText(size_t width, size_t height);
  std::string DetailsText(size_t width, size_t height);
  std::string Summary() const;

  const TopPageOptions options_;
  ListJobsResponse list_;
  std::vector<int> order_;  // of the jobs in list_
  Order sorted_by_ = Order::kState;
  bool reversed_ = false;
  std::string notice_, chosen_, looked_at_, details_;
  size_t chosen_row_ = 0, first_row_ = 0, first_line_ = 0, page_ = 1;
};

}  // namespace adjoin

#endif  // ADJOIN_CLI_TOP_PAGE_H_
