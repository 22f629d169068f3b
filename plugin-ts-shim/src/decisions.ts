/**
 * The one place where input is judged, by the decisions that also answer in the browser's form
 * and in the sidecar: a refusal reads the same in all three (B-2, B-11).
 */
import { InputError } from '@backstage/errors';
import {
  DecisionInputError,
  decisions,
  type Problem,
  type SessionRequest,
} from '@hangar/breakglass-decisions-node';

/** Judges the body of `POST /sessions` (S-5). Throws `InputError` with every problem. */
export function judgeSessionRequest(body: unknown): SessionRequest {
  const answer = decide(() => decisions.parseSessionRequest({ body }));
  if ('value' in answer) return answer.value;
  throw refusal(answer.problems);
}

/** A name as S-5 has it, from a query. Throws `InputError` that names the field. */
export function requireName(field: string, value: unknown): string {
  const plain =
    typeof value === 'string' &&
    /^[A-Za-z0-9._-]{1,253}$/.test(value) &&
    value !== '.' &&
    value !== '..';
  if (plain) return value;
  throw new InputError(`\`${field}\` must be a name of letters, digits, \`.\`, \`_\` and \`-\``);
}

/** What cannot even be read by a decision is the client's error. */
function decide<T>(decision: () => T): T {
  try {
    return decision();
  } catch (error) {
    if (error instanceof DecisionInputError) throw new InputError(error.message);
    throw error;
  }
}

/** The same text and fields as the sidecar's answer. */
function refusal(problems: readonly Problem[]): InputError {
  const told = problems.map(({ field, message }) => `${field}: ${message}`);
  return Object.assign(new InputError(told.join('; ')), { problems });
}
