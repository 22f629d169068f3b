/**
 * Authorization does not outlive itself (T-12): while a terminal is attached, its requester's
 * permission is asked again at least every 60 s.
 *
 * The caller protocol has no word for a permission that was lost, so every outcome but ALLOW
 * detaches. Who lost the permission cannot attach again, and the sidecar ends the session after
 * its two minutes without a terminal (T-7); who only needs a fresh token reconnects with it.
 */
import type { LoggerService } from '@backstage/backend-plugin-api';
import { toError } from '@backstage/errors';
import { requireAny, type Access, type User } from '../access';
import type { Audit, AuditedAction } from '../audit';
import { statusOf } from '../sidecar/errors';
import type { PermissionName, SessionFacts } from '../sidecar/protocol';

export interface WatchOptions {
  readonly access: Access;
  readonly audit: Audit;
  readonly logger: LoggerService;
  /** Milliseconds between two questions. With the answer's own limit it stays under 60 s. */
  readonly everyMs?: number;
}

const EVERY_MS = 45_000;
const ANSWER_MS = 10_000;

interface Watched {
  readonly session: string;
  readonly facts: SessionFacts;
  readonly detach: () => void;
  user: User;
}

export class TerminalWatch {
  readonly #options: WatchOptions;
  readonly #watched = new Set<Watched>();

  constructor(options: WatchOptions) {
    this.#options = options;
  }

  /** Watches a terminal until the returned function is called. */
  begin(terminal: Watched): () => void {
    this.#watched.add(terminal);
    const timer = setInterval(() => void this.#ask(terminal), this.#options.everyMs ?? EVERY_MS);
    timer.unref();
    return () => {
      clearInterval(timer);
      this.#watched.delete(terminal);
    };
  }

  /** The requester was authenticated for this session again: the newer credentials count. */
  renew(session: string, user: User): void {
    for (const terminal of this.#watched) {
      const same = terminal.session === session && terminal.user.ref === user.ref;
      if (same) terminal.user = user;
    }
  }

  async #ask(terminal: Watched): Promise<void> {
    const { access, audit, logger } = this.#options;
    const { facts, session, user } = terminal;
    try {
      const caller = await inTime(access.callerFor(user, facts.app));
      requireAny(caller, neededToAttach(facts));
    } catch (error) {
      if (!this.#watched.delete(terminal)) return;
      terminal.detach();
      if (statusOf(error) !== 403) {
        logger.warn(`a terminal was detached: ${toError(error).message}`, { session });
        return;
      }
      const action: AuditedAction = {
        eventId: 'tower-write',
        action: 'detach',
        permission: 'tower.breakglass.request',
        initiator: user.ref,
        session,
        ...access.auditedAs(facts),
      };
      await audit.refused(action, error).catch(() => undefined);
    }
  }
}

/** The permission that a terminal needs: broken glass was opened with its own. */
export function neededToAttach(facts: SessionFacts): readonly PermissionName[] {
  return facts.glassBroken ? ['request', 'self'] : ['request'];
}

async function inTime<T>(answer: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, refuse) => {
    timer = setTimeout(() => refuse(new Error('permissions were not answered in time')), ANSWER_MS);
  });
  return Promise.race([answer, late]).finally(() => clearTimeout(timer));
}
