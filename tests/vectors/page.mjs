// The page of `browser.test.mjs`: runs every row and leaves the outcomes in
// an element, because a strict policy lets no one evaluate a text in the page.
import { outcome } from './rows.mjs';

async function run() {
  const entry = new URLSearchParams(location.search).get('entry');
  const { load } = await import(`/npm/${entry}.mjs`);
  const api = await load();
  const outcomes = {};
  for (const file of await (await fetch('/vectors.json')).json()) {
    const rows = (outcomes[file.decision] ??= {});
    for (const row of file.cases) rows[row.name] = outcome(api, file, row);
  }
  return { outcomes };
}

const result = await run().catch(error => ({ failed: String(error) }));
const done = document.createElement('pre');
done.id = 'done';
done.textContent = JSON.stringify(result);
document.body.append(done);
