import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import type { LoggerService } from '@backstage/backend-plugin-api';
import { Supervisor, type Patience } from './supervise';

let directory: string;
let supervisor: Supervisor | undefined;
const lines: string[] = [];

const logger: LoggerService = {
  error: text => void lines.push(`error ${text}`),
  warn: text => void lines.push(`warn ${text}`),
  info: text => void lines.push(`info ${text}`),
  debug: () => undefined,
  child: () => logger,
};

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'supervise-'));
  lines.length = 0;
});

afterEach(async () => {
  await supervisor?.stop();
  await rm(directory, { recursive: true });
});

async function supervise(script: string, patience: Partial<Patience> = {}): Promise<Supervisor> {
  const path = join(directory, 'sidecar.js');
  await writeFile(path, script);
  supervisor = new Supervisor({
    command: { command: process.execPath, args: [path, directory] },
    logger,
    patience: { firstDelay: 10, longestDelay: 40, steady: 60_000, grace: 5_000, ...patience },
  });
  supervisor.start();
  return supervisor;
}

const started = `require('fs').appendFileSync(process.argv[2] + '/starts', 'x');`;
const starts = () => readFile(join(directory, 'starts'), 'utf8').catch(() => '');

test('a sidecar that exits is started again, ever less often', async () => {
  await supervise(`${started} process.exit(3);`);
  await until(async () => (await starts()).length >= 4);
  const delays = lines.map(line => /exit status 3.* in (\d+) ms/.exec(line)?.[1]).filter(Boolean);
  assert.deepEqual(delays.slice(0, 4), ['10', '20', '40', '40'].slice(0, delays.length));
});

test('its output goes to the log, line by line', async () => {
  await supervise(`process.stdout.write('one\\ntw'); process.stderr.write('bad\\n');
    setTimeout(() => process.stdout.write('o\\n'), 50); setInterval(() => {}, 1000);`);
  await until(() => lines.length >= 3);
  assert.deepEqual([...lines].sort(), ['info one', 'info two', 'warn bad']);
});

test('a stop ends it for good', async () => {
  const running = await supervise(`${started} setInterval(() => {}, 1000);`);
  await until(async () => (await starts()).length === 1);
  const { pid } = running;
  await running.stop();
  assert.throws(() => process.kill(pid as number, 0), /ESRCH/);
  await new Promise(resolve => setTimeout(resolve, 60));
  assert.equal((await starts()).length, 1);
});

test('a sidecar that does not listen to SIGTERM is killed after the grace period', async () => {
  const script = `process.on('SIGTERM', () => {}); ${started} setInterval(() => {}, 1000);`;
  const running = await supervise(script, { grace: 100 });
  await until(async () => (await starts()).length === 1);
  const { pid } = running;
  await running.stop();
  assert.throws(() => process.kill(pid as number, 0), /ESRCH/);
});

test('a command that does not exist is said, tried again, and can be stopped', async () => {
  const command = { command: join(directory, 'nothing'), args: [] };
  supervisor = new Supervisor({ command, logger, patience: { firstDelay: 10, longestDelay: 10 } });
  supervisor.start();
  await until(() => lines.filter(line => line.includes('ENOENT')).length >= 2);
  await supervisor.stop();
});

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 20_000;
  while (!(await condition())) {
    assert.ok(performance.now() < deadline, 'it did not come to that in time');
    await new Promise(resolve => setTimeout(resolve, 10));
  }
}
