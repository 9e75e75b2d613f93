#include "cli/access_commands.h"

#include "base/flags.h"
#include "cli/format.h"

namespace adjoin {

void AddFormatOption(CLI::App* command, CommandOptions& options, const std::string& flags) {
  const auto read = [&options](const std::string& name) {
    options.format = name == "json" ? Format::kJson : name == "yaml" ? Format::kYaml : Format::kTable;
  };
  OneOf(command->add_option_function<std::string>(flags, read, "How to print it"), {"table", "json", "yaml"});
}

void AddTokenCommands(CLI::App& app, CommandOptions& options, AccessArguments& a, ChosenCommand& chosen) {
  CLI::App* token =
      app.add_subcommand("token", "Tokens of users without a certificate, and of workers that join; admins only");
  token->require_subcommand(1);
  token->fallthrough();
  CLI::App* create = token->add_subcommand("create", "Make a token and show it, this once");
  create->add_option("USER", a.user, "Whose jobs the token's holder submits and changes")->required();
  OneOf(create->add_option("--role", a.role, "What it may do"), {"admin", "user", "viewer"})->capture_default_str();
  create->add_option("--valid-for", a.valid_for, "Until it expires: 12h, 30d, ...")->capture_default_str();
  AddFormatOption(create, options);
  create->callback([&] { chosen = [&] { return RunTokenCreate(options, a.user, a.role, a.valid_for); }; });
  CLI::App* join = token->add_subcommand("join", "Make a token with which workers get certificates, and show it, once");
  join->add_option("--for", a.node, "The name of the one worker that may join with it, or any")
      ->required()
      ->type_name("NAME");
  join->add_option("--uses", a.uses, "How many may join with it")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000).description(""));
  join->add_option("--valid-for", a.join_valid_for, "Until it expires: 1h, 7d, ...")->capture_default_str();
  AddFormatOption(join, options);
  join->callback([&] { chosen = [&] { return RunTokenJoin(options, a.node, a.uses, a.join_valid_for); }; });
  CLI::App* list = token->add_subcommand("list", "Show whose tokens there are; never the tokens themselves");
  AddFormatOption(list, options);
  list->callback([&] { chosen = [&] { return RunTokenList(options); }; });
  CLI::App* revoke = token->add_subcommand("revoke", "Let a token be refused from now on");
  revoke->add_option("ID", a.token_id, "As `adjoin token list` shows it")->required();
  AddFormatOption(revoke, options);
  revoke->callback([&] { chosen = [&] { return RunTokenRevoke(options, a.token_id); }; });
}

void AddNodeCommands(CLI::App& app, CommandOptions& options, AccessArguments& a, ChosenCommand& chosen) {
  CLI::App* node = app.add_subcommand("node", "Who may connect as a worker; admins only");
  node->require_subcommand(1);
  node->fallthrough();
  CLI::App* revoke = node->add_subcommand(
      "revoke", "Let a worker's certificates and join tokens be refused from now on, and end what they have opened");
  revoke->add_option("NAME", a.node, "The worker's name")->required();
  AddFormatOption(revoke, options);
  revoke->callback([&] { chosen = [&] { return RunNodeRevoke(options, a.node); }; });
}

}  // namespace adjoin
