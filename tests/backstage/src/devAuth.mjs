// Signs in whoever the header names, without a password: for development and tests only. The
// tokens are Backstage's own, signed, and live an hour.
import { createBackendModule } from '@backstage/backend-plugin-api';
import { AuthenticationError } from '@backstage/errors';
import {
  authProvidersExtensionPoint,
  createProxyAuthenticator,
  createProxyAuthProviderFactory,
} from '@backstage/plugin-auth-node';

/** The header with the name of a user of the catalog. */
export const DEV_USER_HEADER = 'x-dev-user';

const authenticator = createProxyAuthenticator({
  defaultProfileTransform: async ({ name }) => ({ profile: { displayName: name } }),
  initialize() {},
  async authenticate({ req }) {
    const name = req.header(DEV_USER_HEADER) ?? '';
    if (!/^[a-z]{1,32}$/.test(name))
      throw new AuthenticationError(`\`${DEV_USER_HEADER}\` names nobody`);
    return { result: { name } };
  },
});

export const devAuthModule = createBackendModule({
  pluginId: 'auth',
  moduleId: 'dev-provider',
  register(env) {
    env.registerInit({
      deps: { providers: authProvidersExtensionPoint },
      async init({ providers }) {
        if (process.env.NODE_ENV === 'production') {
          throw new Error(
            'the dev sign-in takes anybody for anybody: it does not run in production',
          );
        }
        providers.registerProvider({
          providerId: 'dev',
          factory: createProxyAuthProviderFactory({
            authenticator,
            signInResolver: ({ result }, context) =>
              context.signInWithCatalogUser({ entityRef: { name: result.name } }),
          }),
        });
      },
    });
  },
});
