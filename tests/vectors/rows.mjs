// How a row of a vector file is read and run; the same in Node and in a browser's page.
// `README.md` says what a row may hold. `wasm/tests/vectors.rs` is this file's twin in Rust.

/** Writes out what a row says in short: `{"repeat": ["a", 3]}` is "aaa". */
export function expand(value) {
  if (Array.isArray(value)) return value.map(expand);
  if (value === null || typeof value !== 'object') return value;
  const entries = Object.entries(value);
  if (entries.length === 1) {
    const [[key, given]] = entries;
    if (key === 'utf16' && Array.isArray(given)) return String.fromCharCode(...given);
    if (key === 'repeat' && Array.isArray(given)) return expand(given[0]).repeat(given[1]);
    if (key === 'join' && Array.isArray(given)) return given.map(expand).join('');
    if (key === 'nest' && typeof given === 'number') {
      let nested = [];
      for (let depth = 1; depth < given; depth += 1) nested = [nested];
      return nested;
    }
  }
  // `fromEntries` defines: a key like `__proto__` stays a key.
  return Object.fromEntries(entries.map(([key, member]) => [key, expand(member)]));
}

/** `tier_for` in the files and in Rust is `tierFor` in JavaScript. */
export function jsName(decision) {
  return decision.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());
}

/** What a row must give: `{ ok }`, or `{ error }` with the code alone. */
export function expected(row) {
  return Object.hasOwn(row, 'error') ? { error: row.error } : { ok: expand(row.expected) };
}

const isObject = value => value !== null && typeof value === 'object' && !Array.isArray(value);

/** A row's input, with what it leaves out taken from the file's `base`. */
export function inputOf(file, row) {
  const input = expand(row.input);
  if (row.bare === true || !isObject(input)) return input;
  const filled = Object.entries(file.base ?? {})
    .filter(([name]) => Object.hasOwn(input, name) && isObject(input[name]))
    .map(([name, members]) => [name, { ...members, ...input[name] }]);
  return { ...input, ...Object.fromEntries(filled) };
}

/** What an entry of the packages gives for a row of a file. */
export function outcome(api, file, row) {
  const name = jsName(file.decision);
  if (Object.hasOwn(row, 'text')) {
    const answer = JSON.parse(api.answerText(name, expand(row.text)));
    return Object.hasOwn(answer, 'error') ? { error: answer.error.code } : { ok: answer.ok };
  }
  try {
    return { ok: api[name](inputOf(file, row)) };
  } catch (error) {
    if (error.name !== 'DecisionInputError') throw error;
    return { error: error.code };
  }
}
