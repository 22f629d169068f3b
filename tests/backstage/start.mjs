#!/usr/bin/env node
// A small real Backstage with the break-glass plugin, for the demo and the tests:
//
//   node tests/backstage/start.mjs [--port N] [--config overlay.yaml]…
//
// BREAKGLASS_SOCKET   the sidecar's socket (or `glidepath.breakglass.socketPath` in an overlay)
// POSTGRES_HOST, …    a Postgres to use; without it one is started, and removed at the end
// BACKSTAGE_URL       the address that people use, if it is not http://127.0.0.1:PORT
//
// Logs go to standard error. Standard output gets one line of JSON as soon as everybody can sign
// in and every app has its owner: {"listening":true,"port":…,"url":…,"users":{…},…}.
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { freePort } from './src/port.mjs';
import { startPostgres } from './src/postgres.mjs';

const USERS = ['alice', 'bob', 'carol', 'dave', 'erin'];
const APPS = ['shop', 'bank'];
const SIGN_IN_PATH = '/api/auth/dev/refresh';

const { values: args } = parseArgs({
  options: { port: { type: 'string' }, config: { type: 'string', multiple: true, default: [] } },
});

const here = import.meta.dirname;
const port = Number(args.port ?? process.env.BACKSTAGE_PORT ?? (await freePort()));
const local = `http://127.0.0.1:${port}`;

const postgres = process.env.POSTGRES_HOST ? undefined : await startPostgres();
const defaults = {
  BACKSTAGE_PORT: String(port),
  BACKSTAGE_URL: local,
  BREAKGLASS_ENTITIES: join(here, 'entities.yaml'),
  BREAKGLASS_SOCKET: '/run/breakglass/api.sock',
  POSTGRES_HOST: postgres?.host,
  POSTGRES_PORT: postgres ? String(postgres.port) : '5432',
  POSTGRES_USER: postgres?.user,
  POSTGRES_PASSWORD: postgres?.password,
};
for (const [name, value] of Object.entries(defaults)) {
  if (value !== undefined) process.env[name] ??= value;
}

// Backstage reads its `--config` arguments itself; ours comes first, so the others overlay it.
const configs = [join(here, 'app-config.yaml'), ...args.config];
process.argv.splice(2, Infinity, ...configs.flatMap(path => ['--config', path]));

// Everything but the one line belongs to the log.
const announce = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write.bind(process.stderr);

const { createBackend } = await import('@backstage/backend-defaults');
const { devAuthModule, DEV_USER_HEADER } = await import('./src/devAuth.mjs');
const { examplePolicyModule } = await import('./src/policy.mjs');

const backend = createBackend();
backend.add(import('@backstage/plugin-auth-backend'));
backend.add(devAuthModule);
backend.add(import('@backstage/plugin-catalog-backend'));
backend.add(import('@backstage/plugin-permission-backend'));
backend.add(examplePolicyModule);
backend.add(import('@backstage/plugin-signals-backend'));
backend.add(import('@hangar/plugin-breakglass-backend'));
await backend.start();
await untilReady();
announce(
  `${JSON.stringify({
    listening: true,
    port,
    url: process.env.BACKSTAGE_URL,
    pid: process.pid,
    users: Object.fromEntries(USERS.map(name => [name, `user:default/${name}`])),
    signIn: { method: 'POST', url: `${local}${SIGN_IN_PATH}`, header: DEV_USER_HEADER },
    health: `${local}/api/glidepath/breakglass/health`,
  })}\n`,
);

/** The catalog works in the background: waits for users with groups and apps with owners. */
async function untilReady() {
  const deadline = Date.now() + 60_000;
  const missing = new Set([...USERS, ...APPS]);
  while (missing.size > 0) {
    if (Date.now() > deadline) throw new Error(`the catalog lacks ${[...missing].join(', ')}`);
    let token;
    for (const name of USERS) {
      const identity = await signIn(name);
      token ??= identity?.token;
      if (identity?.identity.ownershipEntityRefs.length > 1) missing.delete(name);
    }
    for (const name of token ? APPS : []) {
      const path = `/api/catalog/entities/by-name/component/default/${name}`;
      const entity = await ask(path, { headers: { authorization: `Bearer ${token}` } });
      if (entity?.relations?.some(({ type }) => type === 'ownedBy')) missing.delete(name);
    }
    if (missing.size > 0) await new Promise(resolve => setTimeout(resolve, 200));
  }
}

async function signIn(name) {
  const answer = await ask(SIGN_IN_PATH, { method: 'POST', headers: { [DEV_USER_HEADER]: name } });
  return answer?.backstageIdentity;
}

async function ask(path, init) {
  const response = await fetch(local + path, init);
  return response.ok ? response.json() : void (await response.body?.cancel());
}
