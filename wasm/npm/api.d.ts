import type { Decisions, DoorProblem } from './types/decisions';

export * from './types/decisions';

/** Every decision, on values and on JSON text. */
export interface DecisionsApi extends Readonly<Decisions> {
  /**
   * A decision on JSON text. The answer is `{"ok": …}`, or `{"error": {"code", "message"}}` for
   * text that cannot be read: malformed, over 1 MiB, nested over 127 levels, or not what the
   * decision takes. Throws a `RangeError` for a name that is no decision.
   */
  answerText(name: keyof Decisions, text: string): string;
}

/** The input could not be read as what the decision takes, so nothing was decided. */
export declare class DecisionInputError extends Error {
  constructor(problem: DoorProblem, options?: ErrorOptions);
  /** Stable, for programs: `too_large`, `not_json`, `wrong_shape`. */
  readonly code: string;
}
