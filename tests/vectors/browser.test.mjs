// The vectors in Chromium, through both browser entries, under a content security policy that
// allows WebAssembly and no `eval` (qB308).
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { vectorFiles } from './files.mjs';
import { expected } from './rows.mjs';

const STRICT = "default-src 'none'; connect-src 'self'; script-src 'self'";
const WITH_WASM = `${STRICT} 'wasm-unsafe-eval'`;
const TYPES = { '.mjs': 'text/javascript', '.js': 'text/javascript', '.wasm': 'application/wasm' };
const WAIT_MS = 60_000;

const npm = fileURLToPath(new URL('../../wasm/npm/', import.meta.url));
const here = fileURLToPath(new URL('./', import.meta.url));
const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
const files = vectorFiles();

/** The page, the packages' files and the vectors; `?csp=none` leaves WebAssembly out. */
async function answer(request, response) {
  const url = new URL(request.url, 'http://127.0.0.1');
  const send = (status, type, body) => {
    const policy = url.searchParams.get('wasm') === 'no' ? STRICT : WITH_WASM;
    response.writeHead(status, { 'content-type': type, 'content-security-policy': policy });
    response.end(body);
  };
  if (url.pathname === '/') {
    return send(200, 'text/html', '<!doctype html><script type="module" src="/page.mjs"></script>');
  }
  if (url.pathname === '/vectors.json') {
    return send(200, 'application/json', JSON.stringify(files));
  }
  const [folder, name] = url.pathname.startsWith('/npm/')
    ? [npm, url.pathname.slice('/npm/'.length)]
    : [here, url.pathname.slice(1)];
  const file = path.join(folder, path.normalize(name));
  const type = TYPES[path.extname(file)];
  if (!file.startsWith(folder) || type === undefined) return send(404, 'text/plain', 'no');
  try {
    return send(200, type, await readFile(file));
  } catch {
    return send(404, 'text/plain', 'no');
  }
}

describe('Chromium', { skip: existsSync(executablePath) ? false : `no ${executablePath}` }, () => {
  let server;
  let browser;

  before(async () => {
    server = createServer((request, response) => void answer(request, response));
    await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
    browser = await chromium.launch({
      executablePath,
      args: [
        '--headless',
        '--no-sandbox',
        '--disable-gpu',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
      ],
    });
  });

  after(async () => {
    await browser?.close();
    server?.closeAllConnections();
    await new Promise(resolve => server?.close(resolve));
  });

  async function run(entry, wasm) {
    const page = await browser.newPage();
    try {
      const query = new URLSearchParams({ entry, wasm });
      await page.goto(`http://127.0.0.1:${server.address().port}/?${query}`);
      return JSON.parse(await page.locator('#done').textContent({ timeout: WAIT_MS }));
    } finally {
      await page.close();
    }
  }

  for (const entry of ['web', 'inline']) {
    test(`qB308: ${entry} answers every row under a strict policy`, async t => {
      const { failed, outcomes } = await run(entry, 'yes');
      assert.equal(failed, undefined);
      assert.deepEqual(Object.keys(outcomes), files.map(file => file.decision));
      for (const { decision, cases } of files) {
        for (const row of cases) {
          await t.test(`${decision}: ${row.name}`, () => {
            assert.deepEqual(outcomes[decision]?.[row.name], expected(row));
          });
        }
      }
    });

    test(`qB308: ${entry} says so where the policy forbids WebAssembly`, async () => {
      const { failed } = await run(entry, 'no');
      assert.match(failed ?? '', /CompileError.*Content Security Policy/);
    });
  }
});
