/**
 * One auditor event per action, refusals included (B-5, S-15).
 *
 * Invariants: an event is finished exactly once; an action whose outcome is unknown is not called
 * failed without saying so (`outcome: unknown`); an auditor that fails is reported as an error
 * and never undoes or repeats an action; nothing a client sent names the initiator.
 */
import type { AuditorService, LoggerService } from '@backstage/backend-plugin-api';
import { toError } from '@backstage/errors';
import type { JsonObject } from '@backstage/types';
import type { Request } from 'express';
import { OutcomeUnknownError } from './sidecar/errors';

/** What an action is, for the runbook's log query. */
export interface AuditedAction {
  readonly eventId: 'tower-write' | 'tower-breakglass-recording';
  readonly action: 'request' | 'end' | 'attach' | 'detach' | 'download' | 'play';
  readonly permission: string;
  /** The person, as verified; `unknown` where nobody was. Never what a client only says. */
  readonly initiator: string;
  readonly severity: 'medium' | 'high' | 'critical';
  readonly app?: string;
  readonly entityRef?: string;
  readonly env?: string;
  readonly session?: string;
  /** Only of an ordinary request: an upgrade has no Express request to describe. */
  readonly request?: Request;
}

/** What is learned later: it is added to the event when it finishes. */
export type AuditedFacts = Pick<AuditedAction, 'app' | 'entityRef' | 'env' | 'session'> &
  JsonObject;

/** Adds what an action learns about itself; may be called any number of times. */
export type Learn = (facts: AuditedFacts) => void;

export class Audit {
  readonly #auditor: AuditorService;
  readonly #logger: LoggerService;

  constructor(options: { auditor: AuditorService; logger: LoggerService }) {
    this.#auditor = options.auditor;
    this.#logger = options.logger;
  }

  /** Runs an action as one event: succeeded with its value, or failed with what it throws. */
  async run<T>(action: AuditedAction, act: (learn: Learn) => Promise<T>): Promise<T> {
    const event = await this.#begin(action);
    let learned: JsonObject = {};
    let value: T;
    try {
      value = await act(facts => {
        learned = { ...learned, ...defined(facts) };
      });
    } catch (error) {
      // The auditor knows success and failure only; what is not known is said beside it.
      const unknown = error instanceof OutcomeUnknownError && { outcome: error.outcome };
      const meta = { ...learned, ...unknown };
      await this.#safely(action, () => event?.fail({ error: toError(error), meta }));
      throw error;
    }
    await this.#safely(action, () => event?.success({ meta: learned }));
    return value;
  }

  /** Records an action that was refused before it began, and throws its refusal. */
  async refused(action: AuditedAction, refusal: unknown): Promise<never> {
    return this.run(action, () => Promise.reject(refusal));
  }

  async #begin(action: AuditedAction) {
    const { eventId, severity, request, ...meta } = action;
    return this.#safely(action, () =>
      this.#auditor.createEvent({
        eventId,
        severityLevel: severity,
        meta: defined(meta),
        ...(request && { request }),
      }),
    );
  }

  async #safely<T>(action: AuditedAction, write: () => Promise<T> | undefined) {
    try {
      return await inTime(write());
    } catch (error) {
      const { action: what, initiator, session = 'none' } = action;
      this.#logger.error(
        `an audit event was lost: \`${what}\` by \`${initiator}\`, session \`${session}\``,
        toError(error),
      );
      return undefined;
    }
  }
}

/** An auditor that hangs must not hold an action back for longer than this. */
const PATIENCE_MS = 5_000;

async function inTime<T>(written: Promise<T> | undefined): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, refuse) => {
    timer = setTimeout(() => refuse(new Error('the auditor does not answer')), PATIENCE_MS);
  });
  try {
    return await Promise.race([written, late]);
  } finally {
    clearTimeout(timer);
  }
}

function defined(facts: object): JsonObject {
  return Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined));
}
