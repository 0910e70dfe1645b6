// node-wot serves one thing: node node_wot.js PORT SECONDS. Its action computes for so much CPU time of the process.
console.warn = () => {}; // a line for each format of the schema that it does not know
const { Servient } = require("@node-wot/core");
const { HttpServer } = require("@node-wot/binding-http");

const [port, actionUs] = [Number(process.argv[2]), Number(process.argv[3]) * 1e6];

function usedUs() {
  const used = process.cpuUsage();
  return used.user + used.system;
}

async function main() {
  const servient = new Servient();
  servient.addServer(new HttpServer({ port, address: "127.0.0.1" }));
  const wot = await servient.start();
  const thing = await wot.produce({
    title: "machine",
    securityDefinitions: { nosec_sc: { scheme: "nosec" } },
    security: ["nosec_sc"],
    properties: { level: { type: "integer", readOnly: true, observable: true } },
    actions: { crunch: { output: { type: "integer" } } },
  });
  thing.setPropertyReadHandler("level", async () => 7);
  thing.setActionHandler("crunch", async () => {
    const end = usedUs() + actionUs;
    while (usedUs() < end);
    return 1;
  });
  await thing.expose();
  console.log("ready");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
