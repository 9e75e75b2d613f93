// Whether libprotobuf and what is compiled here mean the same layout of messages that have maps: also with
// --config=tsan, where protobuf's header has members that the library has not.
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "third_party/tsan/map_fields.pb.h"

namespace adjoin {
namespace {

using ::google::protobuf::util::MessageDifferencer;

MapFields Made(int labels) {
  MapFields made;
  for (int i = 0; i < labels; ++i) (*made.mutable_label())[absl::StrCat("key-", i)] = std::string(100, 'v');
  (*(*made.mutable_below())[7].mutable_label())["deep"] = "er";
  made.add_behind("the maps");
  return made;
}

// Compares with what was put in, by functions that are compiled here.
void ExpectMade(const MapFields& message, int labels) {
  ASSERT_EQ(message.label_size(), labels);
  for (int i = 0; i < labels; ++i) EXPECT_EQ(message.label().at(absl::StrCat("key-", i)), std::string(100, 'v'));
  ASSERT_EQ(message.below_size(), 1);
  EXPECT_EQ(message.below().at(7).label().at("deep"), "er");
  ASSERT_EQ(message.behind_size(), 1);
  EXPECT_EQ(message.behind(0), "the maps");
}

// The library defines this message, so its constructor and its table of members are compiled there. One on the stack
// could be written over.
TEST(ProtobufMapFieldTest, AMessageOfTheLibrarysHasTheSizeThatIsCompiledHere) {
  const auto message = std::make_unique<google::protobuf::Struct>();
  EXPECT_EQ(message->SpaceUsedLong(), sizeof(google::protobuf::Struct));
}

TEST(ProtobufMapFieldTest, TheLibraryCountsTheSpaceOfAMessageThatIsCompiledHere) {
  EXPECT_EQ(MapFields().SpaceUsedLong(), sizeof(MapFields));
  MapFields message;
  const auto in_maps = [&message] {
    return message.label().SpaceUsedExcludingSelfLong() + message.below().SpaceUsedExcludingSelfLong();
  };
  (*message.mutable_label())["key"] = std::string(1000, 'v');
  EXPECT_GT(in_maps(), 1000u);
  EXPECT_EQ(message.SpaceUsedLong(), sizeof(MapFields) + in_maps());
  (*message.mutable_below())[7] = Made(50);
  EXPECT_GT(in_maps(), 1000u + 50 * 100);
  EXPECT_EQ(message.SpaceUsedLong(), sizeof(MapFields) + in_maps());
}

TEST(ProtobufMapFieldTest, MapsAreCopiedMovedSwappedAndCleared) {
  MapFields small = Made(1), large = Made(50);
  MapFields copy(large);
  ExpectMade(copy, 50);
  copy.Swap(&small);
  ExpectMade(copy, 1);
  ExpectMade(small, 50);
  // By reflection, in the library.
  copy.GetReflection()->Swap(&copy, &small);
  ExpectMade(copy, 50);
  ExpectMade(small, 1);
  const MapFields moved(std::move(copy));
  ExpectMade(moved, 50);
  large.Clear();
  EXPECT_EQ(large.label_size() + large.below_size() + large.behind_size(), 0);
  large.MergeFrom(small);
  ExpectMade(large, 1);
}

// A dynamic message's members are where the library puts them; messages that are compiled here are read by reflection.
TEST(ProtobufMapFieldTest, ADynamicMessageAndOneThatIsCompiledHereBecomeEachOther) {
  const MapFields made = Made(50);
  google::protobuf::DynamicMessageFactory factory;
  const std::unique_ptr<google::protobuf::Message> dynamic(factory.GetPrototype(MapFields::descriptor())->New());
  dynamic->CopyFrom(made);
  EXPECT_TRUE(MessageDifferencer::Equals(*dynamic, made));
  MapFields back;
  back.CopyFrom(*dynamic);
  ExpectMade(back, 50);
  EXPECT_GT(back.SpaceUsedLong(), 50u * 100);
  (*back.mutable_label())["key-0"] = "changed";
  EXPECT_FALSE(MessageDifferencer::Equals(*dynamic, back));
}

}  // namespace
}  // namespace adjoin
