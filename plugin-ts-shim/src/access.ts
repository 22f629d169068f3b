/**
 * Who is calling, and what Backstage allows them on an app.
 *
 * Invariants: only a person counts, never a service nor a plugin on a person's behalf; every
 * permission is asked for the app's entity; anything but a plain ALLOW is a refusal, and a
 * permission backend that fails is one too.
 */
import type {
  AuthService,
  BackstageCredentials,
  BackstageUserPrincipal,
  HttpAuthService,
  LoggerService,
  PermissionsService,
  UserInfoService,
} from '@backstage/backend-plugin-api';
import {
  AuthenticationError,
  NotAllowedError,
  ServiceUnavailableError,
  toError,
} from '@backstage/errors';
import { AuthorizeResult } from '@backstage/plugin-permission-common';
import type { Request } from 'express';
import type { BreakglassConfig } from './config';
import { breakglassPermissions } from './permissions';
import type { Caller, PermissionName, SessionFacts } from './sidecar/protocol';

/** A person with a verified token. */
export interface User {
  /** The full entity ref, lower case, as it is recorded everywhere. */
  readonly ref: string;
  readonly credentials: BackstageCredentials<BackstageUserPrincipal>;
}

export interface AccessOptions {
  readonly auth: AuthService;
  readonly httpAuth: HttpAuthService;
  readonly userInfo: UserInfoService;
  readonly permissions: PermissionsService;
  readonly config: Pick<BreakglassConfig, 'entityRefOf' | 'reviewers'>;
  readonly logger: LoggerService;
}

export class Access {
  readonly #options: AccessOptions;

  constructor(options: AccessOptions) {
    this.#options = options;
  }

  /** The person behind a request; 401 or 403 for anybody else. */
  async userOfRequest(request: Request): Promise<User> {
    return asPerson(await this.#options.httpAuth.credentials(request, { allow: ['user'] }));
  }

  /** The person behind a token, where there is no Express request. */
  async userOfToken(token: string): Promise<User> {
    const { auth } = this.#options;
    const credentials = await auth.authenticate(token);
    if (!auth.isPrincipal(credentials, 'user')) {
      throw new NotAllowedError(
        'this endpoint is for people: it does not take service credentials',
      );
    }
    return asPerson(credentials);
  }

  /** The catalog entity that permissions on an app are asked for (S-10a). */
  entityRefOf(app: string): string {
    return this.#options.config.entityRefOf(app);
  }

  /** What an audit event says about a session, and how grave an action on it is (B-5). */
  auditedAs({ app, env, glassBroken }: SessionFacts) {
    const severity = glassBroken ? 'critical' : 'medium';
    return { app, entityRef: this.entityRefOf(app), env, severity } as const;
  }

  /** Asks for every permission on the app at once and says what was allowed. */
  async callerFor(user: User, app: string): Promise<Caller> {
    const [allowed, reviewer] = await Promise.all([
      this.#allowed(user, this.entityRefOf(app)),
      this.#isReviewer(user),
    ]);
    return { version: 1, user: user.ref, app, allowed, reviewer, declaredTier: null };
  }

  async #allowed(user: User, resourceRef: string): Promise<readonly PermissionName[]> {
    const questions = breakglassPermissions.map(permission => ({ permission, resourceRef }));
    const answers = await this.#options.permissions
      .authorize(questions, { credentials: user.credentials })
      .catch(cause => {
        throw this.#notAnswered(toError(cause));
      });
    if (answers.length !== questions.length) {
      throw this.#notAnswered(
        new Error(`${answers.length} answers to ${questions.length} questions`),
      );
    }
    return breakglassPermissions
      .filter((_, index) => answers[index]?.result === AuthorizeResult.ALLOW)
      .map(permission => permission.name.replace('tower.breakglass.', '') as PermissionName);
  }

  #notAnswered(cause: Error): Error {
    if ('statusCode' in cause && cause.statusCode === 401) {
      return new AuthenticationError('your sign-in has expired; sign in again');
    }
    this.#options.logger.error('permissions could not be asked, so the caller is refused', cause);
    return new ServiceUnavailableError(
      'break-glass is unavailable: the permission backend does not answer, so nothing is allowed',
    );
  }

  async #isReviewer(user: User): Promise<boolean> {
    const { config, logger, userInfo } = this.#options;
    if (config.reviewers.size === 0) return false;
    try {
      const info = await userInfo.getUserInfo(user.credentials);
      return info.ownershipEntityRefs.some(ref => config.reviewers.has(ref.toLowerCase()));
    } catch (error) {
      // It only adds a right, so its absence is safe.
      logger.warn(
        'group membership could not be read, so the caller is no reviewer',
        toError(error),
      );
      return false;
    }
  }
}

/** Refuses what only looks like a person: another plugin that acts on a person's behalf. */
function asPerson(credentials: BackstageCredentials<BackstageUserPrincipal>): User {
  if (credentials.principal.actor) {
    throw new NotAllowedError(
      'this endpoint is for people: it does not take delegated credentials',
    );
  }
  return { ref: credentials.principal.userEntityRef.toLowerCase(), credentials };
}

/** Refuses a caller without the permission, in the words that the sidecar uses too. */
export function requireAny(caller: Caller, wanted: readonly PermissionName[]): void {
  if (wanted.some(name => caller.allowed.includes(name))) return;
  const [first] = wanted;
  throw new NotAllowedError(
    `\`${caller.user}\` may not do this on app \`${caller.app}\`: ` +
      `the permission \`tower.breakglass.${first}\` is not granted`,
  );
}
