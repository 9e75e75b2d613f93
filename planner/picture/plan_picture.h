// Pictures of a plan: how every tensor is cut, what moves where, what it costs.
//
//   const PlanReport report = MakePlanReport(plan, model);
//   ADJOIN_ASSIGN_OR_RETURN(const std::string svg, PlanSvg(plan, report));
//   ADJOIN_ASSIGN_OR_RETURN(const std::string page, PlanHtml(plan, report));
//
// One file each, which needs nothing else: no network, no script. Equal arguments give equal bytes. Names in a plan are
// text and never markup. docs/pictures.md tells how to read them.
#ifndef ADJOIN_PLANNER_PICTURE_PLAN_PICTURE_H_
#define ADJOIN_PLANNER_PICTURE_PLAN_PICTURE_H_

#include <string>

#include "absl/status/statusor.h"
#include "planner/picture/drawing.h"
#include "planner/picture/picture_rows.h"
#include "proto/plan.pb.h"
#include "proto/plan_report.pb.h"

namespace adjoin {

// Errors: as PicturePageOf.
absl::StatusOr<std::string> PlanSvg(const Plan& plan, const PlanReport& report);
absl::StatusOr<std::string> PlanHtml(const Plan& plan, const PlanReport& report);

// The network at a glance (stage_drawing.h) and a legend: for a page's beginning. Errors: likewise; kInvalidArgument
// where the network has too many stages for that.
absl::StatusOr<std::string> StagesSvg(const Plan& plan, const PlanReport& report);

// Everything that PlanSvg draws, 860 pixels wide.
Drawing DrawPage(const PicturePage& page);

// An SVG file with the drawing on a light ground.
std::string SvgFile(const Drawing& drawing, const std::string& title);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PICTURE_PLAN_PICTURE_H_
