/** Wires the plugin; nothing is decided here (B-2). */
import { coreServices, createBackendPlugin } from '@backstage/backend-plugin-api';
import type { HttpRouterService, LoggerService } from '@backstage/backend-plugin-api';
import { toError } from '@backstage/errors';
import { Access } from './access';
import { Audit } from './audit';
import { readConfig } from './config';
import { Health } from './health';
import { breakglassPermissions } from './permissions';
import { createRouter } from './router';
import { SidecarClient } from './sidecar/SidecarClient';
import { Supervisor } from './supervise';
import { Attach } from './upgrade/attach';
import { UpgradeDispatcher } from './upgrade/dispatcher';
import { TerminalWatch } from './upgrade/watch';

/**
 * The backend plugin `glidepath`. It fails to start only where it is misconfigured; a sidecar
 * that is away is told by its routes, with 503 and a reason (B-1).
 */
export const glidepathPlugin = createBackendPlugin({
  pluginId: 'glidepath',
  register(env) {
    env.registerInit({
      deps: {
        auditor: coreServices.auditor,
        auth: coreServices.auth,
        config: coreServices.rootConfig,
        httpAuth: coreServices.httpAuth,
        httpRouter: coreServices.httpRouter,
        lifecycle: coreServices.lifecycle,
        logger: coreServices.logger,
        permissions: coreServices.permissions,
        permissionsRegistry: coreServices.permissionsRegistry,
        userInfo: coreServices.userInfo,
      },
      async init(services) {
        const { httpRouter, lifecycle, logger } = services;
        const config = readConfig(services.config);
        services.permissionsRegistry.addPermissions(breakglassPermissions);

        const access = new Access({ ...services, config });
        const audit = new Audit(services);
        const sidecar = new SidecarClient({ socketPath: config.socketPath });
        const watch = new TerminalWatch({ access, audit, logger });
        const attach: Attach = new Attach({
          access,
          audit,
          sidecar,
          allowedOrigins: config.allowedOrigins,
          logger,
          watch,
          hold: socket => dispatcher.hold(socket),
        });
        const dispatcher: UpgradeDispatcher = new UpgradeDispatcher({
          logger,
          handle: upgrade => attach.handle(upgrade),
          basePaths: config.basePaths,
          listenPort: config.listenPort,
          hasFrameworkListener: registerAlias(httpRouter, attach, logger),
        });
        const health = new Health(sidecar);
        const first = dispatcher.middleware;
        httpRouter.use(createRouter({ access, audit, health, sidecar, watch, first }));
        httpRouter.addAuthPolicy({ path: '/breakglass/health', allow: 'unauthenticated' });

        const supervisor = config.sidecar && new Supervisor({ command: config.sidecar, logger });
        if (supervisor && process.env.NODE_ENV === 'production') {
          logger.warn(
            '`glidepath.breakglass.sidecar` is for development: every restart of Backstage ' +
              'restarts the sidecar too; run it as a container of its own',
          );
        }
        supervisor?.start();
        lifecycle.addShutdownHook(async () => {
          dispatcher.stop();
          sidecar.close();
          await supervisor?.stop();
        });
      },
    });
  },
});

/**
 * Registers `/breakglass/attach?session=<id>` where Backstage routes WebSockets itself: it takes
 * exact paths only, so the session cannot be part of this one. Says whether it did.
 */
function registerAlias(
  httpRouter: HttpRouterService,
  attach: Attach,
  logger: LoggerService,
): boolean {
  // Backstage before 1.57 does not have it.
  const add: HttpRouterService['addWebSocketHandler'] | undefined = httpRouter.addWebSocketHandler;
  if (!add) return false;
  try {
    add.call(httpRouter, {
      path: '/breakglass/attach',
      // Both paths answer alike, so this one authenticates as the other does.
      authPolicy: 'unauthenticated',
      async handler({ request, socket, head }) {
        const query = new URLSearchParams((request.url ?? '').split('?', 2)[1] ?? '');
        await attach.handle({ request, socket, head, sessionId: query.get('session') ?? '' });
      },
    });
    return true;
  } catch (error) {
    logger.warn('`/breakglass/attach` is not offered: Backstage refuses it', toError(error));
    return false;
  }
}
