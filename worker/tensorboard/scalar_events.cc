#include "worker/tensorboard/scalar_events.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostOfList = 100;  // classes; longer lists are in metrics.jsonl alone

Json Parsed(const std::string& line) {
  Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json::object();
}

std::string TypeOf(const Json& json) {
  const auto type = json.find("type");
  return type != json.end() && type->is_string() ? type->get<std::string>() : "";
}

double Number(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}

void Add(const std::string& tag, const Json& value, tensorboard::Summary* summary) {
  if (value.is_array()) {
    for (size_t i = 0; i < value.size() && value.size() <= kMostOfList; ++i) {
      if (!value[i].is_array()) Add(absl::StrCat(tag, "/", i), value[i], summary);
    }
    return;
  }
  if (!value.is_number() && !value.is_null()) return;
  tensorboard::Summary::Value* scalar = summary->add_value();
  scalar->set_tag(tag);
  scalar->set_simple_value(value.is_null() ? std::numeric_limits<float>::quiet_NaN()
                                           : static_cast<float>(value.get<double>()));
}

void AddFields(const Json& json, const std::string& group, const std::set<std::string>& left_out,
               tensorboard::Summary* summary) {
  for (const auto& [name, value] : json.items()) {
    const bool position = name == "type" || name == "step" || name == "epoch" || name == "rank";
    if (!position && left_out.count(name) == 0) Add(absl::StrCat(group, "/", name), value, summary);
  }
}

void AddStep(const Json& json, tensorboard::Summary* summary) {
  AddFields(json, "train", {"samples", "t_comp", "t_sync", "bytes_sent"}, summary);
  const double seconds = Number(json, "t_comp") + Number(json, "t_sync");
  if (seconds <= 0) return;
  Add("speed/steps_per_second", 1 / seconds, summary);
  Add("speed/samples_per_second", Number(json, "samples") / seconds, summary);
  Add("speed/t_comp", Number(json, "t_comp"), summary);
  Add("speed/t_sync", Number(json, "t_sync"), summary);
}

}  // namespace

tensorboard::Event ScalarEvents::Of(const std::string& line) {
  const Json json = Parsed(line);
  const std::string type = TypeOf(json);
  tensorboard::Event event;
  const auto step = json.find("step");
  const bool has_step = step != json.end() && step->is_number_integer();
  if (has_step) last_step_ = std::max(last_step_, step->get<int64_t>());
  event.set_step(has_step ? step->get<int64_t>() : last_step_);
  tensorboard::Summary summary;
  if (type == "step") AddStep(json, &summary);
  if (type == "validation" || type == "evaluation") AddFields(json, type, {"samples", "correct"}, &summary);
  if (type == "memory") AddFields(json, "memory", {"step_seconds"}, &summary);
  if (type == "plan") AddFields(json, "predicted", {}, &summary);
  if (summary.value_size() > 0) *event.mutable_summary() = std::move(summary);
  return event;
}

double ScalarEvents::SecondsOf(const std::string& line) {
  const Json json = Parsed(line);
  if (TypeOf(json) != "step") return 0;
  const double seconds = Number(json, "t_comp") + Number(json, "t_sync");
  return std::isfinite(seconds) && seconds > 0 ? seconds : 0;
}

}  // namespace adjoin
