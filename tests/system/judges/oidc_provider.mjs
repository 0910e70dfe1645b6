// An OpenID provider (npm package oidc-provider) that signs "ada" in without a form: 
// node oidc_provider.mjs CLIENT SECRET. Prints its issuer, and ends with its standard input.
import { createServer } from "node:http";
import { Provider } from "oidc-provider";

const [client, secret] = process.argv.slice(2);
const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{ client_id: client, client_secret: secret, redirect_uris: ["http://127.0.0.1/sign-in/callback"], grant_types: ["authorization_code"] }],
    pkce: { required: () => true },
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["groups"] },
    features: { devInteractions: { enabled: false } },
    findAccount: (context, id) => ({
      accountId: id,
      claims: () => ({ sub: id, email: `${id}@house.example`, email_verified: true, groups: ["family"] }),
    }),
    interactions: { url: (context, interaction) => `/sign-in-as-ada/${interaction.uid}` },
  });
  // The port of the gateway is a free one, which it has when the provider is there.
  provider.Client.prototype.redirectUriAllowed = (uri) => /^http:\/\/127\.0\.0\.1:[0-9]+\/sign-in\/callback$/.test(uri);
  provider.use(async (context, next) => {
    if (!context.path.startsWith("/sign-in-as-ada/")) return next();
    const { params } = await provider.interactionDetails(context.req, context.res);
    const grant = new provider.Grant({ accountId: "ada", clientId: params.client_id });
    grant.addOIDCScope(params.scope);
    const result = { login: { accountId: "ada" }, consent: { grantId: await grant.save() } };
    await provider.interactionFinished(context.req, context.res, result);
    context.respond = false;
  });
  server.on("request", provider.callback());
  console.log(issuer);
});
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
