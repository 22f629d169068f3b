import type { Decisions, DoorProblem, FormDecisions } from './types/decisions';

export * from './types/decisions';

/** The same decisions on JSON text. */
interface OnText<D> {
  /**
   * A decision on JSON text. The answer is `{"ok": …}`, or `{"error": {"code", "message"}}` for
   * text that cannot be read: malformed, over 1 MiB, nested over 127 levels, or not what the
   * decision takes. Throws a `RangeError` for a name that is no decision of this build.
   */
  answerText(name: keyof D, text: string): string;
}

/** What a form asks for. */
export interface FormApi extends Readonly<FormDecisions>, OnText<FormDecisions> {}
/** Every decision. */
export interface DecisionsApi extends Readonly<Decisions>, OnText<Decisions> {}

/** The input could not be read as what the decision takes, so nothing was decided. */
export declare class DecisionInputError extends Error {
  constructor(problem: DoorProblem, options?: ErrorOptions);
  /** Stable, for programs: `too_large`, `not_json`, `wrong_shape`. */
  readonly code: string;
}
