#include "importer/torchscript/script_syntax.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "importer/torchscript/script_tokens.h"

namespace adjoin {
namespace {

using Token = ScriptToken::Kind;
using Kind = ScriptExpression::Kind;

bool IsControl(const std::string& word) {
  static const auto* words =
      new std::set<std::string>{"assert", "break", "continue", "for", "if", "pass", "raise", "while", "with"};
  return words->count(word) > 0;
}

class Parser {
 public:
  Parser(std::vector<ScriptToken> tokens, const std::string& where) : tokens_(std::move(tokens)), where_(where) {}

  absl::StatusOr<ScriptFile> Run() {
    ScriptFile file;
    while (Now().kind != Token::kEnd) {
      if (Accept("class")) {
        ADJOIN_RETURN_IF_ERROR(Class(file));
      } else if (Accept("def")) {
        ADJOIN_RETURN_IF_ERROR(Method(file.functions));
      } else {
        SkipLine();  // "import ...", "op_version_set = 1" of older releases
      }
    }
    return file;
  }

 private:
  const ScriptToken& Now() const { return tokens_[at_]; }
  const ScriptToken& Next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  bool Sees(const char* text) const {
    return (Now().kind == Token::kSign || Now().kind == Token::kName) && Now().text == text;
  }
  bool Accept(const char* text) {
    if (!Sees(text)) return false;
    ++at_;
    return true;
  }
  bool Accept(Token kind) {
    if (Now().kind != kind) return false;
    if (kind != Token::kEnd) ++at_;
    return true;
  }

  absl::Status Bad(absl::string_view expected) const {
    const std::string found = Now().kind == Token::kNewline  ? "the end of the line"
                              : Now().kind == Token::kIndent ? "a block"
                              : Now().kind == Token::kDedent ? "the end of a block"
                              : Now().kind == Token::kEnd    ? "the end of the file"
                                                             : PrintableText(Now().text, kMaxShownToken);
    return ScriptError(where_, Now().line, absl::StrCat(found, " in place of ", expected));
  }
  absl::Status Expect(const char* text) { return Accept(text) ? absl::OkStatus() : Bad(text); }
  absl::StatusOr<std::string> Name() {
    if (Now().kind != Token::kName) return Bad("a name");
    return tokens_[at_++].text;
  }

  // To the next line of this block, over the blocks that are deeper.
  void SkipLine() {
    while (Now().kind != Token::kEnd && Now().kind != Token::kNewline && Now().kind != Token::kDedent &&
           Now().kind != Token::kIndent) {
      ++at_;
    }
    Accept(Token::kNewline);
    SkipBlock();
    if (Now().kind == Token::kDedent && open_ == 0) ++at_;
  }
  void SkipBlock() {
    if (Now().kind != Token::kIndent) return;
    int depth = 0;
    do {
      depth += Now().kind == Token::kIndent ? 1 : Now().kind == Token::kDedent ? -1 : 0;
      ++at_;
    } while (depth > 0 && Now().kind != Token::kEnd);
  }

  // ":", the end of the line, and the block's beginning.
  absl::Status BeginBlock() {
    ADJOIN_RETURN_IF_ERROR(Expect(":"));
    if (!Accept(Token::kNewline) || !Accept(Token::kIndent)) return Bad("a block");
    ++open_;
    return absl::OkStatus();
  }
  bool EndBlock() {
    if (Now().kind != Token::kEnd && !Accept(Token::kDedent)) return false;
    --open_;
    return true;
  }

  absl::Status Class(ScriptFile& file) {
    const ScriptToken& begin = Now();
    ADJOIN_ASSIGN_OR_RETURN(const std::string name, Name());
    ScriptClass type;
    if (Accept("(")) {
      ADJOIN_RETURN_IF_ERROR(Name().status());
      ADJOIN_RETURN_IF_ERROR(Expect(")"));
    }
    ADJOIN_RETURN_IF_ERROR(BeginBlock());
    while (!EndBlock()) {
      if (Accept("def")) {
        ADJOIN_RETURN_IF_ERROR(Method(type.methods));
      } else if ((Sees("__parameters__") || Sees("__buffers__")) && Next().text == "=") {
        std::set<std::string>& names = Sees("__parameters__") ? type.parameters : type.buffers;
        at_ += 2;
        ADJOIN_ASSIGN_OR_RETURN(const ScriptExpression list, Expression());
        for (const ScriptExpression& item : list.items) names.insert(item.text);
      } else {
        SkipLine();  // "weight : Tensor"
      }
      while (Accept(Token::kNewline)) {
      }
    }
    if (file.classes.emplace(name, std::move(type)).second) return absl::OkStatus();
    return ScriptError(where_, begin.line, absl::StrCat("a second class ", PrintableText(name, kMaxShownToken)));
  }

