// The typed side of both doors: values in, values out, JSON text between. Written without a module
// system; `cargo xtask bindings` puts it into `dist` as `facade.cjs` and `facade.mjs`.

/** The input could not be read as what the decision takes, so nothing was decided. */
class DecisionInputError extends Error {
  /**
   * @param {{ code: string, message: string }} problem
   * @param {ErrorOptions} [options]
   */
  constructor(problem, options) {
    super(problem.message, options);
    this.name = 'DecisionInputError';
    this.code = problem.code;
  }
}

/**
 * Makes the typed functions from a door's text functions.
 *
 * @param {{ decisionNames(): string, maxInputBytes(): number }} door
 */
function bind(door) {
  const names = new Set(JSON.parse(door.decisionNames()));
  const longest = door.maxInputBytes();

  // A text that is too long in any encoding is cut before it is copied into the door, to a length
  // that the door refuses in its own words.
  const answerText = (name, text) => {
    if (!names.has(name)) throw new RangeError('there is no decision of this name');
    return door[name](text.length > longest ? text.slice(0, longest + 1) : text);
  };

  const decide = (name, input) => {
    let text;
    try {
      text = JSON.stringify(input) ?? 'null';
    } catch (cause) {
      const message = `the input of \`${name}\` cannot be written as JSON, so nothing was decided`;
      throw new DecisionInputError({ code: 'not_json', message }, { cause });
    }
    const answer = JSON.parse(answerText(name, text));
    if (Object.hasOwn(answer, 'error')) throw new DecisionInputError(answer.error);
    return answer.ok;
  };

  const api = { answerText };
  for (const name of names) api[name] = input => decide(name, input);
  return Object.freeze(api);
}
