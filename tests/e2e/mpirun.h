// The launchers of MPI that tools/setup installs.
#ifndef ADJOIN_TESTS_E2E_MPIRUN_H_
#define ADJOIN_TESTS_E2E_MPIRUN_H_

#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

namespace adjoin {

struct Mpirun {
  std::string name;
  std::vector<std::string> command;  // without "-n N PROGRAM"
};
inline std::ostream& operator<<(std::ostream& out, const Mpirun& mpirun) { return out << mpirun.name; }

inline const Mpirun kMpiruns[] = {{"OpenMpi", {"/usr/bin/mpirun.openmpi", "--oversubscribe"}},
                                  {"Mpich", {"/usr/bin/mpirun.mpich"}}};

// What they need in their environment, to keep their own files in `folder`/mpi and `folder`/tmp, which this makes.
// Open MPI refuses to be run by root, who runs tests in containers, and that of Debian 13 to be run without a home.
inline std::vector<std::string> MpirunEnvironment(const std::string& folder) {
  for (const char* name : {"/tmp", "/mpi"}) std::filesystem::create_directories(folder + name);
  return {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
          "OMPI_MCA_orte_tmpdir_base=" + folder + "/mpi", "TMPDIR=" + folder + "/tmp", "HOME=" + folder};
}

}  // namespace adjoin

#endif  // ADJOIN_TESTS_E2E_MPIRUN_H_