  absl::Status Method(std::map<std::string, ScriptMethod>& methods) {
    ScriptMethod method;
    method.line = Now().line;
    ADJOIN_ASSIGN_OR_RETURN(const std::string name, Name());
    ADJOIN_RETURN_IF_ERROR(Expect("("));
    while (!Accept(")")) {
      ScriptParameter parameter;
      ADJOIN_ASSIGN_OR_RETURN(parameter.name, Name());
      if (Accept(":")) {
        ADJOIN_ASSIGN_OR_RETURN(const ScriptExpression type, Expression());
        parameter.type = type.kind == Kind::kIndex ? type.items[0].text : type.text;
      }
      if (Accept("=")) ADJOIN_RETURN_IF_ERROR(Expression().status());
      method.parameters.push_back(std::move(parameter));
      if (!Accept(",") && !Sees(")")) return Bad("a comma");
    }
    if (Accept("->")) ADJOIN_RETURN_IF_ERROR(Expression().status());
    ADJOIN_RETURN_IF_ERROR(BeginBlock());
    while (!EndBlock()) ADJOIN_RETURN_IF_ERROR(Statement(method));
    if (methods.emplace(name, std::move(method)).second) return absl::OkStatus();
    return ScriptError(where_, Now().line, absl::StrCat("a second method ", PrintableText(name, kMaxShownToken)));
  }

  absl::Status Statement(ScriptMethod& method) {
    if (Now().kind == Token::kName && IsControl(Now().text) && Next().text != "=") {
      if (method.control.empty()) {
        method.control = Now().text;
        method.control_line = Now().line;
      }
      SkipLine();
      return absl::OkStatus();
    }
    if (!method.control.empty()) {  // also "else:"
      SkipLine();
      return absl::OkStatus();
    }
    ScriptStatement statement;
    statement.line = Now().line;
    if (Accept("return")) {
      statement.returns = true;
      if (Now().kind != Token::kNewline) {
        ADJOIN_ASSIGN_OR_RETURN(statement.value, Values());
      }
    } else {
      ADJOIN_RETURN_IF_ERROR(Targets(statement));
      ADJOIN_ASSIGN_OR_RETURN(statement.value, Values());
    }
    if (!Accept(Token::kNewline)) return Bad("the end of the line");
    if (statement.unpacks && statement.value.kind == Kind::kName) {
      method.unpacked[statement.value.text] = statement.targets.size();
    }
    method.body.push_back(std::move(statement));
    return absl::OkStatus();
  }

  // "a = ", "a, b, = ", or nothing.
  absl::Status Targets(ScriptStatement& statement) {
    const size_t begin = at_;
    while (Now().kind == Token::kName && (Next().text == "," || Next().text == "=") && Next().kind == Token::kSign) {
      statement.targets.push_back(Now().text);
      ++at_;
      if (Accept("=")) return absl::OkStatus();
      ++at_;
      statement.unpacks = true;
      if (Accept("=")) return absl::OkStatus();
    }
    at_ = begin;
    statement.targets.clear();
    statement.unpacks = false;
    return absl::OkStatus();
  }

  // "a" or the tuple "a, b".
  absl::StatusOr<ScriptExpression> Values() {
    ADJOIN_ASSIGN_OR_RETURN(ScriptExpression first, Expression());
    if (!Sees(",")) return first;
    ScriptExpression tuple = Made(Kind::kTuple);
    ADJOIN_RETURN_IF_ERROR(Put(std::move(first), tuple));
    while (Accept(",") && Now().kind != Token::kNewline) {
      ADJOIN_ASSIGN_OR_RETURN(ScriptExpression item, Expression());
      ADJOIN_RETURN_IF_ERROR(Put(std::move(item), tuple));
    }
    return tuple;
  }

  ScriptExpression Made(Kind kind) const {
    ScriptExpression expression;
    expression.kind = kind;
    expression.line = Now().line;
    return expression;
  }

  absl::Status TooDeep() const {
    return ScriptError(where_, Now().line, absl::StrCat("expressions nested more than ", kMaxScriptDepth, " deep"));
  }

  absl::Status Put(ScriptExpression item, ScriptExpression& into) const {
    into.height = std::max(into.height, item.height + 1);
    if (into.height > kMaxScriptDepth) return TooDeep();
    into.items.push_back(std::move(item));
    return absl::OkStatus();
  }

  absl::StatusOr<ScriptExpression> Expression() {
    if (++depth_ > kMaxScriptDepth) return TooDeep();
    absl::StatusOr<ScriptExpression> expression = Postfix();
    --depth_;
    return expression;
  }

