// The vectors through every entry that runs in Node, and what only JavaScript can send.
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { vectorFiles } from './files.mjs';
import { expected, jsName, outcome } from './rows.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));
const require = createRequire(import.meta.url);
const files = vectorFiles();

/** The loader's package as it is where no addon was published for the machine. */
function withoutAddon() {
  const folder = mkdtempSync(path.join(tmpdir(), 'decisions-'));
  const scope = path.join(folder, 'node_modules/@hangar');
  const installed = path.join(scope, 'breakglass-decisions-node');
  mkdirSync(installed, { recursive: true });
  for (const file of ['index.js', 'package.json', 'dist']) {
    cpSync(path.join(root, 'node-binding', file), path.join(installed, file), { recursive: true });
  }
  symlinkSync(path.join(root, 'wasm/npm'), path.join(scope, 'breakglass-decisions'), 'dir');
  return { folder, installed };
}

const fallback = withoutAddon();
after(() => rmSync(fallback.folder, { recursive: true, force: true }));

const native = require(path.join(root, 'node-binding'));
const wasm = require(path.join(root, 'wasm/npm/node.cjs'));
const fallenBack = require(fallback.installed);
const bundled = await import('../../wasm/npm/bundler.mjs');

const entries = {
  'native addon': native,
  'wasm for Node': wasm,
  'loader without an addon': fallenBack,
  'wasm for bundlers': bundled,
};

for (const [entry, { decisions }] of Object.entries(entries)) {
  describe(entry, () => {
    for (const file of files) {
      describe(file.decision, () => {
        for (const row of file.cases) {
          test(row.name, () => {
            assert.deepEqual(outcome(decisions, file, row), expected(row));
          });
        }
      });
    }
  });
}

describe('the loader', () => {
  test('the addon of this build answers', () => {
    assert.deepEqual([native.host, native.loadErrors], ['native', []]);
  });

  test('without an addon, wasm answers and says why', () => {
    assert.equal(fallenBack.host, 'wasm');
    assert.equal(fallenBack.loadErrors.length, 2);
    for (const error of fallenBack.loadErrors) assert.equal(error.code, 'MODULE_NOT_FOUND');
  });

  test('load gives the same decisions', async () => {
    for (const entry of Object.values(entries)) {
      assert.equal(await entry.load(), entry.decisions);
    }
  });
});

describe('what only JavaScript can send', () => {
  const parse = 'parseSessionRequest';
  for (const [entry, { decisions, DecisionInputError }] of Object.entries(entries)) {
    const refused = code => error => error instanceof DecisionInputError && error.code === code;

    test(`${entry}: what JSON cannot hold is refused and does not throw something else`, () => {
      const cyclic = {};
      cyclic.self = cyclic;
      let deep = [];
      for (let depth = 0; depth < 100_000; depth += 1) deep = [deep];
      const throwing = { toJSON: () => { throw new Error('no'); } };
      for (const input of [cyclic, 1n, { reason: 1n }, deep, throwing]) {
        assert.throws(() => decisions.tierFor(input), refused('not_json'));
      }
    });

    test(`${entry}: what is missing is null`, () => {
      for (const input of [undefined, () => 1, Symbol('x')]) {
        assert.throws(() => decisions.tierFor(input), refused('wrong_shape'));
      }
    });

    test(`${entry}: a number that is none is null, as JSON.stringify writes it`, () => {
      for (const number of [NaN, Infinity, -Infinity]) {
        assert.deepEqual(
          decisions[parse]({ body: { durationMinutes: number } }),
          decisions[parse]({ body: { durationMinutes: null } }),
        );
      }
    });

    test(`${entry}: a text of 64 MiB is refused at once and the next answer is right`, () => {
      const reason = 'a'.repeat(64 * 1024 * 1024);
      assert.throws(() => decisions[parse]({ body: { reason } }), refused('too_large'));
      const file = files.find(({ decision }) => decision === 'tier_for');
      assert.deepEqual(outcome(decisions, file, file.cases[0]), expected(file.cases[0]));
    });

    test(`${entry}: an unescaped lone surrogate in a text is U+FFFD too`, () => {
      const text = unit => `{"body":{"app":"${unit}"}}`;
      assert.equal(
        decisions.answerText(parse, text('\ud800')),
        decisions.answerText(parse, text('\\ufffd')),
      );
    });

    test(`${entry}: only decisions can be asked for`, () => {
      for (const name of ['', 'constructor', '__proto__', 'toString', 'version', 'memory']) {
        assert.throws(() => decisions.answerText(name, '{}'), RangeError, name);
      }
      assert.ok(Object.isFrozen(decisions));
    });
  }

  test('every entry has every decision, and every decision has vectors', () => {
    const names = Object.keys(native.decisions).sort();
    for (const { decisions } of [wasm, fallenBack, bundled]) {
      assert.deepEqual(Object.keys(decisions).sort(), names);
    }
    const tested = new Set(files.map(({ decision }) => jsName(decision)));
    const untested = names.filter(name => name !== 'answerText' && !tested.has(name));
    assert.deepEqual(untested, []);
  });
});
