// Starts the small Backstage as a process of its own and waits for its line.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

const START = join(import.meta.dirname, '..', 'start.mjs');

/**
 * Starts `start.mjs` with these arguments and variables.
 * Returns `{ info, log(), tokenOf(name), stop(signal) }`, where `info` is its JSON line.
 */
export async function launchBackstage({ args = [], env = {} } = {}) {
  const child = spawn(process.execPath, [START, ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let log = '';
  child.stderr.setEncoding('utf8').on('data', text => (log += text));
  const exited = once(child, 'exit');
  const line = await Promise.race([
    firstLine(child.stdout),
    exited.then(([code]) => Promise.reject(new Error(`Backstage ended with ${code}:\n${log}`))),
  ]);
  const info = JSON.parse(line);
  return {
    info,
    log: () => log,
    /** A fresh token of the user with this name, such as `alice`. */
    async tokenOf(name) {
      const { method, url, header } = info.signIn;
      const response = await fetch(url, { method, headers: { [header]: name } });
      if (!response.ok) throw new Error(`sign-in of ${name} was answered with ${response.status}`);
      return (await response.json()).backstageIdentity.token;
    },
    async stop(signal = 'SIGTERM') {
      child.kill(signal);
      await exited;
    },
  };
}

async function firstLine(stream) {
  let text = '';
  for await (const chunk of stream) {
    text += chunk;
    const end = text.indexOf('\n');
    if (end >= 0) return text.slice(0, end);
  }
  return new Promise(() => {});
}
