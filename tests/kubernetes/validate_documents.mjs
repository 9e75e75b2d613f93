// Validates Kubernetes' documents against the API's types: reads a JSON list, prints a line for each that is wrong.
//
//   node validate_documents.mjs FOLDER_WITH_NODE_MODULES < documents.json
//
// The types are those of the npm packages kubernetes-models and @kubernetes-models/cert-manager.
import { existsSync, readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const packages = ["kubernetes-models", "@kubernetes-models/cert-manager"];

// Each group and version is a folder of its package: "apps/v1"; the core's group has no name.
async function modelOf(apiVersion, kind) {
  for (const name of packages) {
    const file = `${process.argv[2]}/node_modules/${name}/${apiVersion}/index.js`;
    if (!existsSync(file)) continue;
    const model = (await import(pathToFileURL(file)))[kind];
    if (model !== undefined) return model;
  }
  return undefined;
}

for (const document of JSON.parse(readFileSync(0, "utf8"))) {
  const name = `${document.apiVersion} ${document.kind} ${document.metadata?.name}`;
  const model = await modelOf(document.apiVersion, document.kind);
  if (model === undefined) {
    console.log(`${name}: there is no such type`);
    continue;
  }
  try {
    new model(document).validate();
  } catch (error) {
    console.log(`${name}: ${error.message.replaceAll("\n", "; ")}`);
  }
}
