// Made from the addon's functions by `cargo xtask bindings`, which also compares. Do not edit.

import type { Decisions, DecisionsApi } from '@hangar/breakglass-decisions/node';

export * from '@hangar/breakglass-decisions/node';

/** Every decision, by the addon or by wasm. */
export declare const decisions: DecisionsApi;
/** Which build answers: the addon, or wasm where no addon fits this machine. */
export declare const host: 'native' | 'wasm';
/** Why each addon that was tried did not load; empty if the first one did. */
export declare const loadErrors: readonly Error[];

/** The functions that are compiled into the addon, from JSON text to JSON text. */
interface Addon {
  actionRefusal(input: string): string;
  anchorAction(input: string): string;
  asSeen(input: string): string;
  capabilities(input: string): string;
  checkTarget(input: string): string;
  fenceRefusal(input: string): string;
  overLimit(input: string): string;
  parseApproval(input: string): string;
  parseDenial(input: string): string;
  parseReview(input: string): string;
  parseSessionRequest(input: string): string;
  placeInQueue(input: string): string;
  readEndReason(input: string): string;
  reviewReminderAction(input: string): string;
  sensitiveRecordingRefusal(input: string): string;
  sweepAction(input: string): string;
  tierFor(input: string): string;
}

type None<T extends never> = T;
/** These two do not compile where addon and decisions differ. */
type Missing = None<Exclude<keyof Decisions, keyof Addon>>;
type Unknown = None<Exclude<keyof Addon, keyof Decisions>>;
export type AddonDiffersIn = Missing | Unknown;
