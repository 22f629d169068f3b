// The example policy (B-3): an app's owners may request and approve on it; admins may do both on
// every app, end anybody's session, and break the glass. What is not named is denied, so the
// grant-only permissions stay with the admins.
import { createBackendModule } from '@backstage/backend-plugin-api';
import {
  catalogConditions,
  createCatalogConditionalDecision,
} from '@backstage/plugin-catalog-backend/alpha';
import { AuthorizeResult, isPermission } from '@backstage/plugin-permission-common';
import { policyExtensionPoint } from '@backstage/plugin-permission-node/alpha';
import {
  breakglassApprovePermission,
  breakglassPermissions,
  breakglassRequestPermission,
} from '@hangar/plugin-breakglass-backend';

const ADMINS = 'group:default/platform-admins';

const allow = { result: AuthorizeResult.ALLOW };
const deny = { result: AuthorizeResult.DENY };

/** Decides who may what; it sees the permission and the person, and the app by conditions only. */
export class ExamplePolicy {
  async handle({ permission }, user) {
    if (permission.name === 'catalog.entity.read') return allow;
    if (!user || !breakglassPermissions.some(ours => isPermission(permission, ours))) return deny;
    const claims = user.info.ownershipEntityRefs;
    if (claims.includes(ADMINS)) return allow;
    const forOwners =
      isPermission(permission, breakglassRequestPermission) ||
      isPermission(permission, breakglassApprovePermission);
    if (!forOwners) return deny;
    return createCatalogConditionalDecision(
      permission,
      catalogConditions.isEntityOwner({ claims }),
    );
  }
}

export const examplePolicyModule = createBackendModule({
  pluginId: 'permission',
  moduleId: 'breakglass-example-policy',
  register(env) {
    env.registerInit({
      deps: { policy: policyExtensionPoint },
      async init({ policy }) {
        policy.setPolicy(new ExamplePolicy());
      },
    });
  },
});
