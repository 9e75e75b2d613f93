#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "base/text_table.h"
#include "cli/commands.h"
#include "cli/text.h"
#include "cli/time_text.h"

namespace adjoin {
namespace {

constexpr char kAnyNode[] = "any";

// `more`: what else to say of it, by name; `hint`: what to do with it.
int ShowNewToken(const std::string& text, const TokenSummary& token, const std::vector<std::vector<std::string>>& more,
                 const std::string& hint) {
  std::vector<std::vector<std::string>> rows = {{"token", text}, {"id", token.id()}};
  rows.insert(rows.end(), more.begin(), more.end());
  rows.push_back({"expires", TimeText(token.expires_unix_ms())});
  std::cout << TextTable(rows) << std::flush;
  std::cerr << "The token is shown this once: the coordinator keeps only its hash." << hint << std::endl;
  return 0;
}

}  // namespace

absl::StatusOr<int> RunTokenCreate(const CommandOptions& options, const std::string& user, const std::string& role,
                                   const std::string& valid_for) {
  ADJOIN_ASSIGN_OR_RETURN(absl::Duration valid, ReadDuration(valid_for));
  CoordinatorClient client(options.client);
  ADJOIN_ASSIGN_OR_RETURN(CreateTokenResponse answer, client.CreateToken(user, role, absl::ToDoubleHours(valid)));
  if (options.format != Format::kTable) {
    std::cout << Formatted(answer, options.format) << std::flush;
    return 0;
  }
  const TokenSummary& token = answer.summary();
  return ShowNewToken(answer.token(), token, {{"user", token.user()}, {"role", token.role()}}, "");
}

absl::StatusOr<int> RunTokenList(const CommandOptions& options) {
  CoordinatorClient client(options.client);
  ADJOIN_ASSIGN_OR_RETURN(ListTokensResponse list, client.ListTokens());
  if (options.format != Format::kTable) {
    std::cout << Formatted(list, options.format) << std::flush;
    return 0;
  }
  std::vector<std::vector<std::string>> rows = {{"TOKEN", "USER", "ROLE", "USES LEFT", "CREATED", "EXPIRES"}};
  for (const TokenSummary& token : list.token()) {
    const bool joins = token.role() == "join";
    rows.push_back({token.id(), joins && token.user().empty() ? kAnyNode : token.user(), token.role(),
                    joins ? absl::StrCat(token.uses_left()) : "-", TimeText(token.created_unix_ms()),
                    TimeText(token.expires_unix_ms())});
  }
  std::cout << (list.token().empty() ? "no tokens\n" : TextTable(rows)) << std::flush;
  return 0;
}

absl::StatusOr<int> RunTokenRevoke(const CommandOptions& options, const std::string& id) {
  CoordinatorClient client(options.client);
  ADJOIN_RETURN_IF_ERROR(client.RevokeToken(id));
  std::cout << (options.format == Format::kTable ? absl::StrCat("token ", id, " is revoked\n")
                                                 : Formatted(RevokeTokenResponse(), options.format))
            << std::flush;
  return 0;
}

absl::StatusOr<int> RunTokenJoin(const CommandOptions& options, const std::string& node, uint32_t uses,
                                 const std::string& valid_for) {
  // To the coordinator an empty name is any: a shell's variable that is not set must not ask for that.
  if (node.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--for is empty: give the name of the worker, or ", kAnyNode, " for a token that any may use"));
  }
  ADJOIN_ASSIGN_OR_RETURN(absl::Duration valid, ReadDuration(valid_for));
  CoordinatorClient client(options.client);
  ADJOIN_ASSIGN_OR_RETURN(CreateJoinTokenResponse answer,
                          client.CreateJoinToken(node == kAnyNode ? "" : node, uses, absl::ToDoubleHours(valid)));
  if (options.format != Format::kTable) {
    std::cout << Formatted(answer, options.format) << std::flush;
    return 0;
  }
  const TokenSummary& token = answer.summary();
  return ShowNewToken(answer.token(), token, {{"node", node}, {"uses", absl::StrCat(token.uses_left())}},
                      " On the node, put it into a file for adjoin-worker --join FILE.");
}

absl::StatusOr<int> RunNodeRevoke(const CommandOptions& options, const std::string& node) {
  CoordinatorClient client(options.client);
  ADJOIN_ASSIGN_OR_RETURN(RevokeNodeResponse answer, client.RevokeNode(node));
  if (options.format != Format::kTable) {
    std::cout << Formatted(answer, options.format) << std::flush;
    return 0;
  }
  std::cout << "node " << node << " is revoked, with " << answer.certificates() << " certificates and "
            << answer.tokens() << " join tokens" << std::endl;
  return 0;
}

}  // namespace adjoin
