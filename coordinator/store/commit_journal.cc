#include "coordinator/store/commit_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/sync_folder.h"

namespace adjoin {
namespace {

constexpr absl::string_view kOpening = "adjoin-journal-1";
constexpr size_t kSlotBytes = 4096;  // a write that is torn reaches one of them
constexpr int kSlots = 2;
constexpr int kFields = 9;  // of a line, with the opening and the checksum

std::string SumOf(absl::string_view text) {
  return absl::StrCat(absl::Hex(XXH3_64bits(text.data(), text.size()), absl::kZeroPad16));
}

// A line that fills a slot.
std::string LineOf(const CommitMark& mark) {
  std::string line =
      absl::StrCat(kOpening, " ", absl::Hex(mark.store_id, absl::kZeroPad16), " ", mark.sequence, " ", mark.hash, " ",
                   mark.unix_ms, " ", mark.last_job, " ", mark.last_epoch, " ", mark.last_event, " ");
  absl::StrAppend(&line, SumOf(line));
  line.resize(kSlotBytes - 1, ' ');
  return line + "\n";
}

// Absent where the slot holds no whole mark.
std::optional<CommitMark> MarkOf(absl::string_view slot) {
  const absl::string_view line = absl::StripTrailingAsciiWhitespace(slot);
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  CommitMark mark;
  if (words.size() != kFields || words[0] != kOpening) return std::nullopt;
  if (SumOf(line.substr(0, line.size() - words.back().size())) != words.back()) return std::nullopt;
  mark.hash = std::string(words[3]);
  const bool read = absl::SimpleHexAtoi(words[1], &mark.store_id) && absl::SimpleAtoi(words[2], &mark.sequence) &&
                    absl::SimpleAtoi(words[4], &mark.unix_ms) && absl::SimpleAtoi(words[5], &mark.last_job) &&
                    absl::SimpleAtoi(words[6], &mark.last_epoch) && absl::SimpleAtoi(words[7], &mark.last_event);
  return read ? std::optional<CommitMark>(mark) : std::nullopt;
}

absl::Status Failed(const std::string& path, const std::string& what) {
  return absl::UnavailableError(absl::StrCat(path, " cannot be ", what, ": ", strerror(errno)));
}

struct Slots {
  std::array<std::optional<CommitMark>, kSlots> marks;
  bool blank = true;  // nothing was ever written
};

absl::StatusOr<Slots> ReadSlots(const std::string& path, int file) {
  Slots slots;
  for (int slot = 0; slot < kSlots; ++slot) {
    std::string text(kSlotBytes, '\0');
    const ssize_t bytes = pread(file, text.data(), text.size(), static_cast<off_t>(slot * kSlotBytes));
    if (bytes < 0) return Failed(path, "read");
    text.resize(static_cast<size_t>(bytes));
    slots.marks[slot] = MarkOf(text);
    slots.blank = slots.blank && text.find_first_not_of('\0') == std::string::npos;
  }
  return slots;
}

// The slot with the newest mark; -1 where there is none.
int NewestOf(const Slots& slots) {
  const auto& marks = slots.marks;
  int newest = -1;
  for (int slot = 0; slot < kSlots; ++slot) {
    if (!marks[slot].has_value()) continue;
    if (newest < 0 || marks[slot]->sequence > marks[newest]->sequence) newest = slot;
  }
  return newest;
}

}  // namespace

absl::StatusOr<std::optional<CommitMark>> CommitJournal::Read(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0 && errno == ENOENT) return std::optional<CommitMark>();
  if (file.get() < 0) return Failed(path, "read");
  auto slots = ReadSlots(path, file.get());
  if (!slots.ok()) return slots.status();
  if (slots->blank) return std::optional<CommitMark>();
  const int newest = NewestOf(*slots);
  if (newest < 0) return absl::DataLossError(absl::StrCat(path, " is damaged: it names no commit"));
  return slots->marks[newest];
}

absl::StatusOr<std::unique_ptr<CommitJournal>> CommitJournal::Open(const std::string& path) {
  UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (file.get() < 0) return Failed(path, "opened for writing");
  auto slots = ReadSlots(path, file.get());
  if (!slots.ok()) return slots.status();
  // Its space is there before it is needed: a disk that is full later does not matter.
  if (posix_fallocate(file.get(), 0, kSlots * kSlotBytes) != 0 || fsync(file.get()) != 0) return Failed(path, "made");
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  errno = SyncFolder(parent.empty() ? "." : parent.string());
  if (errno != 0) return Failed(path, "made");
  const int next = NewestOf(*slots) == 0 ? 1 : 0;
  return std::unique_ptr<CommitJournal>(new CommitJournal(path, std::move(file), next));
}

absl::Status CommitJournal::Write(const CommitMark& mark) {
  const std::string line = LineOf(mark);
  const ssize_t bytes =
      pwrite(file_.get(), line.data(), line.size(), static_cast<off_t>(next_slot_ * static_cast<off_t>(kSlotBytes)));
  if (bytes >= 0 && bytes != static_cast<ssize_t>(line.size())) errno = ENOSPC;
  if (bytes != static_cast<ssize_t>(line.size()) || fdatasync(file_.get()) != 0) return Failed(path_, "written");
  next_slot_ = (next_slot_ + 1) % kSlots;
  return absl::OkStatus();
}

}  // namespace adjoin
