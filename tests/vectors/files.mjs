// The vector files of this folder, read and checked for the mistakes that would hide a row.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';

const folder = new URL('./', import.meta.url);
const OTHERS = ['package.json', 'package-lock.json', 'tsconfig.json'];

export function vectorFiles() {
  const names = readdirSync(folder).filter(name => name.endsWith('.json') && !OTHERS.includes(name));
  const files = names.sort().map(name => {
    const file = JSON.parse(readFileSync(new URL(name, folder), 'utf8'));
    const rows = file.cases.map(row => row.name);
    assert.equal(new Set(rows).size, rows.length, `${name}: two rows have one name`);
    for (const row of file.cases) {
      const has = key => Object.hasOwn(row, key);
      assert.ok(has('input') !== has('text'), `${name}: ${row.name}: input or text`);
      assert.ok(has('expected') !== has('error'), `${name}: ${row.name}: expected or error`);
    }
    return file;
  });
  assert.ok(files.length > 0, 'no vector files were found');
  return files;
}
