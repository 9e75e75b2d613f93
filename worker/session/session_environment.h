// The surroundings of a session on one rank: its job, its paths, the other ranks. Nothing in it is replaced after the
// start, so every part of a session gets it const.
//
//   environment.Log("starts");
//   ADJOIN_ASSIGN_OR_RETURN(auto trainer,
//                           Trainer::Create(environment.plan(), environment.communicator, &parameters,
//                                           environment.Data(), environment.layers, environment.activity));
//
// One thread.
#ifndef ADJOIN_WORKER_SESSION_SESSION_ENVIRONMENT_H_
#define ADJOIN_WORKER_SESSION_SESSION_ENVIRONMENT_H_

#include <string>

#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "worker/samples/field_source.h"
#include "worker/session/session.h"
#include "worker/training/extent_networks.h"
#include "worker/training/session_activity.h"

namespace adjoin {

class Communicator;   // primitives/comm/communicator.h
class LayerRegistry;  // layers/registry.h

struct SessionEnvironment {
  const SessionOptions& options;
  const LayerRegistry& layers;
  Communicator* communicator = nullptr;  // not null, nor is the next one
  SessionActivity* activity = nullptr;
  ExtentPlanning planning;

  const Plan& plan() const { return options.plan; }
  const JobSpec& spec() const { return options.plan.spec(); }
  // True on rank 0, which writes the job's files and its lines in the log.
  bool writes() const;
  // True where this rank was asked to stop.
  bool stop_asked() const;
  void Log(const std::string& line) const;
  // The data folder, whose warnings go into the job's log with this rank. The environment must outlive it.
  DataFolder Data() const;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SESSION_SESSION_ENVIRONMENT_H_
