// node-wot as a client of one thing: node node_wot.js URL TOKEN COUNT. Prints what it found as JSON.
const http = require("node:http");
const { Servient } = require("@node-wot/core");
const { HttpClientFactory } = require("@node-wot/binding-http");

const LIMIT_MS = 60_000;
const [url, token, count] = [process.argv[2], process.argv[3], Number(process.argv[4])];

function description() {
  return new Promise((resolve, reject) => {
    http.get(url, { headers: { authorization: `Bearer ${token}` } }, (response) => {
      const parts = [];
      response.on("data", (part) => parts.push(part));
      response.on("end", () => resolve(JSON.parse(Buffer.concat(parts).toString())));
    }).on("error", reject);
  });
}

async function until(isSo) {
  const end = Date.now() + LIMIT_MS;
  while (!isSo() && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 10));
}

async function main() {
  const td = await description();
  const servient = new Servient();
  servient.addClientFactory(new HttpClientFactory());
  servient.addCredentials({ [td.id]: { token } });
  const thing = await (await servient.start()).consume(td);
  const found = { events: [], observed: [], errors: [] };
  const note = (error) => found.errors.push(error.message);
  await thing.writeProperty("brightness", 42);
  found.read = await (await thing.readProperty("brightness")).value();
  found.invoked = await (await thing.invokeAction("double", { number: 21 })).value();
  found.all = {};
  for (const [name, output] of await thing.readAllProperties()) found.all[name] = await output.value();
  await thing.subscribeEvent("overheated", async (data) => found.events.push(await data.value()), note);
  await thing.observeProperty("brightness", async (data) => found.observed.push(await data.value()), note);
  await thing.invokeAction("burst", { count });
  for (let value = 1; value <= 20; value++) await thing.writeProperty("brightness", value);
  await until(() => found.events.length >= count && found.observed.length >= 20);
  console.log(JSON.stringify(found));
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
