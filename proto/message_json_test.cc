#include "proto/message_json.h"

#include <google/protobuf/any.pb.h>
#include <gtest/gtest.h>

#include <string>

namespace adjoin {
namespace {

TEST(MessageJsonTest, WhatCannotBePrintedIsAnErrorInJson) {
  google::protobuf::Any wrong;
  wrong.set_type_url("no\"type\\\n\xff");
  wrong.set_value("x");
  const std::string text = JsonText(wrong, /*lines=*/false);
  EXPECT_EQ(text.rfind("{\"error\": \"", 0), 0) << text;
  EXPECT_EQ(text.substr(text.size() - 3), "\"}\n");
  const std::string said = text.substr(11, text.size() - 14);
  for (size_t i = 0; i < said.size(); ++i) {
    EXPECT_TRUE(said[i] >= ' ' && said[i] <= '~') << text;
    if (said[i] == '\\') {
      ++i;  // and what it escapes
    } else {
      EXPECT_NE(said[i], '"') << text;
    }
  }
}

}  // namespace
}  // namespace adjoin
