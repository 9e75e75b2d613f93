#include "base/flags.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <vector>

namespace adjoin {
namespace {

bool IsSet(const std::string& variable) {
  const char* value = variable.empty() ? nullptr : std::getenv(variable.c_str());
  return value != nullptr && *value != '\0';
}

// CLI11 prefers the file to the environment: what the environment has is therefore dropped from the file.
class EnvironmentFirst : public CLI::ConfigBase {
 public:
  explicit EnvironmentFirst(const CLI::App& app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> items = CLI::ConfigBase::from_config(input);
    auto overridden = [this](const CLI::ConfigItem& item) {
      const CLI::Option* option = app_.get_option_no_throw("--" + item.name);
      return option != nullptr && IsSet(option->get_envname());
    };
    items.erase(std::remove_if(items.begin(), items.end(), overridden), items.end());
    return items;
  }

 private:
  const CLI::App& app_;
};

}  // namespace

void AddConfigSources(CLI::App& app, const std::string& environment_prefix) {
  for (CLI::Option* option : app.get_options()) {
    if (!option->get_envname().empty() || option->get_lnames().empty() || option->get_lnames()[0] == "help") continue;
    std::string name = environment_prefix;
    for (char c : option->get_lnames()[0]) {
      name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    option->envname(name);
  }
  // CLI11 reads the file before it looks at the environment, so the file's name is looked up here.
  const std::string variable = environment_prefix + "CONFIG";
  bool given = IsSet(variable);
  app.config_formatter(std::make_shared<EnvironmentFirst>(app));
  app.set_config("--config", given ? std::getenv(variable.c_str()) : "",
                 "A file with a line `name = value` for each option; also from " + variable, given);
  app.allow_config_extras(CLI::config_extras_mode::error);
}

std::optional<int> ParseFlags(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return 0;
  } catch (const CLI::CallForAllHelp&) {
    std::cout << app.help("", CLI::AppFormatMode::All);
    return 0;
  } catch (const CLI::ParseError& error) {
    std::cerr << app.get_name() << ": error: " << error.what() << " (see " << app.get_name() << " --help)\n";
    return 2;
  }
}

}  // namespace adjoin
