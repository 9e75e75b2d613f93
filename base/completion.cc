#include "base/completion.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/printable_text.h"

namespace adjoin {
namespace {

// Where the command line stands after some of its words.
class Line {
 public:
  Line(const CLI::App& app, const CompletionSources& sources) : root_(app), sources_(sources) { Enter(app); }

  // A word before the one to be completed.
  void Pass(const std::string& word) {
    if (pending_ != nullptr) {
      Set(*pending_, word);
      pending_ = nullptr;
    } else if (only_positionals_ || word.size() < 2 || word[0] != '-') {
      PassPlain(word);
    } else if (word == "--") {
      only_positionals_ = true;
    } else if (word[1] == '-') {
      PassLong(word);
    } else {
      PassShort(word);
    }
  }

  // The word to be completed.
  Completion Last(const std::string& word) {
    if (pending_ != nullptr) {
      AddValues(*pending_, "", word, /*positional=*/false);
    } else if (const size_t equals = word.find('='); IsOption(word) && word[1] == '-' && equals != std::string::npos) {
      const CLI::Option* option = Find(word.substr(2, equals - 2));
      if (option != nullptr) {
        AddValues(*option, word.substr(0, equals + 1), word.substr(equals + 1), /*positional=*/false);
      }
    } else if (!only_positionals_ && absl::StartsWith(word, "-")) {
      AddOptions(word);
    } else {
      if (positionals_ == 0) AddCommands(word);
      if (const CLI::Option* option = NextPositional()) AddValues(*option, "", word, /*positional=*/true);
    }
    return std::move(found_);
  }

 private:
  bool IsOption(const std::string& word) const { return !only_positionals_ && word.size() > 1 && word[0] == '-'; }

  void Enter(const CLI::App& command) {
    command_ = &command;
    positionals_ = 0;
    const CLI::App* inner = sources_.handed_on ? sources_.handed_on(command) : nullptr;
    takes_positionals_ = inner != nullptr ? inner : &command;
    scope_.clear();
    if (inner != nullptr) scope_.push_back(inner);
    for (const CLI::App* app = &command; app != nullptr; app = app->get_fallthrough() ? app->get_parent() : nullptr) {
      scope_.push_back(app);
    }
  }

  const CLI::Option* Find(const std::string& name) const {
    for (const CLI::App* app : scope_) {
      for (const CLI::Option* option : app->get_options()) {
        const std::vector<std::string>& names = name.size() == 1 ? option->get_snames() : option->get_lnames();
        if (std::find(names.begin(), names.end(), name) != names.end()) return option;
      }
    }
    return nullptr;
  }

  static bool TakesValue(const CLI::Option& option) {
    return option.get_type_size_max() > 0 && option.get_expected_min() > 0;
  }

  void Set(const CLI::Option& option, const std::string& value) {
    const std::vector<const CLI::Option*> globals = root_.get_options();
    const bool is_global = std::find(globals.begin(), globals.end(), &option) != globals.end();
    if (is_global && !option.get_lnames().empty()) {
      settings_.push_back(absl::StrCat("--", option.get_lnames()[0], "=", value));
    }
  }

  void PassPlain(const std::string& word) {
    const bool may_be_command = positionals_ == 0 && !only_positionals_;
    const std::vector<const CLI::App*> commands = command_->get_subcommands(
        [&](const CLI::App* command) { return may_be_command && command->get_name() == word; });
    if (commands.empty()) {
      ++positionals_;
    } else {
      Enter(*commands[0]);
    }
  }

  void PassLong(const std::string& word) {
    const size_t equals = word.find('=');
    const CLI::Option* option = Find(word.substr(2, equals == std::string::npos ? equals : equals - 2));
    if (option == nullptr) return;
    given_.insert(option);
    if (equals != std::string::npos) {
      Set(*option, word.substr(equals + 1));
    } else if (TakesValue(*option)) {
      pending_ = option;
    }
  }

  // "-f", "-fq", "-o", "-ojson".
  void PassShort(const std::string& word) {
    for (size_t i = 1; i < word.size(); ++i) {
      const CLI::Option* option = Find(word.substr(i, 1));
      if (option == nullptr) return;
      given_.insert(option);
      if (!TakesValue(*option)) continue;
      if (i + 1 == word.size()) {
        pending_ = option;
      } else {
        Set(*option, word.substr(i + 1));
      }
      return;
    }
  }

