// Asks the coordinator. Every answer is JSON; an error of the coordinator's is an ApiError with its text.

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const kPatience = 15000, kBusy = [500, 1500];  // milliseconds

const moment = (ms) => new Promise((done) => setTimeout(done, ms));

// Where the coordinator is busy, a question that changes nothing is asked again: `pauses` before it.
async function ask(path, options, pauses = options.method === undefined ? kBusy : []) {
  let response;
  try {
    response = await fetch(path, {...options, cache: "no-store", signal: AbortSignal.timeout(kPatience)});
  } catch (error) {
    throw new ApiError(0, "the coordinator does not answer: " + error.message);
  }
  if (pauses.length > 0 && (response.status === 429 || response.status === 503)) {
    await moment(pauses[0]);
    return ask(path, options, pauses.slice(1));
  }
  let answer = null;
  try {
    answer = await response.json();
  } catch (error) {
    // An answer that is no JSON is an error below; one that does not end is no answer.
    if (!(error instanceof SyntaxError)) throw new ApiError(0, "the coordinator does not answer: " + error.message);
  }
  if (!response.ok || answer === null) {
    throw new ApiError(response.status, answer?.error ?? `the coordinator answers ${response.status}`);
  }
  return answer;
}

const fields = (query) => {
  const set = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return set.length === 0 ? "" : "?" + new URLSearchParams(set);
};

export const jobPath = (job) => "/api/jobs/" + encodeURIComponent(job);

export const get = (path, query = {}) => ask(path + fields(query), {});

// `action`: "cancel", "hold", "release", "retry" or "trace". The header is what no other site can make a browser send.
export const act = (job, action, query = {}) =>
  ask(`${jobPath(job)}/${action}` + fields(query), {method: "POST", headers: {"X-Adjoin-Action": action}});
