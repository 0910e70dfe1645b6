// The Thing Description Playground on some files: node playground.js FILE... Prints what it found as JSON.
const fs = require("node:fs");
const core = require("@thing-description-playground/core");
const { tdAssertions } = require("@thing-description-playground/assertions");

async function main() {
  const files = process.argv.slice(2);
  const found = { reports: [], failed: [], passed_count: 0 };
  for (const file of files) {
    const options = { checkDefaults: true, checkJsonLd: false };
    const result = await core.tdValidator(fs.readFileSync(file, "utf8"), () => {}, options);
    found.reports.push(result.report);
  }
  const judged = await tdAssertions(files.map((file) => fs.readFileSync(file)), (path) => fs.promises.readFile(path, "utf8"), () => {});
  for (const assertion of Object.values(judged.merged ?? judged).flat()) {
    if (assertion.Status === "fail") found.failed.push(assertion.ID);
    if (assertion.Status === "pass") found.passed_count += 1;
  }
  console.log(JSON.stringify(found));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