  const CLI::Option* NextPositional() const {
    size_t index = 0;
    for (const CLI::Option* option : takes_positionals_->get_options()) {
      if (!option->get_positional()) continue;
      if (index == positionals_ || option->get_expected_max() > 1) return option;
      ++index;
    }
    return nullptr;
  }

  void Add(absl::string_view begun, std::string text, const std::string& description) {
    // Control characters would change the terminal, and a tab ends a suggestion's text (base/shell_completion.h).
    if (!absl::StartsWith(text, begun) || !IsPrintableText(text) || absl::StrContains(text, '\t')) return;
    if (!texts_.insert(text).second) return;
    found_.suggestions.push_back({std::move(text), PrintableText(description, kMaxDescription)});
  }

  void AddCommands(const std::string& begun) {
    for (const CLI::App* command : command_->get_subcommands([](const CLI::App*) { return true; })) {
      if (!command->get_group().empty()) Add(begun, command->get_name(), command->get_description());
    }
  }

  void AddOptions(const std::string& begun) {
    for (const CLI::App* app : scope_) {
      for (const CLI::Option* option : app->get_options()) {
        const bool again = option->get_expected_max() > 1;
        if (option->get_group().empty() || (!again && given_.count(option) > 0)) continue;
        for (const std::string& name : option->get_lnames()) {
          Add(begun, absl::StrCat("--", name), option->get_description());
        }
        for (const std::string& name : option->get_snames()) {
          Add(begun, absl::StrCat("-", name), option->get_description());
        }
      }
    }
  }

  // `before` stays as it is, `begun` is the beginning of the value.
  void AddValues(const CLI::Option& option, std::string before, std::string begun, bool positional) {
    const std::string type = option.get_type_name();
    const std::vector<std::string> choices = ChoicesOf(type);
    const std::string kind = positional ? option.get_name(/*positional=*/true) : type.substr(0, type.find(':'));
    std::set<std::string> listed;
    if (option.get_delimiter() != 0) {
      if (const size_t last = begun.rfind(option.get_delimiter()); last != std::string::npos) {
        for (const absl::string_view each : absl::StrSplit(begun.substr(0, last), option.get_delimiter())) {
          listed.emplace(each);
        }
        before += begun.substr(0, last + 1);
        begun = begun.substr(last + 1);
      }
    }
    if (!choices.empty()) {
      for (const std::string& choice : choices) {
        if (listed.count(choice) == 0) Add(before + begun, before + choice, "");
      }
    } else if (kind == "FILE" || kind == "SPEC" || kind == "MODEL") {
      found_.paths = Completion::Paths::kFiles;
    } else if (kind == "DIR") {
      found_.paths = Completion::Paths::kFolders;
    } else if (sources_.values) {
      for (Suggestion& suggestion : sources_.values(kind, settings_)) {
        if (absl::StartsWith(suggestion.text, "-") && before.empty()) continue;  // it would be read as an option
        Add(before + begun, before + suggestion.text, suggestion.description);
      }
    }
  }

  static constexpr size_t kMaxDescription = 200;

  const CLI::App& root_;
  const CompletionSources& sources_;
  const CLI::App* command_ = nullptr;
  std::vector<const CLI::App*> scope_;  // whose options may follow, the nearest first
  const CLI::App* takes_positionals_ = nullptr;
  size_t positionals_ = 0;                // so far
  bool only_positionals_ = false;         // after "--"
  const CLI::Option* pending_ = nullptr;  // the next word is its value
  std::set<const CLI::Option*> given_;
  std::vector<std::string> settings_;
  Completion found_;
  std::set<std::string> texts_;
};

}  // namespace

std::vector<std::string> ChoicesOf(const std::string& type_name) {
  if (!absl::StrContains(type_name, '|')) return {};
  return absl::StrSplit(type_name, '|');
}

Completion Complete(const CLI::App& app, const std::vector<std::string>& words, const CompletionSources& sources) {
  Line line(app, sources);
  for (size_t i = 0; i + 1 < words.size(); ++i) line.Pass(words[i]);
  return line.Last(words.empty() ? "" : words.back());
}

}  // namespace adjoin
