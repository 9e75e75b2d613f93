#include "worker/daemon/mount_points.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace adjoin {
namespace {

TEST(MountPointsTest, TheInnermostFolderCounts) {
  const MountPoints mounts(
      "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n"
      "30 21 0:40 / /srv/data rw - nfs4 server:/data rw\n"
      "31 30 0:41 /a /srv/data/projects/a rw - nfs4 other:/a rw\n"
      "32 21 0:42 / /mnt/with\\040blank\\134and rw - tmpfs none rw\n"
      "nonsense\n\n");
  EXPECT_EQ(mounts.Of("/srv/data"), "/srv/data");
  EXPECT_EQ(mounts.Of("/srv/data/x.npy"), "/srv/data");
  EXPECT_EQ(mounts.Of("/srv/database/x.npy"), "/") << "a folder of another name";
  EXPECT_EQ(mounts.Of("/srv/data/projects/b/x.npy"), "/srv/data");
  EXPECT_EQ(mounts.Of("/srv/data/projects/a/b/x.npy"), "/srv/data/projects/a");
  EXPECT_EQ(mounts.Of("/srv/data//projects/./a/x.npy"), "/srv/data/projects/a");
  EXPECT_EQ(mounts.Of("/mnt/with blank\\and/x"), "/mnt/with blank\\and");
  EXPECT_EQ(mounts.Of("/"), "/");
  EXPECT_TRUE(mounts.AnyBelow("/"));
  EXPECT_TRUE(mounts.AnyBelow("/srv/data"));
  EXPECT_TRUE(mounts.AnyBelow("/srv/data/projects"));
  EXPECT_FALSE(mounts.AnyBelow("/srv/data/projects/a"));
  EXPECT_FALSE(mounts.AnyBelow("/srv/dat"));
}

TEST(MountPointsTest, WhereALinkMayLeadIsNotKnown) {
  const MountPoints mounts(
      "21 1 8:1 / / rw - ext4 /dev/root rw\n"
      "30 21 0:40 / /srv/data rw - nfs4 server:/data rw\n"
      "31 21 0:41 / /srv/output/fast rw - nfs4 other:/a rw\n");
  const std::vector<std::string> roots = {"/srv/data", "/srv/output"};
  EXPECT_EQ(mounts.OfBelow(roots, "/srv/data/x.npy"), "/srv/data") << "no link leads out of the root";
  EXPECT_EQ(mounts.OfBelow(roots, "/srv/output/fast/run"), "/srv/output/fast");
  EXPECT_EQ(mounts.OfBelow(roots, "/srv/output/run"), "") << "run may be a link to fast/run";
  EXPECT_EQ(mounts.OfBelow(roots, ""), "");
  EXPECT_EQ(mounts.OfBelow({"/srv/data"}, "/srv/output/run"), "/");
}

TEST(MountPointsTest, KnowsThoseOfThisProcess) {
  EXPECT_EQ(MountPoints::Read().Of("/proc/self/status"), "/proc");
  EXPECT_EQ(MountPoints("").Of("/proc/self"), "/");
}

}  // namespace
}  // namespace adjoin