  absl::StatusOr<ScriptExpression> Postfix() {
    ADJOIN_ASSIGN_OR_RETURN(ScriptExpression expression, Primary());
    // Each step puts what is there into a new one, so steps are as deep as brackets.
    while (Sees(".") || Sees("(") || Sees("[")) {
      ScriptExpression outer = Made(Sees(".") ? Kind::kAttribute : Sees("(") ? Kind::kCall : Kind::kIndex);
      ADJOIN_RETURN_IF_ERROR(Put(std::move(expression), outer));
      if (Accept(".")) {
        ADJOIN_ASSIGN_OR_RETURN(outer.text, Name());
      } else if (Accept("(")) {
        ADJOIN_RETURN_IF_ERROR(Arguments(outer));
      } else {
        ++at_;
        ADJOIN_RETURN_IF_ERROR(Items("]", outer));
      }
      expression = std::move(outer);
    }
    return expression;
  }

  absl::Status Arguments(ScriptExpression& call) {
    while (!Accept(")")) {
      if (Now().kind == Token::kName && Next().kind == Token::kSign && Next().text == "=") {
        call.names.push_back(Now().text);
        at_ += 2;
      } else if (!call.names.empty()) {
        return Bad("an argument with its name");
      }
      ADJOIN_ASSIGN_OR_RETURN(ScriptExpression argument, Expression());
      ADJOIN_RETURN_IF_ERROR(Put(std::move(argument), call));
      if (!Accept(",") && !Sees(")")) return Bad("a comma");
    }
    return absl::OkStatus();
  }

  absl::Status Items(const char* end, ScriptExpression& list) {
    while (!Accept(end)) {
      ADJOIN_ASSIGN_OR_RETURN(ScriptExpression item, Expression());
      ADJOIN_RETURN_IF_ERROR(Put(std::move(item), list));
      if (list.kind == Kind::kDict) {
        ADJOIN_RETURN_IF_ERROR(Expect(":"));
        ADJOIN_ASSIGN_OR_RETURN(ScriptExpression value, Expression());
        ADJOIN_RETURN_IF_ERROR(Put(std::move(value), list));
      }
      if (!Accept(",") && !Sees(end)) return Bad("a comma");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ScriptExpression> Primary() {
    ScriptExpression expression = Made(Kind::kName);
    const ScriptToken& token = Now();
    if (token.kind == Token::kName || token.kind == Token::kInt || token.kind == Token::kFloat ||
        token.kind == Token::kText) {
      expression.kind = token.kind == Token::kName    ? Kind::kName
                        : token.kind == Token::kInt   ? Kind::kInt
                        : token.kind == Token::kFloat ? Kind::kFloat
                                                      : Kind::kText;
      expression.text = token.text;
      expression.number = token.number;
      expression.real = token.real;
      ++at_;
      return expression;
    }
    if (Accept("-")) {
      expression.kind = Kind::kNegative;
      ADJOIN_ASSIGN_OR_RETURN(ScriptExpression of, Expression());
      ADJOIN_RETURN_IF_ERROR(Put(std::move(of), expression));
      return expression;
    }
    if (Accept("[")) {
      expression.kind = Kind::kList;
      ADJOIN_RETURN_IF_ERROR(Items("]", expression));
      return expression;
    }
    if (Accept("{")) {
      expression.kind = Kind::kDict;
      ADJOIN_RETURN_IF_ERROR(Items("}", expression));
      return expression;
    }
    if (!Accept("(")) return Bad("a value");
    return Parenthesised(std::move(expression));
  }

  // "(a)" is a, "(a,)" and "()" are tuples.
  absl::StatusOr<ScriptExpression> Parenthesised(ScriptExpression tuple) {
    tuple.kind = Kind::kTuple;
    bool commas = false;
    while (!Accept(")")) {
      ADJOIN_ASSIGN_OR_RETURN(ScriptExpression item, Expression());
      ADJOIN_RETURN_IF_ERROR(Put(std::move(item), tuple));
      if (Accept(",")) {
        commas = true;
      } else if (!Sees(")")) {
        return Bad("a comma");
      }
    }
    if (commas || tuple.items.empty()) return tuple;
    ScriptExpression inner = std::move(tuple.items[0]);
    return inner;
  }

  const std::vector<ScriptToken> tokens_;
  const std::string& where_;
  size_t at_ = 0;
  int depth_ = 0, open_ = 0;
};

}  // namespace

absl::StatusOr<ScriptFile> ParseScript(absl::string_view text, const std::string& where) {
  ADJOIN_ASSIGN_OR_RETURN(std::vector<ScriptToken> tokens, ScriptTokens(text, where));
  return Parser(std::move(tokens), where).Run();
}

}  // namespace adjoin
